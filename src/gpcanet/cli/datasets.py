"""The commands ``gpcanet datasets list``, ``info`` and ``fetch``."""

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
        info = about(name)
        size = f"{info.megabytes:,.1f} MB" if info.megabytes else "none"
        counts = (info.n_nodes, info.n_edges, info.n_features, info.n_classes)
        table.add_row(name, *(f"{count:,}" for count in counts), size)
    console.result({"datasets": [dataclasses.asdict(about(name)) for name in names()]}, table)


def show_info(console: Console, name: str) -> None:
    info = about(name)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("name", info.name)
    table.add_row("content", info.summary)
    table.add_row("nodes, edges", f"{info.n_nodes:,}, {info.n_edges:,}")
    table.add_row("features, classes", f"{info.n_features:,}, {info.n_classes:,}")
    table.add_row("split", info.split)
    table.add_row("source", info.source)
    table.add_row("licence", info.licence)
    table.add_row("cite", info.citation)
    console.result(dataclasses.asdict(info), table)


def fetch(console: Console, requested: list[str], data_dir: Path | None) -> None:
    for name in requested:
        about(name)  # raises for an unknown name, before the first download
    for name in requested:
        with console.phase(name):
            data = load(name, data_dir)
        console.note(f"{name}: {data.graph.summary()}")
    fetched = list(dict.fromkeys(requested))
    console.result({"fetched": fetched}, f"ready: {', '.join(fetched)}")
