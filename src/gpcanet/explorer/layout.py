"""Positions of the nodes in the plane for every pair of alpha and beta."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.linalg import orthogonal_procrustes
from threadpoolctl import threadpool_limits

from ..errors import InputError
from ..linalg import parallel_map
from ..utils.checks import check_choice
from ..utils.progress import report_progress

LAYOUTS = ("auto", "pca", "tsne")

#: Number of nodes up to which "auto" is t-SNE. A layout of 3,000 nodes takes seconds.
AUTO_TSNE_NODES = 5_000

#: Number of nodes up to which t-SNE is allowed. Beyond it, a layout takes minutes.
MAX_TSNE_NODES = 20_000

#: Largest value of a quantised coordinate.
LEVELS = 2**16 - 1


def choose_layout(layout: str, n_nodes: int) -> str:
    """Return "pca" or "tsne" for this number of nodes."""
    check_choice("layout", layout, LAYOUTS)
    if layout == "tsne" and n_nodes > MAX_TSNE_NODES:
        raise InputError(
            f"t-SNE of {n_nodes:,} nodes takes too long, {MAX_TSNE_NODES:,} are allowed; show "
            f"a sample of fewer nodes or use the layout 'pca'"
        )
    if layout == "auto":
        return "tsne" if n_nodes <= AUTO_TSNE_NODES else "pca"
    return layout


def align(points: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Rotate or reflect points to be as near as possible to the reference; distances are kept."""
    rotation, _ = orthogonal_procrustes(points, reference)
    return np.asarray(points @ rotation)


def standardize(points: np.ndarray) -> np.ndarray:
    """Points with mean 0, scaled by one factor to a root mean square distance of 1 from it."""
    centered = points.astype(np.float64) - points.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(np.mean(np.sum(centered**2, axis=1))))
    return centered / (spread or 1.0)


def lay_out(embeddings: dict[tuple[int, int], np.ndarray], kind: str) -> np.ndarray:
    """Positions of shape (n_betas, n_alphas, n_nodes, 2).

    Every layout is standardised, so that embeddings of different scale fill the same area, and
    aligned with the layout of the neighbouring alpha, or of the neighbouring beta. The first is
    the one of the middle alpha: few steps lead from there to the ends.

    Parameters
    ----------
    embeddings : dict
        Z by position of beta and position of alpha. Only two columns are used for "pca".
    kind : {"pca", "tsne"}
    """
    n_betas, n_alphas = (1 + max(place[axis] for place in embeddings) for axis in (0, 1))
    positions = np.empty((n_betas, n_alphas, len(embeddings[0, 0]), 2))
    middle, done = n_alphas // 2, itertools.count(1)

    def place_nodes(beta: int, alpha: int, near: np.ndarray | None) -> None:
        Z = embeddings[beta, alpha]
        points = standardize(_tsne(Z, near) if kind == "tsne" else _two_columns(Z))
        positions[beta, alpha] = points if near is None else align(points, near)
        report_progress("layout", next(done), n_betas * n_alphas)

    def walk(chain: tuple[int, int]) -> None:
        """From the middle to one end: step 1 or -1."""
        beta, step = chain
        for alpha in range(middle + step, n_alphas if step > 0 else -1, step):
            place_nodes(beta, alpha, positions[beta, alpha - step])

    # The spinning threads of t-SNE are slower than one thread on a busy machine.
    with threadpool_limits(1, user_api="openmp"):
        for beta in range(n_betas):
            place_nodes(beta, middle, positions[beta - 1, middle] if beta else None)
        parallel_map(walk, [(beta, step) for beta in range(n_betas) for step in (-1, 1)])
    return positions


def _two_columns(Z: np.ndarray) -> np.ndarray:
    """The first two components; the second is 0 if there is only one."""
    return np.pad(Z[:, :2], ((0, 0), (0, max(0, 2 - Z.shape[1]))))


#: Spread of the start of t-SNE, as in scikit-learn. Points that start far from each other stay
#: there, and the layout would show clusters of its neighbour that this embedding does not have.
TSNE_START = 1e-4


def _tsne(Z: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """t-SNE from another layout, or from two components."""
    from sklearn.manifold import TSNE

    n_nodes = len(Z)
    if n_nodes < 4:  # no perplexity is small enough
        return _two_columns(Z)
    start = standardize(_two_columns(Z)) if start is None else start
    model = TSNE(
        perplexity=min(30.0, (n_nodes - 1) / 3),
        max_iter=400,
        angle=0.7,
        init=(TSNE_START * start).astype(np.float32),
        random_state=0,
    )
    return np.asarray(model.fit_transform(Z))


class Quantized(NamedTuple):
    """Numbers low + step * levels, with 16-bit levels."""

    levels: np.ndarray
    low: np.ndarray  # smallest value of each axis
    step: float  # of all axes, so that the aspect ratio is kept


def quantize(positions: np.ndarray) -> Quantized:
    """Round coordinates to 16 bits; the error is at most half a step."""
    flat = positions.reshape(-1, positions.shape[-1])
    low = flat.min(axis=0)
    step = float((flat.max(axis=0) - low).max()) / LEVELS or 1.0
    levels = np.rint((positions - low) / step).astype(np.uint16)
    return Quantized(levels, low, step)
