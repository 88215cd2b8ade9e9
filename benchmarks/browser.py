"""Headless Chromium for tests and timings of pages."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Nothing of the browser itself may use the network. Drawing is by software.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
)  # fmt: skip

#: Seconds that a page may take to open, or a script to end.
LONGEST_WAIT = 120


def missing_browser() -> str | None:
    """Why no browser can be used; None if it can."""
    for program in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",)):
        if not any(shutil.which(name) for name in program):
            return f"{program[0]} is not installed (Debian: chromium and chromium-driver)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    return None


@contextmanager
def open_browser(width: int = 1280, height: int = 860) -> Iterator[Any]:
    """A driver of a headless browser with an empty profile."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    options.binary_location = next(path for path in found if path)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--window-size={width},{height}", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            driver.set_script_timeout(LONGEST_WAIT)
            driver.set_page_load_timeout(LONGEST_WAIT)
            set_width(driver, width, height)
            yield driver
        finally:
            driver.quit()


def set_width(driver: Any, width: int, height: int = 860) -> None:
    """Set the size of the page; windows of a browser have a smallest width."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def wait_until(driver: Any, condition: str) -> None:
    """Wait until a JavaScript expression is true."""
    end = time.monotonic() + LONGEST_WAIT
    while not driver.execute_script(f"return Boolean({condition})"):
        if time.monotonic() > end:
            raise TimeoutError(condition)
        time.sleep(0.02)


def open_page(driver: Any, path: Path) -> None:
    """Open a page of the explorer and wait until its nodes are drawn."""
    driver.get(path.resolve().as_uri())
    wait_until(driver, "window.explorer && explorer.state.frames > 0")
