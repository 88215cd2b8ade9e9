"""ogbn-arxiv and ogbn-products from the archives of OGB.

An archive is converted once to arrays in the cache, which are memory-mapped.

OGB publishes no SHA-256 of its archives. They are verified by the checksums of zip and gzip and by
the numbers of rows, columns, edges and classes in ABOUT and LAYOUTS, which also limit the memory
that a manipulated archive can use.
"""

from __future__ import annotations

import json
import os
import shutil
import tokenize
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, DataUnavailableError
from ..graph import Graph
from ..utils.atomic import atomic_folder, remove_abandoned_folders
from ..utils.labels import SPLIT
from .dataset import About, Dataset
from .download import download
from .environment import (
    DATA_DIR_VARIABLE,
    OFFLINE_VARIABLE,
    cache_dir,
    is_offline,
    locked_folder,
    user_data_dir,
)
from .ogb_files import PARTS, Layout, convert, opened

URL = "https://snap.stanford.edu/ogb/data/nodeproppred"

_SOURCE = "https://ogb.stanford.edu/docs/nodeprop/"
_HU = (
    "Hu, Fey, Zitnik, Dong, Ren, Liu, Catasta, Leskovec: Open Graph Benchmark: Datasets for "
    "Machine Learning on Graphs. NeurIPS 2020"
)
_WANG = (
    "Wang, Shen, Huang, Wu, Dong, Kanakia: Microsoft Academic Graph: When experts are not "
    "enough. Quantitative Science Studies 1(1), 2020"
)
_BHATIA = (
    "Bhatia, Dahiya, Jain, Kar, Mittal, Prabhu, Varma: The extreme classification repository: "
    "Multi-label datasets and code. 2016"
)

ABOUT: dict[str, About] = {
    "ogbn-arxiv": About(
        "ogbn-arxiv", "papers on computer science and their citations; mean word vectors",
        169_343, 1_157_799, 128, 40,
        "by year: papers until 2017 for training, of 2018 for validation, since 2019 for test",
        _SOURCE, "ODC-BY", f"{_HU}; {_WANG}", 81,
    ),
    "ogbn-products": About(
        "ogbn-products", "products of Amazon, linked if bought together; words of descriptions",
        2_449_029, 61_859_012, 100, 47,
        "by sales rank: the first 8 % for training, the next 2 % for validation, others for test",
        _SOURCE, "Amazon licence", f"{_HU}; {_BHATIA}", 1480,
    ),
}  # fmt: skip


LAYOUTS = {
    "ogbn-arxiv": Layout(
        "arxiv", "split/time", "mapping/labelidx2arxivcategeory.csv.gz", 1_166_243
    ),
    "ogbn-products": Layout(
        "products", "split/sales_ranking", "mapping/labelidx2productcategory.csv.gz", 61_859_140
    ),
}

#: Version of the cached arrays; other versions are converted again.
FORMAT = 2
_ARRAYS = ("X", "y", *PARTS, "indptr", "indices")


def load_ogb(
    name: str, data_dir: str | os.PathLike[str] | None = None, *, offline: bool | None = None
) -> Dataset:
    """Load a graph of OGB with its split, memory-mapped; see :func:`gpcanet.datasets.load`."""
    own_folder = user_data_dir(data_dir)
    cache = cache_dir() / "ogb" / name
    kept = _open_cached(cache, name)
    if isinstance(kept, Dataset):
        return kept
    zip_name = f"{LAYOUTS[name].folder}.zip"
    archive = cache.with_name(zip_name)  # exists if a conversion was interrupted
    own = None if own_folder is None else _find_own(own_folder, name, zip_name)
    unavailable = DataUnavailableError(
        f"{name} is not available: {kept}, {zip_name} is not in the folder data_dir or "
        f"{DATA_DIR_VARIABLE}, and the network is off ({OFFLINE_VARIABLE} or offline)"
    )
    if own is None and not os.path.isfile(archive) and is_offline(offline):
        raise unavailable
    # A second process waits here and then finds the arrays of the first one.
    with locked_folder(cache.parent, cache.with_name(f"{name}.lock")):
        kept = _open_cached(cache, name)
        if isinstance(kept, Dataset):
            return kept
        remove_abandoned_folders(cache)
        if own is None and not archive.is_file():
            if is_offline(offline):  # and another process found the archive damaged
                raise unavailable
            download(f"{URL}/{zip_name}", archive)
        try:
            with opened(own or archive, LAYOUTS[name]) as published, atomic_folder(cache) as folder:
                class_names = convert(published, folder, ABOUT[name], LAYOUTS[name])
                description = _description(name, _mapped(folder), class_names)
                (folder / "about.json").write_text(json.dumps(description), encoding="utf-8")
                shutil.rmtree(cache, ignore_errors=True)  # it is damaged or of another version
        except DataError:
            if own is None:
                archive.unlink()  # so that it is downloaded again
            raise
        archive.unlink(missing_ok=True)
    kept = _open_cached(cache, name)
    if not isinstance(kept, Dataset):
        raise DataError(f"{name} was converted, but {kept}; check the disk")
    return kept


def _find_own(folder: Path, name: str, zip_name: str) -> Path | None:
    """The archive in the user's folder, or the folder that ogb or the user extracted from it."""
    for inner in (folder, folder / "ogb"):
        if (inner / zip_name).is_file():
            return inner / zip_name
        for extracted in (inner / name.replace("-", "_"), inner / LAYOUTS[name].folder):
            if (extracted / "raw" / "edge.csv.gz").is_file():
                return extracted
    return None


# -- the cache --------------------------------------------------------------------------------


def _open_cached(cache: Path, name: str) -> Dataset | str:
    """The dataset, memory-mapped; or the reason why it is not usable."""
    if not os.path.isdir(cache):  # pathlib raises if the permission is missing
        return "it is not in the cache"
    about = ABOUT[name]
    sizes = {
        "X": (about.n_nodes, about.n_features), "y": (about.n_nodes,),
        "indptr": (about.n_nodes + 1,),
    }  # fmt: skip
    try:
        description = json.loads((cache / "about.json").read_text(encoding="utf-8"))
        arrays = _mapped(cache)
        class_names = description["class_names"]
        fits = (
            description == _description(name, arrays, class_names)
            and all(arrays[array].shape == shape for array, shape in sizes.items())
            and len(class_names) == about.n_classes
            and arrays["indptr"][-1] == len(arrays["indices"])
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, tokenize.TokenError):
        fits = False
    if not fits:
        return f"{cache} is damaged or of another version"
    graph = Graph.from_csr(arrays["indptr"], arrays["indices"], validate=False)
    X, y, train, validation, test = (arrays[array] for array in ("X", "y", *SPLIT))
    names = np.array(class_names)
    return Dataset(name, graph, X, y, train, validation, test, class_names=names, about=about)


def _mapped(folder: Path) -> dict[str, np.memmap]:
    # np.load would also open archives and pickles.
    return {name: np.lib.format.open_memmap(folder / f"{name}.npy", mode="r") for name in _ARRAYS}


def _description(name: str, arrays: dict[str, np.memmap], class_names: list[str]) -> dict[str, Any]:
    described = {
        name: [array.dtype.str, array.offset, *array.shape] for name, array in arrays.items()
    }
    return {"format": FORMAT, "dataset": name, "class_names": class_names, "arrays": described}
