"""Effective rank of hidden features: how many directions a layer passes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...errors import InputTypeError
from ..tensors import is_sparse
from .rules import NamedLayer

#: Rows that are used at most; they are spread evenly over the nodes.
MAX_ROWS = 20_000


@torch.no_grad()
def effective_rank(H: Tensor) -> float:
    """Compute the effective rank of centred features.

    It is the exponential of the entropy of the squared singular values, divided by their sum: k if
    k singular values are equal and the others zero, and 1 if all rows lie on a line. Features
    without variance have effective rank 0. Of more than 20,000 rows, an evenly spaced subset is
    used.

    Parameters
    ----------
    H : Tensor of shape (n_nodes, n_features)

    References
    ----------
    Roy and Vetterli, "The effective rank: a measure of effective dimensionality", EUSIPCO 2007,
    with the squared singular values in place of the singular values.

    Examples
    --------
    >>> round(effective_rank(torch.eye(4)), 6)  # centring removes one of the four directions
    3.0
    """
    if not isinstance(H, Tensor) or H.dim() != 2 or is_sparse(H):
        raise InputTypeError("H must be a dense tensor of shape (n_nodes, n_features); convert it")
    H = H.detach()[:: max(1, -(-H.shape[0] // MAX_ROWS))].double()
    H = H - H.mean(0)
    gram = H.T @ H if H.shape[1] <= H.shape[0] else H @ H.T
    shares = torch.linalg.eigvalsh(gram).clamp(min=0)
    total = shares.sum()
    if not total > 0:
        return 0.0
    shares = shares[shares > 0] / total
    return float(torch.exp(-(shares * shares.log()).sum()))


@contextmanager
def recorded_ranks(layers: Iterable[NamedLayer]) -> Iterator[dict[str, float]]:
    """Record the effective rank of the first output of each layer that runs inside the block."""
    ranks: dict[str, float] = {}

    def record(name: str, _: Any, __: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.dim() == 2 and name not in ranks:
            ranks[name] = effective_rank(output)

    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.module.register_forward_hook(partial(record, layer.name)))
        yield ranks
