"""What a report is made of, and what it calls things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Summary = dict[str, Any]
Number = dict[str, Any]

NAMES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "arxiv-size": "a generated graph of the size of ogbn-arxiv",
    "products-size": "a generated graph of the size of ogbn-products",
}

TITLES = {
    "table1": "Table 1: GPCA over alpha, beside GCN",
    "table2": "Table 2: supervised GPCA over beta",
    "table3": "Table 3: GPCANet of one to three layers, beside GCN",
    "table4": "Table 4: what GCNs of growing depth make of their first weights",
    "random": "Random splits: paired differences",
    "figure1": "Figure 1: GPCANet over layers and alpha",
    "histograms": "Histograms over seeds (the paper's Figures 2 to 5)",
    "fewer": "Fewer labels a class",
    "scale": "Scale test on generated graphs",
}


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Items:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Box:
    """A cell of a table: a line, smaller ones below it, and a verdict that colours it."""

    text: str
    detail: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Table:
    header: tuple[str, ...]
    rows: tuple[tuple[Box, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    name: str
    alt: str
    caption: str


Block = Heading | Text | Items | Table | Picture


def called(dataset: str) -> str:
    return NAMES.get(dataset, dataset)


def in_short(experiment: str) -> str:
    """
    >>> in_short("table1")
    'Table 1'
    """
    return TITLES[experiment].split(":")[0]


def mean_sd(number: Number) -> str:
    """What a number came to, its spread, and how many of its runs have failed."""
    spread = f"({number['sd']:.2f})" if len(number["values"]) > 1 else "(one run)"
    failed = f", {number['failed']} failed" if number["failed"] else ""
    return f"{number['mean']:.2f} {spread}{failed}"


# -- what the name of a row says, as entries.py writes it ---------------------------------------


def layers_of(row: str) -> int:
    """
    >>> layers_of("15 layers, GPCA")
    15
    """
    return int(row.split()[0])


def init_of(row: str) -> str:
    """
    >>> init_of("2 layers, Xavier, 5 labels a class")
    'Xavier'
    """
    return row.split(", ")[1]


def alpha_of(row: str) -> float:
    """
    >>> alpha_of("2 layers, alpha = 0.5")
    0.5
    """
    return float(row.split("= ")[1])


def labels_of(row: str) -> int:
    """
    >>> labels_of("2 layers, Xavier, 5 labels a class")
    5
    """
    return int(row.split(", ")[2].split()[0])
