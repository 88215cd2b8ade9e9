"""Datasets by name."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..errors import InputError
from . import digits, ogb, planetoid
from .dataset import About, Dataset

#: Function that loads a dataset from its name, the data folder and ``offline``.
Loader = Callable[..., Dataset]

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
    """Names of the datasets that ``load`` accepts.

    Examples
    --------
    >>> "cora" in names()
    True
    """
    return list(_LOADERS)


def about(name: str) -> About:
    """Size, source, licence and citation of a dataset, without loading it.

    Examples
    --------
    >>> about("cora").n_edges, about("cora").n_features, about("cora").n_classes
    (5278, 1433, 7)
    """
    return _entry(name)[1]


def load(
    name: str, data_dir: str | os.PathLike[str] | None = None, *, offline: bool | None = None
) -> Dataset:
    """Load a dataset by name and download it if necessary.

    Parameters
    ----------
    name : {"cora", "citeseer", "pubmed", "ogbn-arxiv", "ogbn-products", "digits"}
        Name of the dataset.
    data_dir : path, default=None
        Folder with files of the dataset, used before the network. If None, the environment
        variable GPCANET_DATA_DIR.
    offline : bool, default=None
        Whether not to use the network. If None, the environment variable GPCANET_OFFLINE decides.

    Returns
    -------
    Dataset
        Graph, X, y, split, class names, and ``about`` with licence and citation.

    Notes
    -----
    Progress is reported to the listener of ``gpcanet.utils.progress.progress_to``.

    Files are stored in the cache folder of the user, or in GPCANET_CACHE_DIR. Planetoid files are
    verified by their SHA-256 whenever they are read. OGB publishes no hashes; its files are
    verified by their checksums and known sizes when they are converted.

    Examples
    --------
    >>> data = load("digits")
    >>> data.graph.n_nodes, data.X.shape[1], data.n_classes
    (1797, 64, 10)
    """
    return _entry(name)[0](name, data_dir, offline=offline)


def _entry(name: str) -> tuple[Loader, About]:
    if name not in _LOADERS:
        raise InputError(f"dataset {name!r} is unknown; use one of {', '.join(_LOADERS)}")
    return _LOADERS[name]
