"""The nodes on which some rows of the output of a GCN depend, layer by layer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

#: Largest share of the nodes for which a layer is computed on these nodes only.
SUBSET_SHARE = 0.8


def receptive_fields(
    matrix: sp.csr_array, nodes: np.ndarray, n_layers: int
) -> list[np.ndarray | None]:
    """Rows of the input of each layer, and of the output, on which these output rows depend.

    None stands for all rows.
    """
    n = matrix.shape[0]
    pattern = sp.csr_array((np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr))
    fields: list[np.ndarray | None] = [nodes]
    for _ in range(n_layers):
        last = fields[0]
        if last is not None:
            chosen = np.zeros(n, np.float32)
            chosen[last] = 1
            last = np.flatnonzero(pattern @ chosen)
        fields.insert(0, None if last is None or len(last) > SUBSET_SHARE * n else last)
    return fields


def submatrices(matrix: sp.csr_array, fields: list[np.ndarray | None]) -> list[sp.csr_array]:
    """For every two consecutive sets of rows, the matrix from the first to the second."""
    found = []
    for columns, rows in pairwise(fields):
        part = matrix if rows is None else matrix[rows]
        found.append(sp.csr_array(part if columns is None else part[:, columns]))
    return found


def positions(nodes: np.ndarray | None, rows: np.ndarray | None) -> np.ndarray | None:
    """Positions of some nodes among sorted rows; None for all of them."""
    if nodes is None or (rows is not None and len(nodes) == len(rows)):
        return None
    return nodes if rows is None else np.searchsorted(rows, nodes)
