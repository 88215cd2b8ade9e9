"""How much memory a fit will take, told before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .classifier import GPCAClassifier
from .gpca import COLUMNS_PER_BLOCK, GPCA, is_better_dense
from .graph import Graph

# Measured as peak resident memory over that before the fit, on graphs of 50,000 to 200,000 nodes
# with 64 to 5,000 features: a solve holds four blocks and parts of a fifth, a better order of
# the nodes costs two copies of the entries, compiled code about 60 MB.
BLOCKS, BYTES_PER_ENTRY, BYTES_OF_CODE = 4.5, 10, 64 * 2**20

#: Estimates below this are not worth a word.
WORTH_TELLING = 2**30


def fit_bytes(model: GPCA | GPCAClassifier, graph: Graph, X: Any, n_labelled: int = 0) -> int:
    """About the most that ``model.fit(X, y, graph=graph)`` holds beyond the graph and X.

    ``n_labelled`` is the number of labels in y, which only a classifier heeds.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((1_000_000, 100), np.float32)
    >>> f"{fit_bytes(GPCA(16), Graph.without_edges(1_000_000), X) / 2**30:.1f} GiB"
    '1.7 GiB'
    """
    if isinstance(model, GPCAClassifier):
        return _classifier_bytes(model, graph, X, n_labelled)
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


def _classifier_bytes(model: GPCAClassifier, graph: Graph, X: Any, n_labelled: int) -> int:
    """A fit of GPCA, the scaled X it is given, and the embeddings that are kept meanwhile."""
    candidates = model._candidates(X)
    embeddings = {(c.feature_scaling, alpha) for c in candidates for alpha in c.alphas}
    scalings = {scaling for scaling, _ in embeddings}
    gpca, item, scaled = model._gpca(candidates[0].alphas[0]), X.dtype.itemsize, 0
    if scalings != {"none"}:
        scaled = X.nnz * (item + 4) if sp.issparse(X) else X.size * item
    if "tfidf" in scalings and not sp.issparse(X):  # made sparse, and dense again in the fit
        scaled += int(np.count_nonzero(X)) * (item + 4)
    # Whole embeddings of what was chosen, the labelled rows of all that were tried; with ghost
    # edges these are made anew for every part held out.
    n_parts = model.cv + 1 if model.beta > 0 else 1
    n_rows = max(len(c.alphas) for c in candidates) * X.shape[0]
    n_rows += n_parts * len(embeddings) * n_labelled
    return fit_bytes(gpca, graph, X) + scaled + n_rows * gpca._width(X) * item


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


def tell_memory(
    model: GPCA | GPCAClassifier, graph: Graph, X: Any, n_labelled: int = 0
) -> str | None:
    """A sentence about the memory of a big fit; None for a small one."""
    needed, free = fit_bytes(model, graph, X, n_labelled), available_bytes()
    if needed < WORTH_TELLING:
        return None
    sentence = f"this will take about {needed / 2**30:.1f} GiB of memory"
    if free is None:
        return sentence
    sentence += f" of {free / 2**30:.1f} GiB free"
    if needed > free:
        sentence += ": it may fail, or swap; fewer features or float32 need less"
    return sentence
