"""The parts of the benchmarks, the files of their results, and the page."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from gpcanet.errors import InputError
from gpcanet.utils.atomic import atomic_file

from .config import SIZES, Config
from .figures import draw_deep_gcn, draw_growth
from .machine import machine, versions
from .page import page

#: The module of each part, in the order in which the parts run.
PARTS = {
    "step": "step",
    "bandwidth": "bandwidth",
    "eigen": "eigen",
    "path": "path",
    "embed": "embed",
    "tissue": "tissue",
    "prediction": "prediction",
    "command": "command",
    "first_use": "first_use",
    "generate": "generation",
    "large_graph": "large_graph",
    "growth": "growth",
    "gcn_epoch": "gcn_epoch",
    "training": "training",
    "cluster_gcn": "cluster_gcn",
    "deep_gcn": "deep_gcn",
    "architectures": "architectures",
    "explore": "explore",
    "workers": "workers",
    "worker_memory": "worker_memory",
    "id_mapping": "id_mapping",
    "distributed": "distributed",
}

PAGE = "performance.md"

#: File and drawing function of the parts that have a figure.
FIGURES: dict[str, tuple[str, Callable[[dict[str, Any], IO[bytes]], None]]] = {
    "growth": ("images/growth.png", draw_growth),
    "deep_gcn": ("images/deep.png", draw_deep_gcn),
}


#: Parts that go on from earlier results and write theirs while they run.
RESUMABLE = ("prediction", "deep_gcn", "architectures")


def run_part(name: str, size: str, config: Config, *, path: Path, overwrite: bool) -> None:
    """Run a part and write its results, with the machine and versions."""
    part = importlib.import_module(f".{PARTS[name]}", __package__)
    header = {
        "part": name,
        "size": size,
        "repeats": getattr(part, "REPEATS", config.repeats),
        "date": date.today().isoformat(),
        "machine": machine(),
        "versions": versions(),
    }

    def save(results: dict[str, Any], overwrite: bool = True) -> None:
        write_json(path, header | {"results": results}, overwrite=overwrite)

    if name in RESUMABLE:
        overwrite = True
        earlier = _read(path, name)["results"] if path.exists() else {}
        config = replace(config, earlier=earlier, save=save)
    save(part.run(config), overwrite)


def check_names(parts: list[str], size: str) -> None:
    for name in parts:
        if name not in PARTS:
            raise InputError(f"part {name!r} is unknown; use {', '.join(PARTS)}")
    if size not in SIZES:
        raise InputError(f"size {size!r} is unknown; use {', '.join(SIZES)}")


def write_json(path: Path, values: dict[str, Any], *, overwrite: bool) -> None:
    """Write indented JSON, with lists of numbers on one line."""
    text = json.dumps(values, indent=2, allow_nan=False)
    text = re.sub(r"\[[-+.e\d,\s]+\]", lambda found: " ".join(found[0].split()), text)
    with atomic_file(path, overwrite=overwrite) as file:
        file.write((text + "\n").encode())


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """All results in a folder, in the order of the parts."""
    paths = {name: folder / f"{name}.json" for name in PARTS}
    return {name: _read(path, name) for name, path in paths.items() if path.exists()}


def _read(path: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("part") != name or "results" not in found:
        raise InputError(
            f"{path} contains no results of python -m benchmarks; delete it or use another folder"
        )
    return found


def write_page(parts: dict[str, dict[str, Any]], folder: Path) -> list[Path]:
    """Write the page, and its figures if matplotlib is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / PAGE]
    with atomic_file(folder / PAGE, overwrite=True) as file:
        file.write(page(parts).encode())
    if find_spec("matplotlib") is None:
        return written
    for name, (path, draw) in FIGURES.items():
        if name in parts:
            (folder / path).parent.mkdir(exist_ok=True)
            with atomic_file(folder / path, overwrite=True) as file:
                draw(parts[name]["results"], file)
            written.append(folder / path)
    return written
