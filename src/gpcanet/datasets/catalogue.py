"""Datasets by name."""

from __future__ import annotations

import os
from typing import Protocol

from ..errors import InputError
from . import digits, ogb, planetoid
from .dataset import About, Dataset
from .download import Progress


class Loader(Protocol):
    """What every named dataset is loaded by."""

    def __call__(
        self,
        name: str,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        offline: bool | None = None,
        progress: Progress | None = None,
    ) -> Dataset: ...


_LOADERS: dict[str, tuple[Loader, About]] = {
    name: (loader, about)
    for loader, abouts in (
        (planetoid.load_planetoid, planetoid.ABOUT),
        (ogb.load_ogb, ogb.ABOUT),
        (digits.load_digits, digits.ABOUT),
    )
    for name, about in abouts.items()
}


def names() -> list[str]:
    """The names that ``load`` knows."""
    return list(_LOADERS)


def about(name: str) -> About:
    """Size, source, licence and citation of a dataset, without loading it."""
    return _entry(name)[1]


def load(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    offline: bool | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """A dataset by name, fetched if need be.

    Parameters
    ----------
    name : {"cora", "citeseer", "pubmed", "ogbn-arxiv", "ogbn-products", "digits"}
    data_dir : path, optional
        A folder of yours with the files, tried before the network. By default the one that
        the environment variable GPCANET_DATA_DIR names.
    offline : bool, optional
        Whether to leave the network alone. By default so if GPCANET_OFFLINE is set.
    progress : callable, optional
        Called with what is being fetched or read, how much of it is done, and how much there
        is in all, if known.

    Returns
    -------
    Dataset
        Graph, X, y, split, names of the classes, and ``about`` with licence and citation.

    Notes
    -----
    Files are kept in the user's cache folder (GPCANET_CACHE_DIR names another). Those of
    Planetoid are checked against known hashes each time they are read; those of OGB, whose
    hashes are not published, against their known sizes when they are converted.

    Examples
    --------
    >>> data = load("digits")
    >>> data.graph.n_nodes, data.X.shape[1], data.n_classes
    (1797, 64, 10)
    """
    return _entry(name)[0](name, data_dir, offline=offline, progress=progress)


def _entry(name: str) -> tuple[Loader, About]:
    if name not in _LOADERS:
        raise InputError(f"dataset {name!r} is not known; there are {', '.join(_LOADERS)}")
    return _LOADERS[name]
