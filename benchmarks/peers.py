"""Methods that compute an embedding: ours, other libraries' and simple baselines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD

from gpcanet.datasets import Dataset
from gpcanet.estimators.gpca import GPCA

from .baselines import ALPHA, N_STEPS, scipy_embedding, scipy_propagation, torch_embedding
from .step import edge_index
from .timing import Method

#: Number of components of every embedding.
WIDTH = 64

#: Number of components to which the SVD baseline reduces X before propagation.
REDUCED_WIDTH = 256

Embedding = Callable[[], np.ndarray]


def _gpca(data: Dataset, **settings: Any) -> Embedding:
    model = GPCA(WIDTH, alpha=ALPHA, **settings)
    return lambda: model.fit_transform(data.X, graph=data.graph)


def _features_only(model: Any, data: Dataset) -> Embedding:
    return lambda: model.fit_transform(data.X)


def _propagated_svd(data: Dataset) -> Embedding:
    """A simple script: reduce X, propagate twice, reduce again."""

    def run() -> np.ndarray:
        P = scipy_propagation(data.graph.indptr, data.graph.indices)
        reduced = data.X
        if data.X.shape[1] > REDUCED_WIDTH:
            reduced = TruncatedSVD(REDUCED_WIDTH, random_state=0).fit_transform(data.X)
        return np.asarray(TruncatedSVD(WIDTH, random_state=0).fit_transform(P @ (P @ reduced)))

    return run


def _plain(embedding: Callable[..., np.ndarray], data: Dataset) -> Embedding:
    X = _dense(data)
    return lambda: embedding(data.graph.indptr, data.graph.indices, X, WIDTH)


def _torch(data: Dataset) -> Embedding:
    import torch  # noqa: F401  (raises if missing)

    return _plain(torch_embedding, data)


def _pyg(n_steps: int, teleport: float, data: Dataset) -> Embedding:
    """Propagation of APPNP; without teleport it is that of SGC."""
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


def st_graphpca(
    data: Dataset, *, is_corrected: bool, n_components: int = WIDTH, **settings: Any
) -> Embedding:
    """st-graphpca; its defaults use conjugate gradients in Python."""
    import GraphPCA.gpca as peer

    peer.logger.setLevel(logging.ERROR)  # it warns if its C++ extension is missing
    table = SimpleNamespace(X=sp.csr_matrix(data.X), shape=data.X.shape)
    network = sp.csr_matrix(data.graph.adjacency)

    def run() -> np.ndarray:
        with _corrected(peer) if is_corrected else nullcontext():
            found = peer.Run_GPCA(table, network=network, n_components=n_components, **settings)
            return np.asarray(found[0])

    return run


@contextmanager
def _corrected(peer: Any) -> Iterator[None]:
    """Use the inverse of the diagonal as preconditioner, and check that the solver converged.

    The released version uses the diagonal itself as preconditioner, which slows convergence, and
    ignores the status of the solver.
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

#: Methods for every graph.
METHODS = (
    Method("GPCA", _gpca),
    Method("GPCA, 5 steps", partial(_gpca, **_STEPS)),
    Method("PCA of X", partial(_features_only, PCA(WIDTH, random_state=0))),
    Method("TruncatedSVD of X", partial(_features_only, TruncatedSVD(WIDTH, random_state=0))),
    Method("SVD, 2 steps, SVD", _propagated_svd),
    Method("torch CSR, 5 steps", _torch, needs=("torch",)),
    Method("PyG SGC, 2 steps, then PCA", partial(_pyg, 2, 0.0), needs=_PYG),
    Method("PyG APPNP, 5 steps, then PCA", partial(_pyg, N_STEPS, 1 / (1 + ALPHA)), needs=_PYG),
    Method("scikit-network Spectral", partial(_scikit_network, "Spectral"), needs=("sknetwork",)),
    Method("scikit-network GSVD", partial(_scikit_network, "GSVD"), needs=("sknetwork",)),
    Method(
        "st-graphpca",
        partial(st_graphpca, is_corrected=False),
        needs=("GraphPCA",),
        max_nodes=20_000,
    ),
    Method("st-graphpca, corrected", partial(st_graphpca, is_corrected=True), needs=("GraphPCA",)),
)

#: Methods for the large graph.
LARGE_METHODS = (
    *METHODS[:2],
    Method("GPCA, half", partial(_gpca, precision="half")),
    Method("GPCA, 5 steps, half", partial(_gpca, **_STEPS, precision="half")),
    *METHODS[2:6],
    Method("scipy CSR, 5 steps", partial(_plain, scipy_embedding)),
    *METHODS[6:],
)
