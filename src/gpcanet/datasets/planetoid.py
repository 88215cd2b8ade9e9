"""Cora, CiteSeer and PubMed from the raw Planetoid files.

The files are Python 2 pickles. They are read by an unpickler that knows exactly the six globals
and the opcodes they need and turns anything else down, so that a tampered file cannot run code.
Objects of numpy and scipy are not made by it at all, only described, and then made from plain
bytes.
"""

from __future__ import annotations

import io
import os
import pickle
from collections import defaultdict
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import DataError, InputError
from ..graph import Graph
from .dataset import About, Dataset
from .download import Progress
from .planetoid_files import read_files

N_VALIDATION = 500

_SPLIT = "public: 20 labels per class for training, 500 for validation, 1,000 for test"
_SOURCE = "https://github.com/kimiyoung/planetoid"
_LICENCE = "none stated by its makers (LINQS); the repository that carries the files is MIT"
_SEN = (
    "Sen, Namata, Bilgic, Getoor, Gallagher, Eliassi-Rad: Collective Classification in Network "
    "Data. AI Magazine 29(3), 2008"
)
_SPLIT_CITATION = (
    "split: Yang, Cohen, Salakhutdinov: Revisiting Semi-Supervised Learning with Graph "
    "Embeddings. ICML 2016"
)
_NAMATA = (
    "Namata, London, Getoor, Huang: Query-driven Active Surveying for Collective "
    "Classification. MLG 2012"
)

ABOUT = {
    "cora": About(
        "cora", "papers on machine learning and their citations; words of each paper",
        2708, 5278, 1433, 7, _SPLIT, _SOURCE, _LICENCE, f"{_SEN}; {_SPLIT_CITATION}", 0.6,
    ),
    "citeseer": About(
        "citeseer", "papers on computer science and their citations; words of each paper",
        3327, 4552, 3703, 6, _SPLIT, _SOURCE, _LICENCE, f"{_SEN}; {_SPLIT_CITATION}", 1.0,
    ),
    "pubmed": About(
        "pubmed", "papers on diabetes and their citations; tf-idf of the words of each paper",
        19717, 44324, 500, 3, _SPLIT, _SOURCE, _LICENCE, f"{_NAMATA}; {_SPLIT_CITATION}", 8.7,
    ),
}  # fmt: skip

# The files hold numbers only. The classes of Cora and CiteSeer are told by their sizes, which
# all differ; those of PubMed stand in the order of the original labels 1, 2, 3.
CLASS_NAMES = {
    "cora": (
        "Theory", "Reinforcement Learning", "Genetic Algorithms", "Neural Networks",
        "Probabilistic Methods", "Case Based", "Rule Learning",
    ),
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": ("Experimental", "Type 1", "Type 2"),
}  # fmt: skip


def load_planetoid(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    offline: bool | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """A citation graph with its public split; see :func:`gpcanet.datasets.load`."""
    if name not in ABOUT:
        raise InputError(f"dataset {name!r} must be one of {', '.join(map(repr, ABOUT))}")
    contents = read_files(name, data_dir, offline=offline, progress=progress)
    test = np.array(contents.pop("test.index").split(), dtype=np.int64)
    parts = {part: read_pickle(content) for part, content in contents.items()}

    n_nodes = int(test.max()) + 1  # CiteSeer skips some: nodes without features, labels and split
    n_known = parts["allx"].shape[0]
    order = np.concatenate([np.arange(n_known), test])
    # Moves the rows of allx and tx to their nodes, leaving rows of zeros where there are none.
    place = sp.csr_array((np.ones(len(order)), (order, np.arange(len(order)))))
    X = place @ sp.vstack([parts["allx"], parts["tx"]], format="csr")
    one_hot = place @ np.vstack([parts["ally"], parts["ty"]])
    y = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)

    sources = np.repeat(list(parts["graph"]), [len(ends) for ends in parts["graph"].values()])
    targets = np.array([end for ends in parts["graph"].values() for end in ends], dtype=np.int64)
    graph = Graph.from_edge_index(np.stack([sources, targets]), n_nodes=n_nodes, each_once=True)
    n_train = parts["x"].shape[0]
    return Dataset(
        name=name,
        graph=graph,
        X=X.astype(np.float32),
        y=y,
        train=np.arange(n_train),
        validation=np.arange(n_train, n_train + N_VALIDATION),
        test=np.sort(test),
        class_names=np.array(CLASS_NAMES[name]),
        about=ABOUT[name],
    )


class _PickledType:
    """Stands in for numpy's dtype; takes the name of a number type and its byte order."""

    NAMES = ("i4", "i8", "f4", "f8")

    def __init__(self, name: str, *_: Any) -> None:
        self.name, self.byte_order = name, "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.byte_order = state[1]

    def to_dtype(self) -> np.dtype:
        if self.name not in self.NAMES:
            raise InputError(f"numbers of type {self.name!r}")
        return np.dtype(self.byte_order + self.name)


class _PickledArray:
    """Stands in for numpy's ndarray; takes shape, type and bytes, and nothing else."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.type, self.by_columns, self.content = state

    def to_array(self) -> np.ndarray:
        flat = np.frombuffer(self.content.encode("latin1"), self.type.to_dtype())
        return flat.reshape(self.shape, order="F" if self.by_columns else "C")


def _new_array(*_: Any) -> _PickledArray:
    """Stands in for numpy's _reconstruct, whose arguments say nothing that the state does not."""
    return _PickledArray()


class _PickledMatrix:
    """Stands in for scipy's csr_matrix; takes its arrays and nothing else."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def to_csr(self) -> sp.csr_array:
        arrays = (self.state[name].to_array() for name in ("data", "indices", "indptr"))
        matrix = sp.csr_array(tuple(arrays), shape=self.state["_shape"])
        matrix.check_format(full_check=True)  # an index out of range would read foreign memory
        return matrix


# The unpickler in Python, as the one in C takes gigabytes if a damaged file asks for them (by a
# large number of a memo), and does not let one choose the opcodes.
class _PlanetoidUnpickler(pickle._Unpickler):
    ADMITTED = {
        ("__builtin__", "list"): list,
        ("collections", "defaultdict"): defaultdict,
        ("numpy", "dtype"): _PickledType,
        ("numpy", "ndarray"): _PickledArray,
        ("numpy.core.multiarray", "_reconstruct"): _new_array,
        ("scipy.sparse.csr", "csr_matrix"): _PickledMatrix,
    }
    OPCODES = (
        "PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "NEWOBJ", "BUILD",
        "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
        "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2",
        "BINSTRING", "SHORT_BINSTRING", "EMPTY_LIST", "APPEND", "APPENDS",
        "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    )  # fmt: skip
    dispatch = {
        code: pickle._Unpickler.dispatch[code]
        for code in (getattr(pickle, name)[0] for name in OPCODES)
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.ADMITTED[module, name]
        except KeyError:
            raise DataError(
                f"{module}.{name} does not belong in a Planetoid file; the file was not loaded"
            ) from None


def read_pickle(content: bytes) -> Any:
    """What a Planetoid file holds: a matrix, an array or lists of neighbours by node.

    Anything else is turned down by a DataError, whatever is the matter with it.
    """
    try:
        loaded = _PlanetoidUnpickler(io.BytesIO(content), encoding="latin1").load()
        if isinstance(loaded, _PickledMatrix):
            return loaded.to_csr()
        if isinstance(loaded, _PickledArray):
            return loaded.to_array()
        if isinstance(loaded, defaultdict):
            return loaded
        raise InputError(f"{type(loaded).__name__} in place of a matrix, an array or lists")
    except DataError:
        raise
    except Exception as error:  # damaged bytes fail in every way there is
        raise DataError(
            f"this is no Planetoid file, or a damaged one ({type(error).__name__}: {error})"
        ) from None
