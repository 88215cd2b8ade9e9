"""``python -m benchmarks``: measure speed and memory, compared with other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpcanet.cli import options as o
from gpcanet.cli.console import Console
from gpcanet.cli.entry import make_app, run_app
from gpcanet.datasets.environment import cache_dir
from gpcanet.errors import InputError
from gpcanet.utils.atomic import check_target
from gpcanet.utils.checks import check_choice

from .config import SIZES, STAGES, Config
from .parts import FIGURES, PARTS, RESUMABLE, check_names, read_results, run_part, write_page

app = make_app("benchmarks")


def main() -> None:
    """Run the command line."""
    run_app(app, "benchmarks")


@app.command()
def bench(
    parts: Annotated[
        str,
        typer.Option(
            help="step, bandwidth, eigen, path, embed, tissue, prediction, command, first_use, "
            "generate, large_graph, growth, gcn_epoch, training, cluster_gcn, deep_gcn or "
            "architectures; several separated by commas [all]."
        ),
    ] = "",
    size: Annotated[
        str,
        typer.Option(help="quick (a minute, only a test), small (minutes) or full (two hours)."),
    ] = "small",
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Number of repeats [by size: 1, 3 or 7].")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the results, one JSON file per part.")
    ] = Path("bench"),
    docs: Annotated[
        Path | None, typer.Option(help="Folder for the page and its figures [that of --out].")
    ] = None,
    work_dir: Annotated[
        Path | None, typer.Option(help="Folder in which generated graphs are kept [the cache].")
    ] = None,
    datasets: Annotated[
        str, typer.Option(help="Graphs of the part prediction, separated by commas [all].")
    ] = "",
    methods: Annotated[
        str, typer.Option(help="Methods of the part prediction, separated by commas [all].")
    ] = "",
    stages: Annotated[
        str,
        typer.Option(
            help="Stages of the part prediction: scores, seconds (needs a quiet machine)."
        ),
    ] = ",".join(STAGES),
    again: Annotated[
        bool,
        typer.Option("--again", help="Measure what earlier results of the part prediction have."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Trainings at a time of deep_gcn and architectures [one per core]."
        ),
    ] = None,
    page_only: Annotated[
        bool, typer.Option("--page-only", help="Only write the page from existing results.")
    ] = False,
    force: o.Force = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Measure speed and memory, compared with other libraries.

    Libraries that are not installed are skipped; pip install --group bench installs them.
    deep_gcn and architectures go on from the results in --out; delete the file to start again.
    """
    run(
        Console(quiet=quiet, as_json=as_json),
        list(_listed(parts)),
        size=size,
        repeats=repeats,
        out=out,
        docs=docs,
        work_dir=work_dir,
        datasets=_listed(datasets),
        methods=_listed(methods),
        stages=_listed(stages),
        again=again,
        jobs=jobs,
        page_only=page_only,
        force=force,
        data_dir=data_dir,
        offline=offline or None,
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def run(
    console: Console,
    parts: list[str],
    *,
    size: str,
    repeats: int | None,
    out: Path,
    docs: Path | None,
    work_dir: Path | None,
    datasets: tuple[str, ...],
    methods: tuple[str, ...],
    stages: tuple[str, ...],
    again: bool,
    jobs: int | None,
    page_only: bool,
    force: bool,
    data_dir: Path | None,
    offline: bool | None,
) -> None:
    parts = parts or list(PARTS)
    check_names(parts, size)
    for stage in stages:
        check_choice("stages", stage, STAGES)
    earlier = read_results(out)  # damaged files are reported before measuring
    if page_only:
        parts = []
        if not earlier:
            raise InputError(f"folder {out} contains no results; measure first")
    out.mkdir(parents=True, exist_ok=True)
    files = {name: out / f"{name}.json" for name in parts}
    for name, path in files.items():
        check_target(path, overwrite=force or name in RESUMABLE)

    config = Config(
        size=SIZES[size],
        repeats=repeats or SIZES[size].repeats,
        work_dir=work_dir or cache_dir() / "bench",
        log=console.note,
        data_dir=data_dir,
        offline=offline,
        datasets=datasets,
        methods=methods,
        stages=stages,
        again=again,
        jobs=jobs,
    )
    for number, name in enumerate(parts, 1):
        console.note(f"{name} ({number} of {len(parts)})")
        # Without a progress bar, whose thread would disturb the measurement.
        run_part(name, size, config, path=files[name], overwrite=force)
    results = read_results(out)
    pages = write_page(results, docs or out)
    if any(name in results for name in FIGURES) and len(pages) == 1:
        console.note("figures need matplotlib; use pip install --group pages")
    written = [str(path) for path in (*files.values(), *pages)]
    measured = {name: results[name] for name in parts or results}
    console.result({"parts": measured, "written": written}, pages[0].read_text().rstrip("\n"))


if __name__ == "__main__":
    main()
