"""The digits of scikit-learn as a graph, a dataset without download."""

from __future__ import annotations

import os

import numpy as np

from ..graph.neighbors import neighbor_graph
from .dataset import About, Dataset
from .splits import random_split

ABOUT = {
    "digits": About(
        "digits", "handwritten digits of 8 x 8 pixels, connected to their 10 nearest; no download",
        1797, 12340, 64, 10, "5 labels per digit for training, 300 for validation, 1,447 for test",
        "shipped with scikit-learn", "CC BY 4.0",
        "Alpaydin, Kaynak: Optical Recognition of Handwritten Digits. UCI Machine Learning "
        "Repository, 1998",
    ),
}  # fmt: skip


def load_digits(
    name: str = "digits",
    data_dir: str | os.PathLike[str] | None = None,
    *,
    offline: bool | None = None,
) -> Dataset:
    """Load the digits with their nearest-neighbour graph; the other arguments are not used."""
    from sklearn import datasets  # imported late: listing the datasets does not need it

    X, y = datasets.load_digits(return_X_y=True)
    dataset = Dataset(
        name=name,
        graph=neighbor_graph(X),
        X=X,
        y=y,
        class_names=np.array([str(digit) for digit in range(10)]),
        about=ABOUT["digits"],
    )
    return random_split(dataset, 0, n_per_class=5, n_validation=300, n_test=None)
