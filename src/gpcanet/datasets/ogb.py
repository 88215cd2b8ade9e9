"""ogbn-arxiv and ogbn-products from the archives that OGB publishes.

The arrays made of an archive are kept in the cache and opened memory-mapped from then on.

The SHA-256 of the archives is not known to us, so they are not pinned. What stands in for it:
zip and gzip carry checksums of every byte, and rows, columns, edges and classes must be as many
as ABOUT and LAYOUTS say, which also bounds what a hostile archive can make us read.
"""

from __future__ import annotations

import json
import os
import shutil
import tokenize
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, DataUnavailableError, InputError
from ..graph import Graph
from ..utils.atomic import atomic_folder
from .dataset import About, Dataset
from .download import Progress, download
from .environment import (
    DATA_DIR_VARIABLE,
    OFFLINE_VARIABLE,
    cache_dir,
    is_offline,
    locked,
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
        "ogbn-products", "Amazon's products, joined if bought together; words of descriptions",
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

#: Of the folder in the cache; a folder of another format is made anew.
FORMAT = 2
_ARRAYS = ("X", "y", *PARTS, "indptr", "indices")


def load_ogb(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    offline: bool | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """A graph of OGB with its split, memory-mapped; see :func:`gpcanet.datasets.load`.

    ``progress`` is also called with rows read and rows in all while an archive is converted.
    """
    if name not in ABOUT:
        raise InputError(f"dataset {name!r} must be one of {', '.join(map(repr, ABOUT))}")
    own_folder = user_data_dir(data_dir)
    cache = cache_dir() / "ogb" / name
    kept = _open_cached(cache, name)
    if isinstance(kept, Dataset):
        return kept
    zip_name = f"{LAYOUTS[name].folder}.zip"
    fetched = cache.with_name(zip_name)  # there already if a conversion was interrupted
    own = None if own_folder is None else _find_own(own_folder, name, zip_name)
    unavailable = DataUnavailableError(
        f"{name} cannot be had: {kept}, {zip_name} is not in a folder that data_dir or "
        f"{DATA_DIR_VARIABLE} names, and fetching is off ({OFFLINE_VARIABLE} or offline)"
    )
    if own is None and not os.path.isfile(fetched) and is_offline(offline):
        raise unavailable
    # A second process waits here, and then finds the arrays of the first.
    with locked(cache.parent, cache.with_name(f"{name}.lock")):
        kept = _open_cached(cache, name)
        if isinstance(kept, Dataset):
            return kept
        if own is None and not fetched.is_file():
            if is_offline(offline):  # and the process before us found the archive damaged
                raise unavailable
            download(f"{URL}/{zip_name}", fetched, progress=progress)
        try:
            with opened(own or fetched, LAYOUTS[name]) as published, atomic_folder(cache) as folder:
                class_names = convert(published, folder, ABOUT[name], LAYOUTS[name], progress)
                description = _description(name, _mapped(folder), class_names)
                (folder / "about.json").write_text(json.dumps(description), encoding="utf-8")
                shutil.rmtree(cache, ignore_errors=True)  # was found unusable above
        except DataError:
            if own is None:
                fetched.unlink()  # so that the next try fetches it anew
            raise
        fetched.unlink(missing_ok=True)
    kept = _open_cached(cache, name)
    if not isinstance(kept, Dataset):
        raise DataError(f"{name} was converted, but {kept}; see whether the disk is sound")
    return kept


def _find_own(folder: Path, name: str, zip_name: str) -> Path | None:
    """In the user's folder: the archive, or what ogb or the user unpacked from it."""
    for inner in (folder, folder / "ogb"):
        if (inner / zip_name).is_file():
            return inner / zip_name
        for unpacked in (inner / name.replace("-", "_"), inner / LAYOUTS[name].folder):
            if (unpacked / "raw" / "edge.csv.gz").is_file():
                return unpacked
    return None


# -- the cache --------------------------------------------------------------------------------


def _open_cached(cache: Path, name: str) -> Dataset | str:
    """The dataset, nothing of it read but headers; or why it cannot be used."""
    if not os.path.isdir(cache):  # pathlib raises where one may not look
        return "it is not in the cache"
    about = ABOUT[name]
    sizes = {
        "X": (about.n_nodes, about.n_features), "y": (about.n_nodes,),
        "indptr": (about.n_nodes + 1,),
    }  # fmt: skip
    try:
        noted = json.loads((cache / "about.json").read_text(encoding="utf-8"))
        arrays = _mapped(cache)
        class_names = noted["class_names"]
        fits = (
            noted == _description(name, arrays, class_names)
            and all(arrays[array].shape == shape for array, shape in sizes.items())
            and (class_names is None or len(class_names) == about.n_classes)
            and arrays["indptr"][-1] == len(arrays["indices"])
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, tokenize.TokenError):
        fits = False
    if not fits:
        return f"{cache} is damaged or of another version"
    graph = Graph.from_csr(arrays.pop("indptr"), arrays.pop("indices"), validate=False)
    return Dataset(
        name=name,
        graph=graph,
        X=arrays["X"],
        y=arrays["y"],
        train=arrays["train"],
        validation=arrays["validation"],
        test=arrays["test"],
        class_names=None if class_names is None else np.array(class_names),
        about=about,
    )


def _mapped(folder: Path) -> dict[str, np.memmap]:
    # What np.load does for mmap_mode="r", but for .npy only: it also opens archives and pickles.
    return {name: np.lib.format.open_memmap(folder / f"{name}.npy", mode="r") for name in _ARRAYS}


def _description(
    name: str, arrays: dict[str, np.memmap], class_names: list[str] | None
) -> dict[str, Any]:
    described = {
        name: [array.dtype.str, array.offset, *array.shape] for name, array in arrays.items()
    }
    return {"format": FORMAT, "dataset": name, "class_names": class_names, "arrays": described}
