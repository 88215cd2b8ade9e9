"""gpcanet bench."""

from __future__ import annotations

from pathlib import Path

from ..atomic import check_target
from ..bench.results import (
    PARTS,
    PICTURE,
    check_names,
    read_all,
    run_part,
    write_json,
    write_page,
)
from ..bench.setting import SIZES, Setting
from ..datasets.places import cache_dir
from ..errors import InputError
from .console import Console


def run(
    console: Console,
    parts: list[str],
    *,
    size: str,
    repeats: int | None,
    out: Path,
    docs: Path | None,
    work_dir: Path | None,
    page_only: bool,
    force: bool,
    data_dir: Path | None,
    offline: bool | None,
) -> None:
    parts = parts or list(PARTS)
    check_names(parts, size)
    known = read_all(out)  # damaged files are reported now, not after an hour
    if page_only:
        parts = []
        if not known:
            raise InputError(f"folder {out} holds no results of gpcanet bench; measure first")
    out.mkdir(parents=True, exist_ok=True)
    files = {name: out / f"{name}.json" for name in parts}
    for path in files.values():
        check_target(path, overwrite=force)

    setting = Setting(
        size=SIZES[size],
        repeats=repeats or SIZES[size].repeats,
        work_dir=work_dir or cache_dir() / "bench",
        tell=console.note,
        data_dir=data_dir,
        offline=offline,
    )
    for number, name in enumerate(parts, 1):
        console.note(f"{name} ({number} of {len(parts)})")
        # No bar is drawn meanwhile: its thread would take its share of the cores.
        write_json(files[name], run_part(name, size, setting), overwrite=force)
    results = read_all(out)
    pages = write_page(results, docs or out)
    if "growth" in results and len(pages) == 1:
        console.note(f"No {PICTURE}: matplotlib is missing; pip install 'gpcanet[report]'.")
    written = [str(path) for path in (*files.values(), *pages)]
    measured = {name: results[name] for name in parts or results}
    console.result({"parts": measured, "written": written}, pages[0].read_text().rstrip("\n"))
