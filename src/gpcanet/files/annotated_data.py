"""Features and graphs inside AnnData objects, in memory or in h5ad files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import DataError
from ..utils.messages import first_line
from .arrays import to_csr, to_float

#: Keys in obsp of scanpy's graph of neighbours by expression, and of squidpy's graph of neighbours
#: in space.
CONNECTIVITIES, SPATIAL = "connectivities", "spatial_connectivities"


def feature_matrix(
    adata: Any, place: object, *, layer: str | None = None, obsm: str | None = None
) -> np.ndarray | sp.csr_array:
    """X, a layer, or an array of obsm, as float32 or float64; sparse matrices stay sparse."""
    if layer is not None and obsm is not None:
        raise DataError(f"layer {layer!r} and obsm {obsm!r} are both given; give one of them")
    slot, name = ("layers", layer) if obsm is None else ("obsm", obsm)
    if name is None:
        shown, X = "X", adata.X
        if X is None:
            raise DataError(f"{place} has no features; set X, or name a layer or an array of obsm")
    else:
        shown = f"{slot}[{name!r}]"
        X = _slot(adata, slot, name, place)
    if hasattr(X, "compute"):
        raise DataError(f"{place}: {shown} is a lazy array; load it into memory first")
    if getattr(adata, "isbacked", False) and name is None:
        X = X[:]  # reads the file
    if hasattr(X, "iloc"):
        X = X.to_numpy()
    X = _checked_csr(X, f"{place}: {shown}") if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise DataError(f"{place}: {shown} of shape {X.shape} must be a matrix")
    return to_float(X, f"{place}: {shown} of")


def find_graph(adata: Any, place: object, key: str | None = None) -> str:
    """The key in obsp of a graph.

    ``key`` is a key of obsp, or one of uns whose entry names the connectivities, as scanpy's
    ``neighbors_key``. By default the graph is that of ``scanpy.pp.neighbors``.
    """
    wanted = CONNECTIVITIES if key is None else key
    if key is None or key not in adata.obsp:
        entry = adata.uns.get("neighbors" if key is None else key)
        if isinstance(entry, Mapping):
            wanted = entry.get("connectivities_key", wanted)
    if wanted not in adata.obsp:
        raise _missing(place, "obsp", wanted, graph_keys(adata))
    if wanted.endswith("distances"):
        raise DataError(
            f"{place}: obsp[{wanted!r}] has distances, but a large weight must mean a close pair; "
            f"name connectivities"
        )
    return str(wanted)


def graph_keys(adata: Any) -> list[str]:
    """Keys in obsp, except those of distances."""
    return [key for key in adata.obsp if not key.endswith("distances")]


def adjacency_matrix(adata: Any, place: object, key: str) -> sp.csr_array:
    """A matrix of obsp; its weights are checked where the graph is built."""
    matrix = adata.obsp[key]
    if hasattr(matrix, "compute"):
        raise DataError(f"{place}: obsp[{key!r}] is a lazy array; load it into memory first")
    matrix = matrix if sp.issparse(matrix) else sp.csr_array(matrix)
    return _checked_csr(matrix, f"{place}: obsp[{key!r}]")


def _checked_csr(matrix: Any, place: str) -> sp.csr_array:
    try:
        return to_csr(matrix)
    except ValueError as error:
        raise DataError(f"{place} is damaged: {first_line(error)}") from None


def obs_column(adata: Any, name: str, place: object) -> Any:
    """A column of obs; categories as their values."""
    if name not in adata.obs:
        raise _missing(place, "obs", name, adata.obs.columns)
    return adata.obs[name].to_numpy(dtype=object)


def _slot(adata: Any, slot: str, name: str, place: object) -> Any:
    found = getattr(adata, slot)
    if name not in found:
        raise _missing(place, slot, name, found)
    return found[name]


def _missing(place: object, slot: str, name: str, existing: Iterable[Any]) -> DataError:
    names = ", ".join(repr(key) for key in existing if key is not None)  # None is X among layers
    advice = f"name one of {names}" if names else f"its {slot} is empty"
    return DataError(f"{place} has no {slot}[{name!r}]; {advice}")
