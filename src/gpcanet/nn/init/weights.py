"""From eigenvectors to a weight matrix of any width."""

from __future__ import annotations

import numpy as np


def eigenvectors_needed(width: int, n_features: int, *, pairs: bool) -> int:
    """How many leading eigenvectors a layer of this width is made of."""
    return min((width + 1) // 2 if pairs else width, n_features)


def mixing(k: int, width: int, *, pairs: bool, seed: int = 0) -> np.ndarray:
    """C, k x width, such that the columns of V C are the weights of a layer, V the eigenvectors.

    With ``pairs`` the columns are e_1 .. e_h, -e_1 .. -e_(width - h), h half the width rounded
    up: a ReLU passes the positive part of one and the negative part of the other, and nothing is
    lost. Where there are fewer eigenvectors than wanted, random directions in their span stand
    in for the missing ones (the paper's "random projection of eigenvectors"), each of length 1.

    Examples
    --------
    >>> mixing(2, 3, pairs=True)
    array([[ 1.,  0., -1.],
           [ 0.,  1., -0.]])
    """
    wanted = (width + 1) // 2 if pairs else width
    columns = np.eye(k, min(wanted, k))
    if wanted > k:
        drawn = np.random.default_rng(seed).standard_normal((k, wanted - k))
        columns = np.hstack([columns, drawn / np.linalg.norm(drawn, axis=0)])
    return np.hstack([columns, -columns])[:, :width] if pairs else columns
