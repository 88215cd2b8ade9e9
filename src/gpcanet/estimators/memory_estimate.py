"""Estimate of the memory that a fit takes, for messages before it starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..graph import Graph
from ..utils.available_memory import available_bytes
from ._embeddings import SUBSPACE_ALPHAS
from ._model_selection import make_candidates
from ._stacking import KEPT_BYTES
from .classifier import GPCAClassifier
from .gpca import GPCA
from .problem import Parameters, Problem, check_n_components
from .regressor import GPCARegressor

#: Memory of compiled code.
BYTES_OF_CODE = 64 * 2**20

#: Share of the free memory that a fit may use.
FREE_SHARE = 0.9

#: Estimates below this are not reported.
WORTH_REPORTING = 2**30


def fit_bytes(
    model: GPCA | GPCAClassifier | GPCARegressor, graph: Graph, X: Any, n_labeled: int = 0
) -> int:
    """Estimated peak memory of ``model.fit(X, y, graph=graph)`` beyond the graph and X.

    ``n_labeled`` is the number of labels in y; a GPCA does not use it.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((1_000_000, 100), np.float32)
    >>> f"{fit_bytes(GPCA(16), Graph.without_edges(1_000_000), X) / 2**30:.1f} GiB"
    '1.4 GiB'
    """
    if isinstance(model, GPCARegressor):
        return _regressor_bytes(model, graph, X, n_labeled)
    if isinstance(model, GPCAClassifier):
        return _classifier_bytes(model, graph, X, n_labeled)
    k = check_n_components(model.n_components, X, model.eigen_solver)
    problem = Problem(Parameters.of(model), graph, X, n_components=k)
    return problem.memory_plan.n_bytes + BYTES_OF_CODE


def _classifier_bytes(model: GPCAClassifier, graph: Graph, X: Any, n_labeled: int) -> int:
    """A fit of GPCA, the scaled X it is given, and the cached embeddings."""
    candidates = make_candidates(model, X, 0, 2, has_edges=True)
    embeddings = {candidate.embedding for candidate in candidates}
    scalings = {scaling for scaling, _ in embeddings}
    n_alphas = len({alpha for _, alpha in embeddings})
    gpca, item, scaled = model.make_gpca(candidates[0].alpha), X.dtype.itemsize, 0
    if scalings != {"none"}:
        scaled = X.nnz * (item + 4) if sp.issparse(X) else X.size * item
    if "tfidf" in scalings and not sp.issparse(X):  # a sparse copy
        scaled += int(np.count_nonzero(X)) * (item + 4)
    # Whole embeddings of the members, and the labelled rows of all embeddings, which are computed
    # from solutions for all alphas. With ghost edges every fold has its own embeddings.
    n_parts = model.cv + 1 if model.beta > 0 else 1
    width = _width(gpca, X)
    n_rows = min(model.n_members, len(embeddings)) * X.shape[0]
    n_rows += (n_parts * len(embeddings) + len(SUBSPACE_ALPHAS) * n_alphas) * n_labeled
    return fit_bytes(gpca, graph, X) + scaled + int(n_rows * width * item)


def _regressor_bytes(model: GPCARegressor, graph: Graph, X: Any, n_labeled: int) -> int:
    """A fit of GPCA, the scaled X it is given, the kept embeddings, and one ridge regression."""
    gpca, item = model.make_gpca(), X.dtype.itemsize
    scaled = X.nnz * (item + 4) if sp.issparse(X) else X.size * item
    width = _width(gpca, X)
    kept = min(KEPT_BYTES, model.n_embeddings * X.shape[0] * width * item)
    return fit_bytes(gpca, graph, X) + scaled + kept + 4 * 8 * n_labeled * width


def _width(gpca: GPCA, X: Any) -> int:
    """Number of components, or the largest possible one for a share of the trace."""
    k = check_n_components(gpca.n_components, X)
    return min(X.shape) if isinstance(k, float) else k


def memory_note(
    model: GPCA | GPCAClassifier | GPCARegressor, graph: Graph, X: Any, n_labeled: int = 0
) -> str | None:
    """A sentence about the memory of a large fit; None for a small one."""
    needed, free = fit_bytes(model, graph, X, n_labeled), available_bytes()
    if needed < WORTH_REPORTING:
        return None
    sentence = f"this will take about {needed / 2**30:.1f} GiB of memory"
    if free is None:
        return sentence
    sentence += f" of {free / 2**30:.1f} GiB free"
    if needed > free:
        sentence += ": it may fail or swap; a memory limit or float32 needs less"
    return sentence


def necessary_limit(
    model: GPCA | GPCAClassifier | GPCARegressor, graph: Graph, X: Any, n_labeled: int = 0
) -> int | None:
    """The memory limit of a fit whose estimate exceeds the free memory; None for other fits.

    Free memory is that of the machine or of the container, whichever is less.
    """
    needed, free = fit_bytes(model, graph, X, n_labeled), available_bytes()
    is_small = needed < 2 * BYTES_OF_CODE  # a limit would only make it fail
    if model.memory_limit is not None or free is None or needed <= free or is_small:
        return None
    # What the fit of a classifier takes beyond that of GPCA cannot be limited.
    k = check_n_components(getattr(model, "n_components", None), X)
    gpca = GPCA(k) if not isinstance(model, GPCA) else model
    beyond = needed - fit_bytes(gpca, graph, X) + BYTES_OF_CODE
    return max(1, int(FREE_SHARE * free) - beyond)
