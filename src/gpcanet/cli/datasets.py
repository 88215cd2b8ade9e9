"""gpcanet datasets list | info | fetch."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from rich.table import Table

from ..datasets import about, load, names
from .console import Console


def show_list(console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "nodes", "edges", "features", "classes", "download"):
        table.add_column(column, justify="left" if column == "name" else "right")
    for name in names():
        of = about(name)
        size = f"{of.megabytes:,.1f} MB" if of.megabytes else "none"
        counts = (of.n_nodes, of.n_edges, of.n_features, of.n_classes)
        table.add_row(name, *(f"{count:,}" for count in counts), size)
    console.result({"datasets": [dataclasses.asdict(about(name)) for name in names()]}, table)


def show_info(console: Console, name: str) -> None:
    of = about(name)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("name", of.name)
    table.add_row("what", of.summary)
    table.add_row("nodes, edges", f"{of.n_nodes:,}, {of.n_edges:,}")
    table.add_row("features, classes", f"{of.n_features:,}, {of.n_classes:,}")
    table.add_row("split", of.split)
    table.add_row("source", of.source)
    table.add_row("licence", of.licence)
    table.add_row("cite", of.citation)
    console.result(dataclasses.asdict(of), table)


def fetch(console: Console, wanted: list[str], data_dir: Path | None) -> None:
    for name in wanted:
        about(name)  # a wrong name is told before the first download
    fetched = {}
    for name in wanted:
        with console.phase(name):
            data = load(name, data_dir, progress=console.progress)
        fetched[name] = data.graph.n_nodes
        console.note(f"{name}: {data.graph.summary()}")
    console.result({"fetched": list(fetched)}, f"ready: {', '.join(fetched)}")
