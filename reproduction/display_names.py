"""Display names of datasets, experiments and rows. They are only written, never parsed."""

from __future__ import annotations

from typing import NamedTuple

from .experiments import Row

DATASET_NAMES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "arxiv-size": "generated graph of the size of ogbn-arxiv",
    "products-size": "generated graph of the size of ogbn-products",
}

METHOD_NAMES = {"gcn": "GCN", "gpca": "GPCA", "gpcanet": "GPCANet"}

INIT_NAMES = {"xavier": "Xavier", "gpca": "GPCA", "he": "He", "orthogonal": "orthogonal"}


class Title(NamedTuple):
    """Title of an experiment; ``short`` is used in tables."""

    short: str
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.short}: {self.subject}" if self.subject else self.short


TITLES = {
    "table1": Title("Table 1", "GPCA by alpha, compared with GCN"),
    "table2": Title("Table 2", "supervised GPCA by beta"),
    "table3": Title("Table 3", "GPCANet of one to three layers, compared with GCN"),
    "table4": Title("Table 4", "initialisation of GCNs by depth"),
    "random": Title("Random splits", "paired differences"),
    "figure1": Title("Figure 1", "GPCANet by number of layers and alpha"),
    "histograms": Title("Histograms over seeds", "Figures 2 to 5 of the paper"),
    "fewer": Title("Fewer labels per class"),
    "scale": Title("Scaling test", "generated graphs"),
}


def dataset_name(dataset: str) -> str:
    return DATASET_NAMES.get(dataset, dataset)


def method_label(row: Row) -> str:
    """
    >>> method_label(Row("table2", "paper", "cora", "gpca", supervised=True))
    'Supervised GPCA'
    """
    if row.supervised:
        return f"Supervised {METHOD_NAMES[row.method]}"
    if row.experiment == "table2" and row.method == "gpca":
        return "Unsupervised GPCA"
    return METHOD_NAMES[row.method]


def row_label(row: Row) -> str:
    """
    >>> row_label(Row("table1", "paper", "cora", "gpca", alpha=10))
    'GPCA, alpha = 10'
    >>> row_label(Row("fewer", "paper", "cora", "gcn", layers=2, init="he", labels_per_class=5))
    '2 layers, He, 5 labels per class'
    """
    if row.layers is None:
        parts = [method_label(row)]
    else:
        scale = ["GCN"] if row.experiment == "scale" else []
        parts = [*scale, layers_label(row.layers)]
    if row.init is not None:
        parts.append(INIT_NAMES[row.init])
    if row.alpha is not None:
        parts.append(f"alpha = {row.alpha:g}")
    elif row.experiment == "table1" and row.method == "gpca":
        parts.append("alpha selected")
    if row.beta is not None:
        parts.append(f"beta = {row.beta:g}")
    elif row.experiment == "table2" and row.supervised:
        parts.append("beta selected")
    if row.labels_per_class is not None:
        parts.append(f"{row.labels_per_class} labels per class")
    return ", ".join(parts)


def layers_label(layers: int) -> str:
    return f"{layers} layers"
