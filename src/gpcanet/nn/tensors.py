"""Features between numpy, scipy and torch; sparse ones stay sparse where that pays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from ..errors import InputTypeError

#: A sparse product reads an index with each number and no whole rows: it is quicker than a dense
#: one only on features much emptier than this.
SPARSE_SHARE = 0.04


def feature_tensor(X: Any, device: Any = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
    """Features as a dense tensor, or as a sparse CSR one where most of them are 0."""
    kind = getattr(X, "dtype", np.dtype(float))
    if kind.kind not in "biuf":
        raise InputTypeError(f"features of dtype {kind} must be real numbers; convert them first")
    if not sp.issparse(X):
        return torch.from_numpy(np.ascontiguousarray(X)).to(device, dtype)
    X = sp.csr_array(X)
    if X.nnz > SPARSE_SHARE * X.shape[0] * X.shape[1]:
        return torch.from_numpy(X.toarray()).to(device, dtype)
    return csr_tensor(X).to(device, dtype)


def csr_tensor(X: sp.csr_array) -> Tensor:
    """The same matrix as a sparse CSR tensor."""
    parts = (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data)
    with warnings.catch_warnings():  # they have been "in beta" for years
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        tensors = map(torch.from_numpy, parts)
        return torch.sparse_csr_tensor(*tensors, size=X.shape, check_invariants=False)


def rows_of(x: Tensor, nodes: np.ndarray) -> Tensor:
    """Some rows, sparse if x is."""
    if not is_sparse(x):
        return x[torch.from_numpy(nodes).to(x.device)]
    return csr_tensor(to_numpy_or_scipy(x)[nodes]).to(x.device)


def is_sparse(x: Tensor) -> bool:
    return x.layout != torch.strided


def values_of(x: Tensor) -> Tensor:
    """The numbers of a tensor: all of a dense one, the stored ones of a sparse one."""
    if x.layout == torch.strided:
        return x
    return x.coalesce().values() if x.layout == torch.sparse_coo else x.values()


def to_numpy_or_scipy(x: Tensor) -> Any:
    """A float array or csr_array of the same numbers, shared with the tensor where it can be."""
    x = x.detach().cpu()
    if x.dtype not in (torch.float32, torch.float64):
        x = x.float()
    if not is_sparse(x):
        return x.numpy()
    if x.layout == torch.sparse_csr:
        parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
        return sp.csr_array(parts, shape=tuple(x.shape))
    x = x.to_sparse_coo().coalesce()
    rows, columns = x.indices().numpy()
    return sp.csr_array((x.values().numpy(), (rows, columns)), shape=tuple(x.shape))
