"""Results of parts as files: one JSON a part, and a page and a picture made of all of them."""

from __future__ import annotations

import importlib
import json
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpcanet.errors import InputError
from gpcanet.utils.atomic import atomic_file

from .machine import machine, versions
from .page import page
from .setting import SIZES, Setting

#: The parts in the order they run, the quickest first, and the module of each.
PARTS = {
    "step": "step",
    "bandwidth": "bandwidth",
    "path": "path",
    "embed": "embed",
    "command": "command",
    "generate": "generating",
    "products": "products",
    "growth": "growth",
}

#: As the page names it.
PAGE, PICTURE = "performance.md", "images/growth.png"


def run_part(name: str, size: str, setting: Setting) -> dict[str, Any]:
    """A part's results together with what they were measured on."""
    before = {"machine": machine(), "versions": versions()}
    part = importlib.import_module(f".{PARTS[name]}", __package__)
    return {
        "part": name,
        "size": size,
        "repeats": setting.repeats,
        "date": date.today().isoformat(),
        **before,
        "results": part.run(setting),
    }


def check_names(parts: list[str], size: str) -> None:
    for name in parts:
        if name not in PARTS:
            raise InputError(f"part {name!r} is not known; there are {', '.join(PARTS)}")
    if size not in SIZES:
        raise InputError(f"size {size!r} is not known; there are {', '.join(SIZES)}")


def write_json(path: Path, values: dict[str, Any], *, overwrite: bool) -> None:
    with atomic_file(path, overwrite=overwrite) as file:
        file.write((json.dumps(values, indent=2, allow_nan=False) + "\n").encode())


def read_all(folder: Path) -> dict[str, dict[str, Any]]:
    """Whatever results there are in a folder, in the order of the parts."""
    files = {name: folder / f"{name}.json" for name in PARTS}
    return {name: _read(path, name) for name, path in files.items() if path.exists()}


def _read(path: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("part") != name or "results" not in found:
        raise InputError(
            f"{path} holds no results of python -m benchmarks; delete it, or name another folder"
        )
    return found


def write_page(results: dict[str, dict[str, Any]], folder: Path) -> list[Path]:
    """The page, and the picture if there is something to draw and to draw with."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / PAGE]
    with atomic_file(folder / PAGE, overwrite=True) as file:
        file.write(page(results).encode())
    if "growth" in results and find_spec("matplotlib") is not None:
        from .picture import draw_growth

        (folder / PICTURE).parent.mkdir(exist_ok=True)
        with atomic_file(folder / PICTURE, overwrite=True) as file:
            draw_growth(results["growth"]["results"], file)
        written.append(folder / PICTURE)
    return written
