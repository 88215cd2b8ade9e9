"""Random numbers of the authors' program: torch's generator, in the same order of draws."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch


class TorchDraws:
    """Initial weights and dropout masks of a head after ``torch.manual_seed(seed)``.

    The authors' program draws the weights of the GPCA layer before those of the head, and
    overwrites them later. It draws dropout masks for all nodes, of which ``rows`` are used.
    """

    def __init__(
        self, seed: int, dropout: float, *, n_features: int, n_nodes: int, rows: np.ndarray
    ) -> None:
        self._key = seed, dropout, n_features, n_nodes, np.asarray(rows, np.int64).tobytes()
        self._n_used = 0

    def weights(self, widths: list[int]) -> list[np.ndarray]:
        self._stream = _Stream.of(*self._key, tuple(widths))
        return [weight.copy() for weight in self._stream.weights]

    def dropout_mask(self, shape: tuple[int, int]) -> np.ndarray | None:
        if not self._stream.dropout:
            return None
        self._n_used += 1
        return self._stream.mask(self._n_used - 1, shape[1])


class _Stream:
    """The draws of one seed, kept for other runs: drawing takes longer than training."""

    def __init__(
        self, seed: int, dropout: float, n_features: int, n_nodes: int, rows: bytes,
        widths: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.dropout, self._n_nodes, self._rows = dropout, n_nodes, np.frombuffer(rows, np.int64)
        self._generator = torch.Generator().manual_seed(seed)
        self._masks: list[np.ndarray] = []  # packed, one bit per element
        torch.empty(n_features, widths[0]).uniform_(generator=self._generator)
        self.weights = []
        for n_in, n_out in pairwise(widths):
            for shape in ((n_out, n_in), (n_out,)):
                weight = torch.empty(shape)
                weight.uniform_(-(n_in**-0.5), n_in**-0.5, generator=self._generator)
                self.weights.append(np.ascontiguousarray(weight.numpy().T))

    of = staticmethod(lru_cache(maxsize=16)(lambda *key: _Stream(*key)))

    def mask(self, i: int, width: int) -> np.ndarray:
        while len(self._masks) <= i:
            drawn = torch.empty(self._n_nodes, width)
            drawn.bernoulli_(1 - self.dropout, generator=self._generator)
            self._masks.append(np.packbits(drawn.numpy()[self._rows] > 0, axis=1))
        bits = np.unpackbits(self._masks[i], axis=1, count=width)
        return bits * np.float32(1 / (1 - self.dropout))
