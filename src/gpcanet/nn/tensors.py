"""Checks of tensors, and conversion between torch, numpy and scipy; sparse tensors stay sparse."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from ..errors import InputError, InputTypeError
from ..utils.checks import check_number

#: Largest density of features for which a sparse product is faster than a dense one.
SPARSE_DENSITY = 0.04

#: Columns of a sparse matrix that are converted to a dense block at a time.
COLUMN_BLOCK = 256

#: Largest seed of torch.
LARGEST_SEED = 2**63 - 1


# -- checks -------------------------------------------------------------------------------


def check_layer_input(x: Any, weight: Tensor, in_channels: int) -> None:
    """Raise an error unless x is a tensor of shape (n_nodes, in_channels) that fits the weight."""
    if not isinstance(x, Tensor):
        raise InputTypeError(f"x is a {type(x).__name__}; give a tensor of features")
    if x.dim() != 2 or x.shape[1] != in_channels:
        raise InputError(
            f"x has shape {tuple(x.shape)}, but the layer has in_channels={in_channels}; give "
            f"shape (n_nodes, {in_channels})"
        )
    check_same_device(x, weight)
    check_same_dtype(x, weight, "the layer")


def check_module(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise InputTypeError(f"model is a {type(model).__name__}; give a torch.nn.Module")


def check_same_device(x: Tensor, weight: Tensor) -> None:
    if x.device != weight.device:
        raise InputError(
            f"x is on device {x.device} and the model on {weight.device}; move one of them, for "
            f"example by x.to({str(weight.device)!r})"
        )


def check_same_dtype(x: Tensor, weight: Tensor, owner: str) -> None:
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise InputError(
            f"{owner} has weights of dtype {dtype_name(weight)} but its features have dtype "
            f"{dtype_name(x)}; convert one of them, for example by "
            f"x.to(torch.{dtype_name(weight)})"
        )


def check_finite_features(x: Tensor) -> None:
    if not bool(torch.isfinite(stored_values(x)).all()):
        raise InputError("x contains NaN or infinite values; impute them first")


def check_seed(seed: Any) -> None:
    check_number("seed", seed, 0, LARGEST_SEED, advice="use seed=0", integer=True)


def dtype_name(x: Tensor) -> str:
    """Name of the dtype without the prefix ``torch.``."""
    return str(x.dtype).removeprefix("torch.")


# -- conversion ---------------------------------------------------------------------------


def to_feature_tensor(X: Any) -> Tensor:
    """Convert features to a float32 tensor, in CSR format if X is sparse with a low density."""
    kind = getattr(X, "dtype", np.dtype(float))
    if kind.kind not in "biuf":
        raise InputTypeError(f"features of dtype {kind} must be real numbers; convert them first")
    if sp.issparse(X):
        X = sp.csr_array(X)
        if X.nnz <= SPARSE_DENSITY * X.shape[0] * X.shape[1]:
            return to_csr_tensor(X).to(torch.float32)
        X = X.toarray()
    return torch.from_numpy(np.ascontiguousarray(X)).to(torch.float32)


def to_csr_tensor(X: sp.csr_array) -> Tensor:
    """Convert a csr_array to a sparse CSR tensor."""
    parts = (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        tensors = map(torch.from_numpy, parts)
        return torch.sparse_csr_tensor(*tensors, size=X.shape, check_invariants=False)


def to_numpy_or_scipy(x: Tensor) -> Any:
    """Convert a tensor to a float ndarray or csr_array; memory is shared if possible."""
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


def dense_blocks(x: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of columns of a sparse matrix as dense matrices, or a dense matrix as one block."""
    if not is_sparse(x):
        yield slice(None), x
        return
    columns = to_numpy_or_scipy(x).tocsc()
    for begin in range(0, x.shape[1], COLUMN_BLOCK):
        part = slice(begin, begin + COLUMN_BLOCK)
        yield part, torch.from_numpy(columns[:, part].toarray()).to(x.device, x.dtype)


def select_rows(x: Tensor, nodes: np.ndarray) -> Tensor:
    """Return the rows of these nodes; sparse if x is sparse."""
    if not is_sparse(x):
        return x[torch.from_numpy(nodes).to(x.device)]
    return to_csr_tensor(to_numpy_or_scipy(x)[nodes]).to(x.device)


def is_sparse(x: Tensor) -> bool:
    """Whether the layout is not dense."""
    return x.layout != torch.strided


def stored_values(x: Tensor) -> Tensor:
    """The tensor itself, or the stored values of a sparse tensor."""
    if not is_sparse(x):
        return x
    return x.coalesce().values() if x.layout == torch.sparse_coo else x.values()
