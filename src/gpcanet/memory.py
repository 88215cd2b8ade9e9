"""How much memory a fit will take, told before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .classifier import GPCAClassifier
from .gpca import GPCA
from .graph import Graph

#: What loading compiled code takes.
BYTES_OF_CODE = 64 * 2**20

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
    '1.4 GiB'
    """
    if isinstance(model, GPCAClassifier):
        return _classifier_bytes(model, graph, X, n_labelled)
    k = model._width(X)
    use_lanczos = model._use_lanczos(X, k)
    inside = np.float64 if use_lanczos else model._inner_dtype(X.dtype)
    return model._plan(graph, X, k, inside, lanczos=use_lanczos).n_bytes + BYTES_OF_CODE


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
        sentence += ": it may fail, or swap; a memory limit or float32 needs less"
    return sentence
