"""Dropout with fast random numbers on a CPU."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

#: Number of distinct probabilities: each entry is decided by 16 random bits.
LEVELS = 2**16


class Dropout(torch.nn.Dropout):
    """``torch.nn.Dropout`` with faster random numbers on a CPU.

    On a CPU torch generates random numbers sequentially, which takes about as long as the rest of
    a GCN layer. Here numpy generates them, seeded by one random number of torch, so that
    ``torch.manual_seed`` still makes results reproducible.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> Dropout(0.5)(torch.ones(1000, 10)).unique()
    tensor([0., 2.])
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0 or x.device.type != "cpu" or self.p >= 1:
            return super().forward(x)
        mask = self._mask(tuple(x.shape)).to(x.dtype)
        return x.mul_(mask) if self.inplace else x * mask

    @torch.compiler.disable  # the random numbers are those of numpy
    def _mask(self, shape: tuple[int, ...]) -> Tensor:
        """1 / (1 - p) for entries that are kept, and 0."""
        scaled = (random_bits(shape) >= round(self.p * LEVELS)) * np.float32(1 / (1 - self.p))
        return torch.from_numpy(scaled)


def random_bits(shape: tuple[int, ...], generator: torch.Generator | None = None) -> np.ndarray:
    """16 random bits per entry, as uint16, seeded by one random number of torch."""
    seed = int(torch.randint(2**63 - 1, (), device="cpu", generator=generator))
    n = math.prod(shape)
    words = np.random.SFC64(seed).random_raw(-(-n // 4))  # four entries per word of 64 bits
    return words.view(np.uint16)[:n].reshape(shape)
