"""``python -m reproduction``: run the paper's experiments again, and report on them."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpcanet.cli import options as o
from gpcanet.cli.console import Console
from gpcanet.cli.entry import make_app, run_app
from gpcanet.errors import InputError, UserError
from gpcanet.utils.atomic import check_distinct_files

if TYPE_CHECKING:
    from .experiments import RowSpec
    from .journal import Journal
    from .loading import DatasetLoader
    from .results import Summary
    from .schedule import Progress

#: Seconds between two progress notes where no progress bar is drawn.
NOTE_SECONDS = 60.0

app = make_app("reproduction", no_args_is_help=True)


def main() -> None:
    """Run the command line."""
    run_app(app, "reproduction")


@app.command()
def run(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            help="table1, table2, table3, table4, random, figure1, histograms, fewer or scale; "
            "several are possible [all but scale]. figure1, histograms and fewer always follow "
            "protocol paper, table4 does so in place of ours; scale uses generated graphs.",
            show_default=False,
        ),
    ] = None,
    protocols: Annotated[
        str, typer.Option(help="paper, authors-code or ours; several separated by commas [all].")
    ] = "",
    pool: Annotated[
        str, typer.Option(help="full: the paper's settings, days without a GPU. lean: hours.")
    ] = "lean",
    datasets: Annotated[
        str, typer.Option(help="Names separated by commas; also ogbn-arxiv and ogbn-products.")
    ] = "cora,citeseer,pubmed",
    journal: Annotated[
        Path, typer.Option(help="File that every run is appended to; an existing one is continued.")
    ] = Path("reproduce.jsonl"),
    merge: Annotated[
        list[Path] | None,
        typer.Option(metavar="<path>", help="Add the runs of another journal."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of parallel runs [one per core]; use 1 with a GPU.",
            show_default=False,
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Repeat failed runs.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the number of runs and do nothing.")
    ] = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Run the paper's experiments again and compare them with the published numbers.

    It can be interrupted at any time; the same command continues. At the end it prints a table;
    use python -m reproduction report to make a page of a journal. Networks need pip install
    'gpcanet[nn]'.

    python -m reproduction run table1 table2 --datasets cora
    """  # fmt: skip
    from gpcanet.linalg.parallel import available_cores

    from .journal import Journal, read_journals
    from .loading import DatasetLoader
    from .runner import reproduce
    from .schedule import progress_of

    console = Console(quiet=quiet, as_json=as_json)
    check_distinct_files([journal], merge or [])
    specs = _requested_rows(experiments or [], _split(protocols), pool, _split(datasets))
    if dry_run:
        known = [*([journal] if journal.exists() else []), *(merge or [])]
        records = read_journals(known).records
        if retry_failed:
            records = {cell: r for cell, r in records.items() if r["status"] != "failed"}
        progress = progress_of(specs, records, 1)
        console.result(
            {"cells": progress.total, "done": progress.done},
            f"{progress.total} runs, {progress.done} of them done",
        )
        return
    _check_installed(specs)
    if jobs is not None and jobs > available_cores():
        console.note(
            f"{jobs} parallel runs share {available_cores()} cores and slow each other down"
        )
    loader = DatasetLoader(data_dir, offline or None)
    with Journal(journal) as opened:
        if merge:
            console.note(f"added {opened.merge(merge)} records of other journals")
        for note in opened.contents.notes():
            console.note(note)
        if retry_failed:
            opened.forget_failures()
        records = opened.contents.records
        with console.phase("reading data"):
            specs = _available_rows(specs, loader, opened, console)
        try:
            with console.phase("reproducing"):
                reproduce(specs, opened, loader, jobs=jobs, listener=_ProgressNotes(console))
        finally:
            n_runs = sum(cell.setup.method != "load" for cell in records)
            console.note(f"{n_runs} runs are in {journal}")
        _show(console, specs, records)


def _requested_rows(
    experiments: list[str], protocols: list[str], pool: str, datasets: list[str]
) -> list[RowSpec]:
    from gpcanet.utils.checks import check_choice

    from .experiments import EXPERIMENTS, GENERATED, protocols_of, row_specs
    from .pools import PROTOCOLS

    for protocol in protocols:
        check_choice("protocol", protocol, PROTOCOLS)
    found: dict[RowSpec, None] = {}
    for experiment in experiments or [name for name in EXPERIMENTS if name != "scale"]:
        allowed = protocols_of(experiment)
        for protocol in [p for p in protocols or allowed if p in allowed] or allowed[:1]:
            for dataset in GENERATED if experiment == "scale" else datasets:
                found.update(dict.fromkeys(row_specs(experiment, protocol, pool, dataset)))
    if not found:
        raise InputError(
            "there is nothing to run: none of these experiments uses any of these datasets; "
            "choose other experiments or datasets"
        )
    # GPCA takes minutes, networks take hours.
    return sorted(found, key=lambda spec: spec.candidates[0].method != "gpca")


def _check_installed(specs: list[RowSpec]) -> None:
    """Raise before the first run if a required package is missing."""
    setups = {spec.candidates[0] for spec in specs}
    if all(s.method == "gpca" and s.get("draws") != "torch" for s in setups):
        return
    for name in ("torch", "torch_geometric"):
        if find_spec(name) is None:
            raise InputError(
                f"{name} is not installed, and networks and the authors' heads need it; use pip "
                f"install 'gpcanet[nn]'"
            )


def _available_rows(
    specs: list[RowSpec], loader: DatasetLoader, journal: Journal, console: Console
) -> list[RowSpec]:
    """The rows whose dataset can be loaded; what cannot is recorded once in the journal."""
    from .cells import loading_cell
    from .pools import DATASETS

    missing = {}
    for name in dict.fromkeys(s.row.dataset for s in specs if s.row.dataset in DATASETS):
        known = journal.contents.records.get(loading_cell(name))
        try:
            loader.dataset(name)
        except (UserError, OSError) as error:
            missing[name] = error
            console.note(f"{name} is skipped: {error}")
            if known is None:
                reason = {"status": "failed", "reason": str(error), "seconds": 0}
                journal.append(loading_cell(name), reason)
        else:
            if known is not None and known["status"] == "failed":
                journal.append(loading_cell(name), {"status": "done", "seconds": 0})
    available = [spec for spec in specs if spec.row.dataset not in missing]
    if not available and missing:
        raise next(iter(missing.values()))
    return available


class _ProgressNotes:
    """Shows progress as a bar, or as a line per minute where no bar can be drawn."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, time.monotonic()

    def __call__(self, progress: Progress) -> None:
        left = progress.seconds_left
        parts = [
            f"{progress.done} of {progress.total} runs",
            f"{progress.failed} failed" if progress.failed else "",
            "" if left is None else f"{duration(left)} left",
        ]
        text = ", ".join(filter(None, parts))
        if self._console.draws:
            self._console.progress("runs", progress.done, progress.total, text)
        elif time.monotonic() - self._last > NOTE_SECONDS:
            self._last = time.monotonic()
            self._console.note(text)


def duration(seconds: float) -> str:
    """
    >>> duration(40), duration(200), duration(9000)
    ('40 s', '3 min', '2 h 30 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _show(console: Console, specs: list[RowSpec], records: Any) -> None:
    from .summary import summarize

    summary = summarize(specs, records)
    console.result(
        {
            "results": [result.to_json() for result in summary.results],
            "missing": [row.to_json() for row in summary.missing],
            "failed": [failure.to_json() for failure in summary.failed],
            "runs": summary.n_runs,
            "seconds": summary.seconds,
        },
        _table(summary),
    )
    if summary.failed:
        console.note(f"{len(summary.failed)} runs failed; use --retry-failed to repeat them")


def _table(summary: Summary) -> Any:
    from rich.table import Table

    from .display_names import row_label
    from .sections import mean_and_sd
    from .verdicts import compare_with_published

    table = Table("", "data", "protocol", "pool", "row", box=None, pad_edge=False)
    for name in ("published", "reproduced", "difference"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for result in summary.results:
        row, found = result.row, compare_with_published(result)
        published = "" if found is None else f"{found.published.mean:.2f}"
        difference = "" if found is None else f"{found.difference:+.2f}"
        table.add_row(
            row.experiment, row.dataset, row.protocol, result.pool, row_label(row),
            published, mean_and_sd(result), difference, "" if found is None else found.verdict,
        )  # fmt: skip
    return table


@app.command()
def report(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Journals of runs and summaries (.json), which are merged."),
    ],
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for the report.")] = Path(
        "report"
    ),
    name: Annotated[str, typer.Option(help="Name of the files, without suffix.")] = "report",
    notes: Annotated[
        list[str] | None,
        typer.Option("--note", metavar="<text>", help="A note that is kept in the summary."),
    ] = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Write a report on the reproduction, as HTML, Markdown and JSON.

    The HTML page is one file and needs no network. It needs pip install --group pages.

    python -m reproduction report reproduce.jsonl -o report
    """
    from .report import read_summary, write_report

    if Path(name).name != name or name == "..":
        raise InputError(f"--name {name!r} must be a name without folders; use --output for these")
    console = Console(quiet=quiet, as_json=as_json)
    summary = read_summary(sources, console.note)
    summary = replace(summary, notes=tuple(dict.fromkeys([*summary.notes, *(notes or [])])))
    # A summary may be rendered again in its own folder, where it is written unchanged.
    content = summary.to_json()
    changed = [source for source in sources if source.read_bytes() != content]
    check_distinct_files(
        [folder / f"{name}.{suffix}" for suffix in ("html", "md", "json")], changed
    )
    folder.mkdir(parents=True, exist_ok=True)
    with console.phase("writing the report"):
        written = write_report(summary, folder, name, overwrite=force)
    console.result(
        {"files": [str(path) for path in written], "results": len(summary.results)},
        *[str(path) for path in written],
    )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


if __name__ == "__main__":
    main()
