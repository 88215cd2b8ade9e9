"""The leading eigenvectors of H^T F, H being the input of a layer and F what it makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...linalg import leading_eigenpairs
from ..tensors import is_sparse, to_numpy_or_scipy

#: Rows multiplied at a time in double precision, and columns of a sparse H made dense at a time.
ROWS, COLUMNS = 2**15, 256


class Directions(NamedTuple):
    vectors: np.ndarray  # d x k, orthonormal
    kept: float  # share of the squared size of F that F V has
    gain: float  # how many times larger than H F is


def leading_directions(
    H: Tensor, aggregate: Callable[[Tensor], Tensor], k: int, *, centre: bool = False
) -> Directions:
    """``aggregate`` takes columns of H to columns of F, each by itself.

    With ``centre``, H is H less its mean row.
    """
    if is_sparse(H):
        return _of_sparse(H, aggregate, k, centre)
    H = H - H.mean(0) if centre else H
    F = aggregate(H)
    M = torch.zeros(H.shape[1], F.shape[1], dtype=torch.float64, device=H.device)
    for h, f in zip(H.split(ROWS), F.split(ROWS), strict=True):
        M += h.double().T @ f.double()
    _, V = leading_eigenpairs(M.cpu().numpy(), k)
    return _directions(V, F @ torch.from_numpy(V).to(F), _size(F), _size(H))


def _of_sparse(
    H: Tensor, aggregate: Callable[[Tensor], Tensor], k: int, centre: bool
) -> Directions:
    """The same without ever having F whole: it is dense, and as wide as H."""
    n, d = H.shape
    sparse = to_numpy_or_scipy(H).tocsc()
    mean = np.asarray(sparse.sum(axis=0)).ravel() / n if centre else np.zeros(d, sparse.dtype)
    M, size = np.empty((d, d)), 0.0
    for start in range(0, d, COLUMNS):
        columns = slice(start, start + COLUMNS)
        F = aggregate(torch.from_numpy(sparse[:, columns].toarray() - mean[columns]).to(H.device))
        block = F.double().cpu().numpy()
        M[:, columns] = sparse.T @ block - np.outer(mean, block.sum(axis=0))
        size += _size(F)
    _, V = leading_eigenpairs(M, k)
    narrow = V.astype(sparse.dtype)
    projected = torch.from_numpy(np.asarray(sparse @ narrow - mean @ narrow)).to(H.device)
    size_of_H = float(np.square(sparse.data).sum()) - n * float(np.square(mean).sum())
    return _directions(V, aggregate(projected), size, size_of_H)


def _directions(V: np.ndarray, FV: Tensor, size_of_F: float, size_of_H: float) -> Directions:
    kept = _size(FV) / size_of_F if size_of_F > 0 else 1.0
    gain = (size_of_F / size_of_H) ** 0.5 if size_of_H > 0 else 1.0
    return Directions(V, min(kept, 1.0), gain)


def _size(block: Tensor) -> float:
    return float(sum(rows.double().square().sum() for rows in block.split(ROWS)))
