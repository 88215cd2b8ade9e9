"""``python -m benchmarks``: speed and memory beside what one would use instead."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpcanet.cli import options as o
from gpcanet.cli.console import Console
from gpcanet.cli.entry import run_app
from gpcanet.datasets.environment import cache_dir
from gpcanet.errors import InputError
from gpcanet.utils.atomic import check_target

from .runs import PARTS, PICTURE, check_names, read_all, run_part, write_json, write_page
from .setting import SIZES, Setting

app = typer.Typer(
    name="benchmarks",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line."""
    run_app(app, "benchmarks")


@app.command()
def bench(
    parts: Annotated[
        str,
        typer.Option(
            help="Some of step, bandwidth, path, embed, command, generate, products, growth, "
            "with commas between [all]."
        ),
    ] = "",
    size: Annotated[
        str,
        typer.Option(help="quick (a minute, means nothing), small (minutes) or full (an hour)."),
    ] = "small",
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Times each is run again [by size: 1, 3 or 7].")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for a JSON file a part.")] = Path("bench"),
    docs: Annotated[
        Path | None, typer.Option(help="Folder for the page and its picture [that of --out].")
    ] = None,
    work_dir: Annotated[
        Path | None, typer.Option(help="Folder for generated graphs, kept [the cache].")
    ] = None,
    page_only: Annotated[
        bool, typer.Option("--page-only", help="Measure nothing; write the page anew.")
    ] = False,
    force: o.Force = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Measure speed and memory beside what one would use instead.

    Peers that are not installed are skipped by name; pip install 'gpcanet[bench]' brings them.
    """
    run(
        Console(quiet=quiet, as_json=as_json),
        [part.strip() for part in parts.split(",") if part.strip()],
        size=size,
        repeats=repeats,
        out=out,
        docs=docs,
        work_dir=work_dir,
        page_only=page_only,
        force=force,
        data_dir=data_dir,
        offline=offline or None,
    )


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
            raise InputError(f"folder {out} holds no results; measure first")
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


if __name__ == "__main__":
    main()
