"""From the input H of a layer to its weights: leading eigenvectors of H^T F, and their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...linalg import leading_eigenpairs
from ..tensors import dense_blocks, is_sparse, to_numpy_or_scipy

#: Rows per product in double precision.
ROW_BLOCK = 2**15

#: Root mean square of the outputs of a layer. Larger outputs make training slower: a step of Adam
#: changes them less, and a random output layer starts with larger wrong scores.
OUTPUT_SIZE = 0.1

#: Standard deviations below this fraction of the largest count as this fraction.
SMALLEST_DEVIATION = 1e-4


class LayerEigenvectors(NamedTuple):
    """Leading eigenvectors V of H^T F."""

    vectors: np.ndarray  # of shape (in_channels, k), orthonormal columns
    projected: Tensor  # F V
    kept: float  # ||F V||^2 / ||F||^2
    gain: float  # ||F|| / ||H||

    def weights(self, C: np.ndarray, power: float) -> np.ndarray:
        """Return V S C / c, with S the inverse standard deviations of F V to a power.

        c is such that the entries of the output F V S C / c have root mean square OUTPUT_SIZE.
        """
        FV = self.projected.double().cpu().numpy()
        deviation = FV.std(axis=0)
        scale = np.ones_like(deviation)
        if power > 0 and deviation.max() > 0:
            scale = np.maximum(deviation, SMALLEST_DEVIATION * deviation.max()) ** -power
        size = np.sqrt(np.mean(np.square((FV * scale) @ C)))
        return (self.vectors * scale) @ C * (OUTPUT_SIZE / size if size > 0 else 1.0)


def layer_eigenvectors(
    H: Tensor,
    aggregate: Callable[[Tensor], Tensor],
    k: int,
    *,
    center: bool = False,
    basis: np.ndarray | None = None,
) -> LayerEigenvectors:
    """Compute the k leading eigenvectors of H^T F for the input H of a layer, dense or sparse.

    ``aggregate`` maps a block of columns of H to the same columns of F. With ``center``, the mean
    row is subtracted from H first. With a ``basis`` of orthonormal columns, for dense H only, the
    eigenvectors are those of the restriction of H^T F to the span of the basis.
    """
    if is_sparse(H):
        return _sparse_layer_eigenvectors(H, aggregate, k, center)
    H = H - H.mean(0) if center else H
    F = aggregate(H)
    M = torch.zeros(H.shape[1], F.shape[1], dtype=torch.float64, device=H.device)
    for h, f in zip(H.split(ROW_BLOCK), F.split(ROW_BLOCK), strict=True):
        M += h.double().T @ f.double()
    if basis is None:
        _, V = leading_eigenpairs(M.cpu().numpy(), k)
        FV = F @ torch.from_numpy(V).to(F)
    else:
        _, coordinates = leading_eigenpairs(basis.T @ M.cpu().numpy() @ basis, k)
        V = basis @ coordinates
        H, F = (block @ torch.from_numpy(basis).to(block) for block in (H, F))
        FV = F @ torch.from_numpy(coordinates).to(F)
    return _with_ratios(V, FV, _squared_norm(F), _squared_norm(H))


def _sparse_layer_eigenvectors(
    H: Tensor, aggregate: Callable[[Tensor], Tensor], k: int, center: bool
) -> LayerEigenvectors:
    """The same in blocks of columns, because F is dense and has as many columns as H."""
    n, d = H.shape
    sparse = to_numpy_or_scipy(H)
    mean = np.asarray(sparse.sum(axis=0)).ravel() / n if center else np.zeros(d, sparse.dtype)
    M, norm_F = np.empty((d, d)), 0.0
    for columns, dense in dense_blocks(H):
        F = aggregate(dense - torch.from_numpy(mean[columns]).to(dense))
        block = F.double().cpu().numpy()
        M[:, columns] = sparse.T @ block - np.outer(mean, block.sum(axis=0))
        norm_F += _squared_norm(F)
    _, V = leading_eigenpairs(M, k)
    V_cast = V.astype(sparse.dtype)
    projected = torch.from_numpy(np.asarray(sparse @ V_cast - mean @ V_cast)).to(H.device)
    norm_H = float(np.square(sparse.data).sum()) - n * float(np.square(mean).sum())
    return _with_ratios(V, aggregate(projected), norm_F, norm_H)


def _with_ratios(V: np.ndarray, FV: Tensor, norm_F: float, norm_H: float) -> LayerEigenvectors:
    """Add the ratios of squared norms; they are 1 if F or H is zero."""
    kept = _squared_norm(FV) / norm_F if norm_F > 0 else 1.0
    gain = (norm_F / norm_H) ** 0.5 if norm_H > 0 else 1.0
    return LayerEigenvectors(V, FV, min(kept, 1.0), gain)


def _squared_norm(block: Tensor) -> float:
    return float(sum(rows.double().square().sum() for rows in block.split(ROW_BLOCK)))


def mixing_matrix(
    n_eigenvectors: int,
    width: int,
    *,
    pairs: bool,
    n_blocks: int = 1,
    seed: int = 0,
    tower: int = 0,
    n_towers: int = 1,
) -> np.ndarray:
    """Return the matrix C for which V C are the weights of a layer, V being eigenvectors.

    C has ``width`` unit columns and one row per leading eigenvector that is used. With ``pairs``,
    V C has the columns v_1 .. v_h and -v_1 .. -v_(width - h), h being half the width rounded up: a
    ReLU passes on the positive part of one and the negative part of the other, so that no
    information is lost. If there are too few eigenvectors, random unit vectors in their span are
    added (the "random projection of eigenvectors" of the paper). Parallel layers with the same
    input (towers) get different columns. With ``n_blocks``, the columns are those of several
    attention heads side by side, and the two signs of an eigenvector belong to the same head.

    Examples
    --------
    >>> mixing_matrix(2, 3, pairs=True)
    array([[ 1.,  0., -1.],
           [ 0.,  1., -0.]])
    """
    if n_blocks > 1:
        heads = range(tower * n_blocks, (tower + 1) * n_blocks)
        return np.hstack([
            mixing_matrix(n_eigenvectors, width // n_blocks, pairs=pairs, seed=seed, tower=head,
                          n_towers=n_towers * n_blocks)
            for head in heads
        ])  # fmt: skip
    n_columns = (width + 1) // 2 if pairs else width
    k = min(n_columns * n_towers, n_eigenvectors)
    C = np.eye(k, n_columns * n_towers)
    if k < C.shape[1]:
        random = np.random.default_rng(seed).standard_normal((k, C.shape[1] - k))
        C[:, k:] = random / np.linalg.norm(random, axis=0)
    C = C[:, tower * n_columns : (tower + 1) * n_columns]
    return np.hstack([C, -C])[:, :width] if pairs else C


def pair_differences(width: int, n_blocks: int = 1) -> np.ndarray:
    """Return an orthonormal basis of the differences of columns with opposite signs.

    The pairs are those of ``mixing_matrix`` with ``pairs``. A column without a partner, in blocks
    of odd width, is kept.
    """
    block = width // n_blocks
    half = (block + 1) // 2
    D = np.vstack([np.eye(half), -np.eye(block - half, half)])
    return np.kron(np.eye(n_blocks), D / np.linalg.norm(D, axis=0))


def are_pairs(H: Tensor, n_blocks: int = 1) -> bool:
    """Whether H consists of pairs of columns of opposite signs, as an activation returns them.

    Such columns are f(z) and f(-z) for an activation f that preserves signs. Their difference is z
    for ReLU, GELU and SiLU, a multiple of z for LeakyReLU, and close to one for ELU.
    """
    if H.dim() != 2 or H.shape[1] % n_blocks or H.shape[1] // n_blocks < 2:
        return False
    half = (H.shape[1] // n_blocks + 1) // 2
    blocks = H.reshape(len(H), n_blocks, -1)
    first, second = blocks[:, :, : blocks.shape[2] - half], blocks[:, :, half:]
    # Rounding may give values near zero the same sign.
    return bool((first * second <= 1e-6 * H.square().mean()).all()) and bool((H != 0).any())
