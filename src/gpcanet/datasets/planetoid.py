"""Cora, CiteSeer and PubMed from the raw Planetoid files.

The files are Python 2 pickles. The unpickler accepts only the six globals and the opcodes that
they need, so that a manipulated file cannot run code. It does not create objects of numpy and
scipy: it collects their contents, from which arrays are created afterwards.
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
from ..utils.messages import first_line
from .dataset import About, Dataset
from .planetoid_files import read_files

N_VALIDATION = 500

_SPLIT = "public: 20 labels per class for training, 500 for validation, 1,000 for test"
_SOURCE = "https://github.com/kimiyoung/planetoid"
_LICENCE = "none stated by the authors (LINQS); the repository of the files is MIT"
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

CITATION_GRAPHS = tuple(ABOUT)

# The files contain no class names. Those of Cora and CiteSeer were identified by the class sizes,
# which are all different; those of PubMed are in the order of the original labels 1, 2, 3.
CLASS_NAMES = {
    "cora": (
        "Theory", "Reinforcement Learning", "Genetic Algorithms", "Neural Networks",
        "Probabilistic Methods", "Case Based", "Rule Learning",
    ),
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": ("Experimental", "Type 1", "Type 2"),
}  # fmt: skip


def load_planetoid(
    name: str, data_dir: str | os.PathLike[str] | None = None, *, offline: bool | None = None
) -> Dataset:
    """Load a citation graph with its public split; see :func:`gpcanet.datasets.load`."""
    contents = read_files(name, data_dir, offline=offline)
    test = np.array(contents.pop("test.index").split(), dtype=np.int64)
    parts = {part: read_pickle(content) for part, content in contents.items()}

    n_nodes = int(test.max()) + 1  # CiteSeer has nodes without features and labels
    n_known = parts["allx"].shape[0]
    order = np.concatenate([np.arange(n_known), test])
    # Moves the rows of allx and tx to their nodes; nodes without features get zeros.
    placement = sp.csr_array((np.ones(len(order)), (order, np.arange(len(order)))))
    X = placement @ sp.vstack([parts["allx"], parts["tx"]], format="csr")
    one_hot = placement @ np.vstack([parts["ally"], parts["ty"]])
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
    """Replaces numpy's dtype; has the name of a number type and its byte order."""

    NAMES = ("i4", "i8", "f4", "f8")

    def __init__(self, name: str, *_: Any) -> None:
        self.name, self.byte_order = name, "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.byte_order = state[1]

    def to_dtype(self) -> np.dtype:
        if self.name not in self.NAMES:
            raise InputError(f"unknown number type {self.name!r}")
        return np.dtype(self.byte_order + self.name)


class _PickledArray:
    """Replaces numpy's ndarray; has shape, type and bytes."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.type, self.by_columns, self.content = state

    def to_array(self) -> np.ndarray:
        flat = np.frombuffer(self.content.encode("latin1"), self.type.to_dtype())
        return flat.reshape(self.shape, order="F" if self.by_columns else "C")


def _new_array(*_: Any) -> _PickledArray:
    """Replaces numpy's _reconstruct; the state contains all that its arguments contain."""
    return _PickledArray()


class _PickledMatrix:
    """Replaces scipy's csr_matrix; has its arrays and shape."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def to_csr(self) -> sp.csr_array:
        arrays = (self.state[name].to_array() for name in ("data", "indices", "indptr"))
        matrix = sp.csr_array(tuple(arrays), shape=self.state["_shape"])
        if np.any(np.diff(matrix.indptr) < 0):  # not checked below if the last one is 0
            raise ValueError("index pointers decrease")
        matrix.check_format(full_check=True)  # wrong indices would read other memory
        return matrix


# The Python implementation: the C one allocates gigabytes if a damaged file has a large memo index,
# and its opcodes cannot be restricted.
class _PlanetoidUnpickler(pickle._Unpickler):
    ALLOWED = {
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
            return self.ALLOWED[module, name]
        except KeyError:
            raise DataError(
                f"a Planetoid file must not contain {module}.{name}; the file was not loaded"
            ) from None


def read_pickle(content: bytes) -> Any:
    """Read a matrix, an array or lists of neighbours from a Planetoid file.

    Any other content raises a DataError.
    """
    try:
        loaded = _PlanetoidUnpickler(io.BytesIO(content), encoding="latin1").load()
        if isinstance(loaded, _PickledMatrix):
            return loaded.to_csr()
        if isinstance(loaded, _PickledArray):
            return loaded.to_array()
        if isinstance(loaded, defaultdict):
            return loaded
        raise InputError(f"{type(loaded).__name__} instead of a matrix, an array or lists")
    except DataError:
        raise
    except Exception as error:  # damaged bytes raise errors of all types
        raise DataError(
            f"this is not a Planetoid file, or is damaged ({type(error).__name__}: "
            f"{first_line(error)})"
        ) from None
