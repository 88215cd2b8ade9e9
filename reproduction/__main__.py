"""``python -m reproduction``: the paper's experiments run again, and the report on them."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpcanet.cli import options as o
from gpcanet.cli.console import Console
from gpcanet.cli.entry import run_app
from gpcanet.errors import InputError, UserError
from gpcanet.utils.atomic import check_distinct_files

if TYPE_CHECKING:
    from .data import Source
    from .entries import Entry
    from .journal import Journal
    from .runner import State

#: Seconds between two notes where no bar can be drawn.
NOTE_SECONDS = 60.0

app = typer.Typer(
    name="reproduction",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line."""
    run_app(app, "reproduction")


@app.command()
def run(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Some of table1, table2, table3, table4, random, figure1, histograms, fewer, "
            "scale [all but scale]. table4, figure1, histograms and fewer always follow protocol "
            "paper; scale is on generated graphs.",
            show_default=False,
        ),
    ] = None,
    protocols: Annotated[
        str, typer.Option(help="Some of paper, authors-code, ours, with commas between [all].")
    ] = "",
    pool: Annotated[
        str, typer.Option(help="full: the paper's, days without a GPU. lean: hours.")
    ] = "lean",
    datasets: Annotated[
        str, typer.Option(help="Names with commas between; also ogbn-arxiv and ogbn-products.")
    ] = "cora,citeseer,pubmed",
    journal: Annotated[
        Path, typer.Option(help="File that every run is added to, and gone on from.")
    ] = Path("reproduce.jsonl"),
    merge: Annotated[
        list[Path] | None,
        typer.Option(metavar="<path>", help="Take over what another journal has."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Runs at a time [one a core]; 1 where they share a GPU.", show_default=False
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run again what has failed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what there is to run.")
    ] = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Run the paper's experiments again, beside its numbers.

    May be stopped at any time; the same command goes on where it was. Ends with a table;
    python -m reproduction report makes a page of a journal. Networks need pip install
    'gpcanet[nn]'.

    python -m reproduction run table1 table2 --datasets cora
    """
    from gpcanet.linalg.parallel import given_cores

    from .data import Source
    from .journal import Journal, read_journals
    from .runner import reproduce, state_of

    console = Console(quiet=quiet, as_json=as_json)
    check_distinct_files([journal], merge or [])
    entries = _entries(experiments or [], _split(protocols), pool, _split(datasets))
    if dry_run:
        known = [*([journal] if journal.exists() else []), *(merge or [])]
        records = read_journals(known).records
        if retry_failed:
            records = {cell: r for cell, r in records.items() if r["status"] != "failed"}
        state = state_of(entries, records, 1)
        console.result(
            {"cells": state.total, "done": state.done},
            f"{state.total} runs, {state.done} of them done",
        )
        return
    _check_installed(entries)
    if jobs is not None and jobs > given_cores():
        console.note(f"{jobs} runs at a time on {given_cores()} cores will wait for each other")
    source = Source(data_dir, offline or None)
    with Journal(journal) as opened:
        if merge:
            console.note(f"{opened.merge(merge)} records taken over")
        for note in opened.contents.notes():
            console.note(note)
        if retry_failed:
            opened.forget_failures()
        records = opened.contents.records
        with console.phase("reading data"):
            entries = _reachable(entries, source, opened, console)
        try:
            with console.phase("reproducing"):
                reproduce(entries, opened, source, jobs=jobs, listener=_Progress(console))
        finally:
            n_runs = sum(cell.setup.method != "load" for cell in records)
            console.note(f"{n_runs} runs are in {journal}")
        _show(console, entries, records)


def _entries(
    experiments: list[str], protocols: list[str], pool: str, datasets: list[str]
) -> list[Entry]:
    from gpcanet.utils.checks import check_choice

    from .entries import EXPERIMENTS, GENERATED, OF_ONE_PROTOCOL, PROTOCOLS, entries_of

    for protocol in protocols:
        check_choice("protocol", protocol, PROTOCOLS)
    found: dict[Entry, None] = {}
    for experiment in experiments or [name for name in EXPERIMENTS if name != "scale"]:
        one = experiment in OF_ONE_PROTOCOL
        for protocol in [PROTOCOLS[0]] if one else protocols or PROTOCOLS:
            for dataset in GENERATED if experiment == "scale" else datasets:
                found.update(dict.fromkeys(entries_of(experiment, protocol, pool, dataset)))
    if not found:
        raise InputError("there is nothing to run: none of these experiments is for these datasets")
    # What takes minutes comes before what takes hours.
    return sorted(found, key=lambda entry: entry.candidates[0].method != "gpca")


def _check_installed(entries: list[Entry]) -> None:
    """Before the first of hundreds of runs fails for it."""
    setups = {entry.candidates[0] for entry in entries}
    if all(s.method == "gpca" and s.get("draws") != "torch" for s in setups):
        return
    for name in ("torch", "torch_geometric"):
        if find_spec(name) is None:
            raise InputError(
                f"{name} is not installed; pip install 'gpcanet[nn]' brings what networks and the "
                f"authors' heads need"
            )


def _reachable(
    entries: list[Entry], source: Source, journal: Journal, console: Console
) -> list[Entry]:
    """Those whose data can be had here; what cannot is told and noted once, not once a run."""
    from .cells import loading
    from .entries import DATASETS

    missing = {}
    for name in dict.fromkeys(e.dataset for e in entries if e.dataset in DATASETS):
        known = journal.contents.records.get(loading(name))
        try:
            source.dataset(name)
        except (UserError, OSError) as error:
            missing[name] = error
            console.note(f"{name} is left out: {error}")
            if known is None:
                reason = {"status": "failed", "reason": str(error), "seconds": 0}
                journal.append(loading(name), reason)
        else:
            if known is not None and known["status"] == "failed":
                journal.append(loading(name), {"status": "done", "seconds": 0})
    left = [entry for entry in entries if entry.dataset not in missing]
    if not left and missing:
        raise next(iter(missing.values()))
    return left


class _Progress:
    """Tells how far a reproduction is: a bar where one can be drawn, else a line a minute."""

    def __init__(self, console: Console) -> None:
        self._console, self._told = console, time.monotonic()

    def __call__(self, state: State) -> None:
        left = "" if state.seconds_left is None else f", {duration(state.seconds_left)} left"
        failed = f", {state.failed} failed" if state.failed else ""
        text = f"{state.done} of {state.total} runs{failed}{left}"
        if self._console.draws:
            self._console.progress("runs", state.done, state.total, text)
        elif time.monotonic() - self._told > NOTE_SECONDS:
            self._told = time.monotonic()
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


def _show(console: Console, entries: list[Entry], records: Any) -> None:
    from .summary import summarise

    summary = summarise(entries, records)
    console.result(
        {name: summary[name] for name in ("numbers", "comparisons", "missing", "failed", "total")},
        _table(summary["numbers"]),
    )
    if summary["failed"]:
        console.note(f"{len(summary['failed'])} runs have failed; --retry-failed runs them again")


def _table(numbers: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    from .blocks import mean_sd

    table = Table("", "data", "protocol", "pool", "row", box=None, pad_edge=False)
    for name in ("published", "here", "difference"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for n in numbers:
        published = n.get("published")
        told = ("", "", "")
        if published is not None:
            told = f"{published[0]:.2f}", f"{n['difference']:+.2f}", n["verdict"]
        where = n["experiment"], n["dataset"], n["protocol"], n["pool"], n["row"]
        table.add_row(*where, told[0], mean_sd(n), *told[1:])
    return table


@app.command()
def report(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Journals of runs, and summaries of others (.json), together.",
        ),
    ],
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for the report.")] = Path(
        "report"
    ),
    name: Annotated[str, typer.Option(help="What its files are called.")] = "report",
    notes: Annotated[
        list[str] | None,
        typer.Option("--note", metavar="<text>", help="A remark of yours, kept in the summary."),
    ] = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Tell what was reproduced, as a page, as Markdown and as JSON.

    The page is one file of HTML and needs no network. Needs pip install 'gpcanet[report]'.

    python -m reproduction report reproduce.jsonl -o report
    """
    from .report import read_summary, to_json, write_report

    console = Console(quiet=quiet, as_json=as_json)
    summary = read_summary(sources, console.note)
    summary["notes"] = list(dict.fromkeys([*summary["notes"], *(notes or [])]))
    # A summary may be rendered again in place: it is written as it was.
    changed = [source for source in sources if source.read_bytes() != to_json(summary)]
    check_distinct_files(
        [folder / f"{name}.{suffix}" for suffix in ("html", "md", "json")], changed
    )
    folder.mkdir(parents=True, exist_ok=True)
    with console.phase("writing the report"):
        written = write_report(summary, folder, name, overwrite=force)
    console.result(
        {"files": [str(path) for path in written], "numbers": len(summary["numbers"])},
        *[str(path) for path in written],
    )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


if __name__ == "__main__":
    main()
