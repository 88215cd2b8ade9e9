"""Dense and sparse products of GCN layers, for tiles of rows in one thread."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from ..dropout import LEVELS


def linear(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x @ weight.T; in float32 by oneDNN, which uses AVX-512 on CPUs of all vendors."""
    fast = _scripted_linear() if x.dtype == np.float32 else None
    if fast is not None:
        return fast(torch.from_numpy(x), torch.from_numpy(weight)).numpy()
    with np.errstate(all="ignore"):  # a training that diverges is noticed by its loss
        return x @ weight.T


def _onednn_linear(x: Tensor, weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


@cache
def _scripted_linear() -> Callable[[Tensor, Tensor], Tensor] | None:
    """``_onednn_linear`` in TorchScript, which releases the GIL, unlike calls of ``torch.ops``.

    The operator is not public; None if this version of torch does not have it.
    """
    if not torch.backends.mkldnn.is_available():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.script(_onednn_linear)
    except (AttributeError, RuntimeError):
        return None


def _kernels() -> Any:
    from . import gcn_kernels  # numba takes time to load

    return gcn_kernels


def aggregate(
    matrix: sp.csr_array,
    begin: int,
    end: int,
    F: np.ndarray,
    out: np.ndarray,
    bias: np.ndarray | None = None,
    p: float = 0.0,
    bits: np.ndarray | None = None,
) -> None:
    """out <- rows of matrix @ F, or of dropout(relu(matrix @ F + bias)) with a bias."""
    _kernels().aggregate(
        matrix.indptr[begin : end + 1], matrix.indices, matrix.data, F,
        bias, bits, np.uint32(round(p * LEVELS)), F.dtype.type(1 / (1 - p)), out,
    )  # fmt: skip


def mask_gradient(H: np.ndarray, G: np.ndarray, scale: Any, out: np.ndarray) -> None:
    """out <- gradient before ReLU and dropout, for the gradient G of their output H."""
    _kernels().mask_gradient(H, G, scale, out)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread in a block; tiles are computed in threads instead."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)
