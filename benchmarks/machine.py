"""The machine and the package versions of a measurement."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gpcanet import __version__
from gpcanet.linalg.parallel import available_cores

#: Packages whose versions are recorded.
PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba",
    "torch", "torch-geometric", "scikit-network", "st-graphpca", "bokeh",
)  # fmt: skip


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system and load average."""
    return {
        "cpu": _proc("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": available_cores(),
        "memory_gib": _memory_gib(),
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def versions() -> dict[str, str | None]:
    """Versions of the packages; None for those that are not installed."""
    found: dict[str, str | None] = {"gpcanet": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _memory_gib() -> float | None:
    total = _proc("/proc/meminfo", "MemTotal")
    return round(int(total.split()[0]) / 2**20, 1) if total else None


def _proc(path: str, field: str) -> str | None:
    """A field of a file in /proc; None on other systems."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return None
