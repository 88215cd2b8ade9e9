"""Random numbers as the authors' program draws them: by torch's generator and in its order."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch


class TorchDraws:
    """First weights and dropout of a head, as after ``torch.manual_seed(seed)`` in their program.

    Before the head's weights it draws those of the GPCA layer, which are then overwritten; and
    it draws dropout for all nodes, also where only a few ``rows`` are trained on.
    """

    def __init__(
        self, seed: int, dropout: float, *, n_features: int, n_nodes: int, rows: np.ndarray
    ) -> None:
        self._given = seed, dropout, n_features, n_nodes, np.asarray(rows, np.int64).tobytes()
        self._used = 0

    def weights(self, widths: list[int]) -> list[np.ndarray]:
        self._stream = _Stream.of(*self._given, tuple(widths))
        return [weight.copy() for weight in self._stream.weights]

    def kept(self, shape: tuple[int, int]) -> np.ndarray | None:
        if not self._stream.dropout:
            return None
        self._used += 1
        return self._stream.mask(self._used - 1, shape[1])


class _Stream:
    """What a seed gives, kept for other runs: drawing for all nodes takes longer than training."""

    def __init__(
        self, seed: int, dropout: float, n_features: int, n_nodes: int, rows: bytes,
        widths: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.dropout, self._n_nodes, self._rows = dropout, n_nodes, np.frombuffer(rows, np.int64)
        self._generator = torch.Generator().manual_seed(seed)
        self._masks: list[np.ndarray] = []  # a bit for each entry
        torch.empty(n_features, widths[0]).uniform_(generator=self._generator)
        self.weights = []
        for n_in, n_out in pairwise(widths):
            for shape in ((n_out, n_in), (n_out,)):
                weight = torch.empty(shape)
                weight.uniform_(-(n_in**-0.5), n_in**-0.5, generator=self._generator)
                self.weights.append(np.ascontiguousarray(weight.numpy().T))

    of = staticmethod(lru_cache(maxsize=16)(lambda *given: _Stream(*given)))

    def mask(self, i: int, width: int) -> np.ndarray:
        while len(self._masks) <= i:
            drawn = torch.empty(self._n_nodes, width)
            drawn.bernoulli_(1 - self.dropout, generator=self._generator)
            self._masks.append(np.packbits(drawn.numpy()[self._rows] > 0, axis=1))
        bits = np.unpackbits(self._masks[i], axis=1, count=width)
        return bits * np.float32(1 / (1 - self.dropout))
