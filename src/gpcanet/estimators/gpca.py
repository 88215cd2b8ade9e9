"""GPCA: graph-regularised PCA as a scikit-learn transformer."""

from __future__ import annotations

import logging
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ..errors import InputError
from ..linalg import times_power_of_two
from .fit import Fit
from .problem import Parameters, Problem, TrainingData, check_n_components
from .training_nodes import check_new_rows
from .validation import as_user_errors, forget_fit

logger = logging.getLogger("gpcanet")


class GPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Graph-regularised PCA: node embeddings in closed form.

    Minimises ``||X - Z W^T||^2 + alpha tr(Z^T L Z)`` over Z and orthonormal W, L being the
    normalised Laplacian of the graph with self-loops. The optimum is
    ``Z = (I + alpha L)^-1 X W`` with W the leading eigenvectors of ``X^T (I + alpha L)^-1 X``.
    Without a graph, or with ``alpha=0`` and ``normalization="sym"``, this is PCA.

    Parameters
    ----------
    n_components : int or float, optional
        Number of components. None means 128, or min(n_nodes, n_features) if that is smaller. A
        number in (0, 1) is the share of the trace of ``X^T (I + alpha L)^-1 X`` that the
        components must reach: as many as necessary are kept.
    alpha : float
        Strength of the graph regularisation; 0 ignores the graph, 1 to 50 is usual.
    beta : float
        Share of the regularisation given to ghost edges between nodes of equal label, or of
        similar targets, from 0 (y is not used) to 1.
    normalization : {"sym", "rw"}
        ``sym`` uses L = I - D^-1/2 (A + I) D^-1/2. ``rw`` uses L = I - D^-1 (A + I), which
        belongs to the same objective with every node weighted by its degree D.
    ghost : {"balanced", "paper"}
        ``paper`` is the formula of the paper, which also shrinks the embedding of unlabelled
        nodes; ``balanced`` does not. Of continuous targets, ``paper`` uses the values themselves,
        and ``balanced`` penalises the part of the embedding of the labelled nodes that is not a
        linear function of y. Used only if beta > 0.
    solver : {"auto", "direct", "chebyshev", "cg", "fixed-point"}
        Linear solver for (I + alpha L)^-1. All reach ``tol``, except ``fixed-point`` with
        ``n_iter``. ``auto`` factorises small graphs with little fill-in and uses Chebyshev
        iteration for all others.
    n_iter : int, optional
        Number of steps of ``solver="fixed-point"``. The paper uses 5.
    tol : float, optional
        Largest relative residual of the solves, for each column of X: in the 2-norm for ``sym``
        and in the maximum norm for ``rw``. The relative error has the same bound, except for ``rw``
        with ghost edges of targets, where the bound holds in the norm weighted by degree. By
        default 1e-6 for float64 and 1e-5 for float32 features. A solve that does not reach it
        issues a ConvergenceWarning. Eigenpairs computed by Lanczos have a residual of at most
        ``tol`` relative to their eigenvalue.
    max_iter : int
        Largest number of steps of a solver.
    eigen_solver : {"auto", "formed", "lanczos"}
        ``formed`` computes the matrix X^T (I + alpha L)^-1 X and calls LAPACK. ``lanczos`` uses
        products with it only and keeps a sparse X sparse, which is faster for many features and
        few components. ``auto`` chooses by estimated work. If eigenvalues are repeated, the
        matrix is formed nonetheless, unless there are more than 6,000 features or a
        ``memory_limit``.
    precision : {"full", "half"}
        ``half`` stores blocks in float16 during the solves and sums in float32, which halves the
        time of a step on graphs with a hundred thousand nodes or more. The relative error of each
        column of (I + alpha L)^-1 X is at most 6e-4 (2 + alpha). For alpha > 50 full precision is
        used.
    memory_limit : int or str, optional
        Largest amount of memory beyond the graph and X: a number of bytes, or text such as
        ``"1.5GiB"``. If necessary, the columns are solved in smaller blocks, X is read several
        times (it may be memory-mapped), and Z is a memory map of a temporary file in ``TMPDIR``.
        The result is the same up to rounding. The error for a limit that is too small states the
        smallest possible one. Compiled code takes another 60 MiB.
    keep_training_nodes : bool, optional
        Whether the fitted object, also when saved, keeps X and the graph, so that ``transform``
        can embed new nodes from their own rows and edges. By default they are kept if ``nodes``
        is passed or rows have ids.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        W^T, the leading component first. The largest entry of each component in absolute value
        is positive.
    n_components_ : int
        Number of components.
    mean_ : ndarray of shape (n_features,)
        Column means of X.
    eigenvalues_ : ndarray of shape (n_components,)
        Leading eigenvalues of X^T (I + alpha L)^-1 X, in float64.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Eigenvalues divided by the trace of X^T (I + alpha L)^-1 X. If the matrix was not formed
        (``lanczos``), the trace is a stochastic estimate with a relative error of a few per cent.
    objective_ : float
        Value of the objective at the embedding of the training nodes. NaN with ``n_iter``.
    n_iter_ : int
        Number of steps of the solver (1 for ``direct``).
    residual_ : float
        Largest relative residual of the linear solves. For a model from :class:`GPCAPath` also of
        the eigenpairs: the largest ``||X^T D z - lambda w||`` over the largest eigenvalue. NaN
        with ``n_iter``.
    n_nodes_in_ : int or None
        Number of nodes of the graph seen during ``fit``; None without a graph.
    matched_by_id_ : bool
        Whether the rows of a DataFrame were matched with the node ids.
    training_nodes_ : TrainingNodes or None
        Rows, labels and graph of ``fit`` that ``transform`` needs.
    n_features_in_ : int
        Number of features seen during ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during ``fit``, if X has feature names that are all strings.

    Notes
    -----
    ``graph`` may be a :class:`Graph`, a scipy or dense adjacency matrix, an ``edge_index``, a PyG
    ``Data`` or a networkx graph. Row i of an array X is node i, or node ``nodes[i]``. If the graph
    has ``node_ids``, the rows of a DataFrame X and of a Series y are matched with them by index,
    in any order; an index that does not match is an error.

    In cross-validation scikit-learn splits X but passes a ``Graph`` on unchanged. Pass
    ``nodes=np.arange(len(X))`` as well: it is split like X and gives the position of each row. The
    training rows are kept then: they are the neighbours of rows that are transformed later. Both
    ``graph`` and ``nodes`` are requested by default when metadata routing is enabled.

    Examples
    --------
    >>> import numpy as np
    >>> from gpcanet import GPCA, Graph
    >>> X = np.array([[1.0, 0.2], [0.9, 0.0], [-1.1, 0.1], [-0.8, -0.3]])
    >>> graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> GPCA(n_components=1, alpha=5.0).fit_transform(X, graph=graph).round(2)
    array([[ 0.97],
           [ 0.95],
           [-0.98],
           [-0.93]])
    """

    # Requested by default in metadata routing, without a call of set_fit_request.
    __metadata_request__fit = {"graph": True, "nodes": True}
    __metadata_request__transform = {"graph": True, "nodes": True}

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        alpha: float = 10.0,
        beta: float = 0.0,
        normalization: str = "sym",
        ghost: str = "balanced",
        solver: str = "auto",
        n_iter: int | None = None,
        tol: float | None = None,
        max_iter: int = 1000,
        eigen_solver: str = "auto",
        precision: str = "full",
        memory_limit: int | str | None = None,
        keep_training_nodes: bool | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.beta = beta
        self.normalization = normalization
        self.ghost = ghost
        self.solver = solver
        self.n_iter = n_iter
        self.tol = tol
        self.max_iter = max_iter
        self.eigen_solver = eigen_solver
        self.precision = precision
        self.memory_limit = memory_limit
        self.keep_training_nodes = keep_training_nodes

    def fit(self, X: Any, y: Any = None, *, graph: Any = None, nodes: Any = None) -> Self:
        """Learn the components W.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_nodes, n_features)
        y : array-like of shape (n_nodes,) or (n_nodes, n_targets), optional
            Used only if beta > 0. Integers, text, and floats without fractions are classes, -1 or
            missing for unlabelled nodes. Floats with fractions are continuous targets, NaN where
            unknown. A matrix of 0 and 1 holds label indicators, NaN or -1 where unknown; any other
            matrix of numbers holds continuous targets.
        graph : Graph or anything that converts to one, optional
        nodes : array-like of int, optional
            Position of each row of X in the graph, if X holds only some of its nodes.

        Returns
        -------
        self : GPCA
        """
        self._fit(X, y, graph, nodes)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> np.ndarray:
        """Learn W and return the embedding Z; takes no longer than ``fit``."""
        return self._fit(X, y, graph, nodes)

    def _fit(self, X: Any, y: Any, graph: Any, nodes: Any) -> np.ndarray:
        forget_fit(self)
        parameters = Parameters.of(self)
        data = TrainingData.check(self, X, y, graph, nodes, beta=self.beta)
        k = check_n_components(self.n_components, data.X, self.eigen_solver)
        problem = Problem(parameters, data.row_graph, data.X, data.labels, n_components=k)
        if logger.isEnabledFor(logging.INFO):
            summary = problem.graph.summary()
            logger.info("fitting GPCA on %s, %d features", summary, data.X.shape[1])
        fit = Fit(problem)
        eigenpairs, embedding = fit.run()
        kept = data.attributes(beta=self.beta, keep=self.keep_training_nodes)
        self.__dict__.update(fit.learned(eigenpairs, embedding) | kept)
        return times_power_of_two(embedding.Z, problem.exponent)

    def check_parameters(self) -> None:
        """Raise if a parameter has a value that is not allowed."""
        Parameters.of(self)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Embed the nodes of any graph: ``Z = (I + alpha L)^-1 (X - mean_) W``.

        On a graph that contains the graph of ``fit`` the labels of ``fit`` are used again; on
        another graph all nodes are unlabelled. A model that was fitted with a graph requires one
        here.

        If ``fit`` has kept the training nodes, X may hold new nodes alone. Then ``graph`` contains
        these nodes and the training nodes: matched by id, or else the training nodes are the first
        ones, and ``nodes`` are the positions of the rows of X. A graph with ids need not list the
        edges of ``fit`` again. The result equals the rows of these nodes in the embedding of the
        whole graph.
        """
        rows, n_rows = check_new_rows(self, X, graph, nodes)
        problem = Problem(
            Parameters.of(self), rows.row_graph, rows.X, rows.labels,
            n_components=self.n_components_, strategy="transform", mean=self.mean_,
        )  # fmt: skip
        Z = Fit(problem).embed(self.components_.T).Z[:n_rows]
        return times_power_of_two(Z, problem.exponent)

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Reconstruct features: ``Z W^T + mean_``."""
        check_is_fitted(self)
        with as_user_errors():
            Z = check_array(Z, dtype=[np.float64, np.float32])
        if Z.shape[1] != self.n_components_:
            raise InputError(
                f"Z has {Z.shape[1]} columns, but the embedding has {self.n_components_}; pass the "
                f"output of transform"
            )
        return Z @ self.components_.astype(Z.dtype) + self.mean_.astype(Z.dtype)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
