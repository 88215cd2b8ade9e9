"""How much memory a fit will take, told before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import scipy.sparse as sp

from .gpca import COLUMNS_PER_BLOCK, GPCA, is_better_dense
from .graph import Graph

# Measured as peak resident memory over that before the fit, on graphs of 50,000 to 200,000 nodes
# with 64 to 5,000 features: a solve holds four blocks and parts of a fifth, a better order of
# the nodes costs two copies of the entries, compiled code about 60 MB.
BLOCKS, BYTES_PER_ENTRY, BYTES_OF_CODE = 4.5, 10, 64 * 2**20

#: Estimates below this are not worth a word.
WORTH_TELLING = 2**30


def fit_bytes(model: GPCA, graph: Graph, X: Any) -> int:
    """About the most that ``model.fit(X, graph=graph)`` holds beyond the graph and X.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((1_000_000, 100), np.float32)
    >>> f"{fit_bytes(GPCA(16), Graph.without_edges(1_000_000), X) / 2**30:.1f} GiB"
    '1.7 GiB'
    """
    n_nodes, width = X.shape
    item, more = X.dtype.itemsize, 0
    k = model._width(X)
    if model._use_lanczos(X, k):
        stored = X.nnz if sp.issparse(X) else X.size
        width, item, more = k, 8, 12 * stored  # X once more, in float64
    elif sp.issparse(X) and not is_better_dense(X):
        width, more = max(k, min(width, COLUMNS_PER_BLOCK)), 2 * width**2 * item
    return int(BLOCKS * n_nodes * width * item + more + BYTES_PER_ENTRY * len(graph.indices)) + (
        BYTES_OF_CODE
    )


def available_bytes() -> int | None:
    """Memory that is free to use, where the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def tell_memory(model: GPCA, graph: Graph, X: Any) -> str | None:
    """A sentence about the memory of a big fit; None for a small one."""
    needed, free = fit_bytes(model, graph, X), available_bytes()
    if needed < WORTH_TELLING:
        return None
    sentence = f"this will take about {needed / 2**30:.1f} GiB of memory"
    if free is None:
        return sentence
    sentence += f" of {free / 2**30:.1f} GiB free"
    if needed > free:
        sentence += ": it may fail, or swap; fewer features or float32 need less"
    return sentence
