"""Ways to an embedding of a given width: ours, other libraries', and a few lines of one's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD

from gpcanet.datasets import Dataset
from gpcanet.estimators.gpca import GPCA

from .measure import Way
from .plain import ALPHA, N_STEPS, scipy_embedding, scipy_propagation, torch_embedding
from .step import edge_index

WIDTH = 64

#: Width that the usual script reduces X to before it propagates.
SCRIPT_WIDTH = 256

Embedding = Callable[[], np.ndarray]


def _gpca(data: Dataset, **settings: Any) -> Embedding:
    model = GPCA(WIDTH, alpha=ALPHA, **settings)
    return lambda: model.fit_transform(data.X, graph=data.graph)


def _features_alone(model: Any, data: Dataset) -> Embedding:
    return lambda: model.fit_transform(data.X)


def _four_lines(data: Dataset) -> Embedding:
    """What one writes first: reduce X, take two propagation steps, reduce again."""

    def run() -> np.ndarray:
        P = scipy_propagation(data.graph.indptr, data.graph.indices)
        reduced = data.X
        if data.X.shape[1] > SCRIPT_WIDTH:
            reduced = TruncatedSVD(SCRIPT_WIDTH, random_state=0).fit_transform(data.X)
        return np.asarray(TruncatedSVD(WIDTH, random_state=0).fit_transform(P @ (P @ reduced)))

    return run


def _plain(embedding: Callable[..., np.ndarray], data: Dataset) -> Embedding:
    X = _dense(data)
    return lambda: embedding(data.graph.indptr, data.graph.indices, X, WIDTH)


def _torch(data: Dataset) -> Embedding:
    import torch  # noqa: F401  (whether it is there)

    return _plain(torch_embedding, data)


def _pyg(n_steps: int, teleport: float, data: Dataset) -> Embedding:
    """APPNP's propagation; without teleport it is the one that SGC does beforehand."""
    import torch
    from torch_geometric.nn import APPNP

    propagate = APPNP(K=n_steps, alpha=teleport)
    X, edges = torch.tensor(_dense(data)), edge_index(data)
    return lambda: PCA(WIDTH, random_state=0).fit_transform(propagate(X, edges).numpy())


def _scikit_network(method: str, data: Dataset) -> Embedding:
    import sknetwork.embedding

    adjacency = sp.csr_matrix(data.graph.adjacency)  # it takes no csr_array
    model = getattr(sknetwork.embedding, method)(WIDTH)
    return lambda: np.asarray(model.fit_transform(adjacency))


def _st_graphpca(data: Dataset, *, is_mended: bool) -> Embedding:
    """Its own defaults, which come down to conjugate gradients in Python."""
    import GraphPCA.gpca as peer

    peer.logger.setLevel(logging.ERROR)  # it warns whenever it runs without its C++
    table = SimpleNamespace(X=sp.csr_matrix(data.X), shape=data.X.shape)
    network = sp.csr_matrix(data.graph.adjacency)

    def run() -> np.ndarray:
        with _mended(peer) if is_mended else _as_shipped():
            return np.asarray(peer.Run_GPCA(table, network=network, n_components=WIDTH)[0])

    return run


@contextmanager
def _as_shipped() -> Iterator[None]:
    yield


@contextmanager
def _mended(peer: Any) -> Iterator[None]:
    """Give its solver the inverse of the diagonal, and heed whether the solver converged.

    As shipped, the diagonal itself is handed over as preconditioner, which slows down instead
    of speeding up, and the solver's status is dropped.
    """
    diags, cg = peer.diags, peer.cg

    def checked(*args: Any, **kwargs: Any) -> tuple[np.ndarray, int]:
        solution, status = cg(*args, **kwargs)
        if status != 0:
            raise RuntimeError(f"conjugate gradients stopped with status {status}")
        return solution, status

    peer.diags, peer.cg = (lambda diagonal: diags(1 / diagonal)), checked
    try:
        yield
    finally:
        peer.diags, peer.cg = diags, cg


def _dense(data: Dataset) -> np.ndarray:
    X: Any = data.X
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float32)


_STEPS: dict[str, Any] = {"solver": "fixed-point", "n_iter": N_STEPS}
_PYG = ("torch", "torch_geometric")

#: On every graph.
WAYS = (
    Way("GPCA", _gpca),
    Way("GPCA, 5 steps", partial(_gpca, **_STEPS)),
    Way("PCA of X alone", partial(_features_alone, PCA(WIDTH, random_state=0))),
    Way("TruncatedSVD of X alone", partial(_features_alone, TruncatedSVD(WIDTH, random_state=0))),
    Way("the usual four lines", _four_lines),
    Way("torch CSR, 5 steps", _torch, needs=("torch",)),
    Way("PyG SGC, 2 steps, then PCA", partial(_pyg, 2, 0.0), needs=_PYG),
    Way("PyG APPNP, 5 steps, then PCA", partial(_pyg, N_STEPS, 1 / (1 + ALPHA)), needs=_PYG),
    Way("scikit-network Spectral", partial(_scikit_network, "Spectral"), needs=("sknetwork",)),
    Way("scikit-network GSVD", partial(_scikit_network, "GSVD"), needs=("sknetwork",)),
    Way(
        "st-graphpca as shipped",
        partial(_st_graphpca, is_mended=False),
        needs=("GraphPCA",),
        most_nodes=20_000,
    ),
    Way("st-graphpca, mended", partial(_st_graphpca, is_mended=True), needs=("GraphPCA",)),
)

#: On a large graph also what is meant for one.
LARGE_WAYS = (
    *WAYS[:2],
    Way("GPCA, half", partial(_gpca, precision="half")),
    Way("GPCA, 5 steps, half", partial(_gpca, **_STEPS, precision="half")),
    *WAYS[2:6],
    Way("scipy CSR, 5 steps", partial(_plain, scipy_embedding)),
    *WAYS[6:],
)
