"""Straightforward implementations of the paper's algorithm with scipy and torch.

F <- c P F + (1 - c) X, five times from F = X; W from the symmetrised X^T F; Z = F W.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

ALPHA, N_STEPS = 10.0, 5


def scipy_propagation(indptr: np.ndarray, indices: np.ndarray) -> sp.csr_array:
    """D^-1/2 (A + I) D^-1/2 in float32, with 4-byte indices, the fastest for scipy."""
    n = len(indptr) - 1
    ones = np.ones(len(indices), np.float32)
    indices = indices.astype(np.int32, copy=False)
    A = sp.csr_array((ones, indices, indptr.astype(np.int32)), shape=(n, n))
    scale = sp.diags_array((np.diff(indptr) + 1).astype(np.float32) ** -0.5)
    return (scale @ (A + sp.eye_array(n, dtype=np.float32)) @ scale).tocsr()


def scipy_embedding(indptr: np.ndarray, indices: np.ndarray, X: np.ndarray, k: int) -> np.ndarray:
    c = np.float32(ALPHA / (1 + ALPHA))
    P = scipy_propagation(indptr, indices)
    X = X - X.mean(axis=0)
    F = X
    for _ in range(N_STEPS):
        F = c * (P @ F) + (1 - c) * X
    M = X.T @ F
    _, vectors = np.linalg.eigh((M + M.T) / 2)
    return F @ vectors[:, : -k - 1 : -1]


def torch_csr(indptr: Any, indices: Any, values: Any) -> Any:
    import torch

    n = len(indptr) - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr, indices, values, size=(n, n), check_invariants=False)


def torch_embedding(indptr: np.ndarray, indices: np.ndarray, X: np.ndarray, k: int) -> np.ndarray:
    import torch

    c = ALPHA / (1 + ALPHA)
    with warnings.catch_warnings():  # it is only read
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        columns = torch.from_numpy(indices.astype(np.int32, copy=False))
    degrees = torch.tensor(np.diff(indptr))
    scale = (degrees + 1).to(torch.float32).rsqrt()
    values = torch.repeat_interleave(scale, degrees) * scale[columns]
    P = torch_csr(torch.tensor(indptr.astype(np.int32)), columns, values)
    loops = (scale * scale)[:, None]  # self-loops, which are not in the matrix
    features = torch.tensor(X)
    features -= features.mean(dim=0)
    F = features
    for _ in range(N_STEPS):
        F = c * (P @ F + loops * F) + (1 - c) * features
    M = features.T @ F
    _, vectors = torch.linalg.eigh((M + M.T) / 2)
    return (F @ vectors[:, -k:].flip(1)).numpy()
