"""GPCA: graph-regularised PCA as a scikit-learn transformer."""

from __future__ import annotations

import logging
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from . import budget
from .alignment import RowIndex, align_to_rows, check_graph, part_of
from .budget import REORDERED_STEPS, FitSize, Plan, parse_bytes, plan_fit
from .errors import InputError
from .fitting import Fit, Fitted
from .graph import Graph
from .labels import UNLABELED
from .linalg import (
    HALF_ALPHA,
    CenteredFeatures,
    Propagation,
    Solver,
    extreme_exponent,
    times_power_of_two,
)
from .seen import SeenNodes
from .validation import (
    as_user_errors,
    check_choice,
    check_features,
    check_labels,
    check_number,
)

logger = logging.getLogger("gpcanet")

#: Beyond this, rounding hides what alpha adds: all smooth features have long become one.
LARGEST_ALPHA = 1e6

#: Components kept by default: more have not been seen to help a classifier.
DEFAULT_COMPONENTS = 128

#: From this many features on, a few eigenvectors come cheaper without forming X^T F.
LANCZOS_FEATURES = 1000

#: A sparse X at least this full and at most this large is quicker as a dense array.
DENSE_SHARE, DENSE_BYTES = 0.05, 2**29


class GPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Graph-regularised PCA: node embeddings in closed form.

    Minimises ``||X - Z W^T||^2 + alpha tr(Z^T L Z)`` over Z and orthonormal W, L being the
    normalised Laplacian of the graph with self-loops. The optimum is
    ``Z = (I + alpha L)^-1 X W`` with W the leading eigenvectors of ``X^T (I + alpha L)^-1 X``.
    Without a graph, or with ``alpha=0`` (and ``normalization="sym"``), this is PCA.

    Parameters
    ----------
    n_components : int, optional
        Width of the embedding. By default 128, or all there are if fewer.
    alpha : float
        How much neighbours are drawn together; 0 ignores the graph. 1 to 50 is usual.
    beta : float
        Share of the regularisation given to ghost edges between nodes of equal label, from 0
        (labels unused) to 1.
    normalization : {"sym", "rw"}
        ``sym`` regularises by I - D^-1/2 (A + I) D^-1/2. ``rw`` uses I - D^-1 (A + I) and
        belongs to the same objective with every node weighted by its degree D.
    ghost : {"balanced", "paper"}
        ``paper`` follows the paper's formula, which also shrinks unlabelled nodes;
        ``balanced`` leaves them alone. Matters only if beta > 0.
    solver : {"auto", "direct", "chebyshev", "cg", "fixed-point"}
        How (I + alpha L)^-1 is applied. All reach ``tol``, unless ``fixed-point`` is given an
        ``n_iter``. ``auto`` factorises small sparse graphs and uses Chebyshev elsewhere.
    n_iter : int, optional
        With ``solver="fixed-point"``: exactly this many steps. ``n_iter=5`` is the paper's
        setting.
    tol : float, optional
        Largest error of the solves, column by column relative to X: in the 2-norm for ``sym``, in
        the maximum norm for ``rw``, where it holds for every node. It is ensured by the residual.
        By default 1e-6 for float64 and 1e-5 for float32 features. A solve that misses it warns.
    max_iter : int
        Steps after which a solver gives up with a ConvergenceWarning.
    eigen_solver : {"auto", "formed", "lanczos"}
        ``formed`` computes X^T F and all it needs of it; ``lanczos`` does not form it, nor make
        a sparse X dense, and pays for many features and few components. Of up to 6,000 features
        it is formed after all where eigenvalues are repeated, and no ``memory_limit`` is given.
    precision : {"full", "half"}
        ``half`` keeps blocks in 16 bits while solving, and sums in 32. It pays on graphs of a
        hundred thousand nodes or more, where a step takes half the time. Every column of
        (I + alpha L)^-1 X is off by at most 5e-4 (2 + alpha) of its size; on large graphs by
        3e-4 up to ``alpha=10`` and a few 1e-3 at ``alpha=50``. Beyond that it means ``full``.
    memory_limit : int or str, optional
        Most memory to take beyond the graph and X: a number of bytes, or ``"1.5GiB"``. Where it
        would be exceeded, columns are solved for in blocks that fit, X is read in passes (it may
        be memory-mapped), and Z is mapped to a temporary file (in ``TMPDIR``). The result is the
        same but for rounding. A limit that cannot be met is an error that says the smallest that
        can. Compiled code takes some 60 MiB besides.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        W^T, the leading component first. The first of the largest entries of each is positive.
    mean_ : ndarray of shape (n_features,)
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of X^T (I + alpha L)^-1 X, in float64.
    objective_ : float
        Value of the objective at the embedding of the training nodes. NaN with ``n_iter``.
    n_iter_ : int
        Steps of the solver (1 for ``direct``).
    residual_ : float
        Largest relative residual of the linear solves. For a model from :class:`GPCAPath`, whose
        components are computed apart from its embedding, also of the eigenpairs: the largest
        ``||X^T D z - lambda w||`` over the largest eigenvalue. NaN with ``n_iter``.
    n_nodes_in_ : int or None
        Number of nodes of the graph in ``fit``; None if it was given no graph.
    matched_by_id_ : bool
        Whether rows of a DataFrame were matched with the ids of the nodes.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Every method takes ``graph``: a :class:`Graph`, or anything that becomes one (a scipy or
    dense adjacency, an ``edge_index``, a PyG ``Data``, a networkx graph). Row i of an array X is
    node i, or node ``nodes[i]``. Rows of a DataFrame are matched by its index where the graph has
    ``node_ids``, in any order, and so is a Series y; an index that does not match is an error.

    In cross-validation scikit-learn splits X but passes on a ``Graph`` whole. Pass
    ``nodes=np.arange(len(X))`` along, which is split like X and says where each row belongs. A
    model fitted with ``nodes``, or on rows with ids, keeps these rows: when other rows of the
    graph are transformed later, they count as neighbours. Both ``graph`` and ``nodes`` are
    requested by default when metadata routing is enabled.

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

    # Sent wherever a meta-estimator routes metadata, without a call of set_fit_request.
    __metadata_request__fit = {"graph": True, "nodes": True}
    __metadata_request__transform = {"graph": True, "nodes": True}

    def __init__(
        self,
        n_components: int | None = None,
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

    def fit(self, X: Any, y: Any = None, *, graph: Any = None, nodes: Any = None) -> Self:
        """Learn W.

        Parameters
        ----------
        X : array-like or sparse of shape (n_nodes, n_features)
        y : array-like of shape (n_nodes,), optional
            Labels, -1 for unlabelled nodes. Read only if beta > 0.
        graph : Graph or what becomes one, optional
        nodes : array-like of int, optional
            Position of each row of X in the graph, if X holds only some of its nodes.
        """
        self._fit(X, y, graph, nodes)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, *, graph: Any = None, nodes: Any = None
    ) -> np.ndarray:
        """Learn W and return Z, for the price of ``fit``."""
        return self._fit(X, y, graph, nodes)

    def transform(self, X: Any, *, graph: Any = None, nodes: Any = None) -> np.ndarray:
        """Z = (I + alpha L)^-1 (X - mean_) W for the nodes of any graph.

        On the graph of ``fit`` the labels given there count again; on another graph no node is
        labelled. For some of the nodes of that graph, the rows that ``fit`` has kept are their
        neighbours. A model fitted with a graph needs one here, too.
        """
        check_is_fitted(self)
        self._check_parameters()
        index = RowIndex.of(X)
        X = check_features(self, X, reset=False)
        n_rows = X.shape[0]
        graph, nodes = check_graph(graph, nodes, n_rows, index=index, fitted=self)
        labels, seen = None, None if self._seen is None else self._seen.on(graph)
        if seen is not None:
            X, nodes, labels = seen.beside(X, nodes)
        knows_others = seen is not None and seen.X is not None
        if nodes is not None and len(nodes) < graph.n_nodes and not knows_others:
            raise InputError(
                f"X has {n_rows} of the {graph.n_nodes} nodes of the graph, and fit has kept no "
                f"rows of the others; pass all rows of X, or fit with nodes= (np.arange(len(X)) "
                f"for all), or pass graph.subgraph(nodes) to embed these nodes by themselves"
            )
        part = part_of(graph, nodes)
        inside = self._inner_dtype(X.dtype)
        exponent = extreme_exponent(X, inside, self.mean_)
        k = len(self.components_)
        plan = self._plan(part, X, k, inside, lanczos=True, rescales=exponent != 0)
        solver = self._solver(self._propagation(part, labels, inside, reorder=plan.reorder))
        dtype, X = X.dtype, times_power_of_two(X, -exponent).astype(inside, copy=False)
        mean = times_power_of_two(self.mean_, -exponent)
        centered = CenteredFeatures(X, mean, keep=plan.keep_centred)
        fit = Fit(solver, centered, None, plan.columns_per_block, dtype, on_disk=plan.on_disk)
        Z = fit.embed(self.components_.T.astype(inside, copy=False))[0][:n_rows]
        return times_power_of_two(Z, exponent)

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """The reconstruction Z W^T + mean_."""
        check_is_fitted(self)
        with as_user_errors():
            Z = check_array(Z, dtype=[np.float64, np.float32])
        if Z.shape[1] != len(self.components_):
            raise InputError(
                f"Z has {Z.shape[1]} columns, but the embedding has {len(self.components_)}; give "
                f"what transform returned"
            )
        return Z @ self.components_.astype(Z.dtype) + self.mean_.astype(Z.dtype)

    # -- the fit --------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, graph: Any, nodes: Any) -> np.ndarray:
        self._check_parameters()
        index, with_graph = RowIndex.of(X), graph is not None
        X = check_features(self, X, reset=True)
        graph, nodes = check_graph(graph, nodes, X.shape[0], index=index)
        k = self._width(X)
        labels = self._labels(align_to_rows(y, graph, nodes, index, "y"), X.shape[0])
        part = part_of(graph, nodes)
        if logger.isEnabledFor(logging.INFO):
            logger.info("fitting GPCA on %s, %d features", part.summary(), X.shape[1])

        dtype, use_lanczos = X.dtype, self._use_lanczos(X, k)
        inside = np.float64 if use_lanczos else self._inner_dtype(dtype)
        exponent = extreme_exponent(X, inside)
        plan = self._plan(part, X, k, inside, lanczos=use_lanczos, rescales=exponent != 0)
        seen, X = X, times_power_of_two(X, -exponent).astype(inside, copy=False)
        if not use_lanczos and sp.issparse(X) and is_better_dense(X, X.dtype.itemsize):
            X = X.toarray()
        P = self._propagation(part, labels, inside, reorder=plan.reorder)
        centered = CenteredFeatures(X, keep=plan.keep_centred)
        fit = Fit(
            self._solver(P, dtype), centered, P.row_weights, plan.columns_per_block, dtype,
            on_disk=plan.on_disk,
        )  # fmt: skip
        if use_lanczos:
            fitted = fit.lanczos(k, may_form=self.memory_limit is None)
        else:
            fitted = fit.formed(k)

        self._learn(fit, fitted, exponent)
        self.n_nodes_in_ = graph.n_nodes if with_graph else None
        self.matched_by_id_ = index is not None and graph.node_ids is not None
        self._seen: SeenNodes | None = None
        if nodes is not None or labels is not None:
            self._seen = SeenNodes(graph, nodes, None if nodes is None else seen, labels)
        return times_power_of_two(fitted.Z, exponent)

    def _learn(self, fit: Fit, fitted: Fitted, exponent: int) -> None:
        """Take over the results of a fit to X / 2**exponent."""
        dtype = fit.result_dtype
        self.mean_ = times_power_of_two(fit.X.mean.astype(dtype, copy=False), exponent)
        self.components_ = np.ascontiguousarray(fitted.W.T, dtype=dtype)
        eigenvalues = fitted.eigenvalues.astype(np.float64, copy=False)
        self.eigenvalues_ = times_power_of_two(eigenvalues, 2 * exponent)
        self.objective_ = float(times_power_of_two(fit.objective(fitted), 2 * exponent))
        self.n_iter_, self.residual_ = fitted.n_iter, fitted.residual
        self._n_features_out = len(self.components_)

    def _plan(
        self, graph: Graph, X: Any, k: int, inside: Any, *, lanczos: bool, rescales: bool = False
    ) -> Plan:
        """How much is done at a time. With ``lanczos``, no more than k columns ever are."""
        limit = None if self.memory_limit is None else parse_bytes(self.memory_limit)
        size = self._size(graph, X, k, inside, lanczos=lanczos)
        if rescales:  # X is copied, and so is Z
            copies = (X.nnz if sp.issparse(X) else X.size) + X.shape[0] * k
            size = size._replace(x_copy=size.x_copy + copies * X.dtype.itemsize)
        return plan_fit(size, limit)

    def _size(self, graph: Graph, X: Any, k: int, inside: Any, *, lanczos: bool) -> FitSize:
        item, is_sparse = np.dtype(inside).itemsize, sp.issparse(X)
        work_item = 2 if self._half else item
        stored = X.nnz if is_sparse else X.size
        becomes_dense = not lanczos and is_sparse and is_better_dense(X, item)
        x_copy = 0
        if becomes_dense:
            x_copy = X.shape[0] * X.shape[1] * item
        elif X.dtype != inside or not (is_sparse or X.flags.c_contiguous):
            x_copy = stored * item
        return FitSize(
            n_nodes=X.shape[0],
            n_features=X.shape[1],
            n_components=k,
            n_entries=len(graph.indices),
            entry_bytes=4 if graph.weights is None else 4 + item,
            item=item,
            work_item=work_item,
            x_copy=x_copy,
            sparse_entries=stored if is_sparse and not becomes_dense else None,
            reorders=self._takes_steps()
            and budget.reordering_pays(X.shape[0], len(graph.indices), X.shape[1] * work_item),
            lanczos=lanczos,
            blocks=self._blocks(),
            refines=self.solver in ("auto", "chebyshev") and work_item == 4,
        )

    def _blocks(self) -> int:
        """Blocks that the iteration holds at a time."""
        to_tolerance = self.solver == "fixed-point" and self.n_iter is None
        blocks = {"cg": 6, "direct": 4}.get(self.solver, 3 if to_tolerance else 2)
        if self.normalization == "rw" and self.solver in ("auto", "chebyshev"):
            blocks = 4  # a solve may be repeated on its residual
        return blocks + (2 if self.beta > 0 else 0)  # rows of labelled nodes, as many as there are

    # -- doors ----------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_number(
            "alpha", self.alpha, 0, LARGEST_ALPHA, advice="use alpha=0 to ignore the graph"
        )
        check_number("beta", self.beta, 0, 1, advice="use beta=0 to ignore labels")
        check_choice("normalization", self.normalization, ("sym", "rw"))
        check_choice("ghost", self.ghost, ("balanced", "paper"))
        check_choice("solver", self.solver, ("auto", "direct", "chebyshev", "cg", "fixed-point"))
        check_choice("eigen_solver", self.eigen_solver, ("auto", "formed", "lanczos"))
        check_choice("precision", self.precision, ("full", "half"))
        if self.precision == "half" and (
            self.solver in ("direct", "cg") or self.eigen_solver == "lanczos"
        ):
            raise InputError(
                f"precision='half' goes with solver='chebyshev' or 'fixed-point' and "
                f"eigen_solver='formed', not with {self.solver!r} and {self.eigen_solver!r}"
            )
        if self.memory_limit is not None:
            parse_bytes(self.memory_limit)
        check_number("max_iter", self.max_iter, 1, integer=True, advice="1000 is the default")
        if self.tol is not None:
            check_number("tol", self.tol, 1e-15, 0.5, advice="use tol=None for the default")
        if self.n_iter is not None:
            check_number("n_iter", self.n_iter, 0, integer=True, advice="n_iter=5 is the paper's")
            if self.solver != "fixed-point":
                raise InputError(
                    f"n_iter={self.n_iter} goes with solver='fixed-point', not "
                    f"{self.solver!r}, which goes on until tol; drop one of the two"
                )

    def _width(self, X: np.ndarray | sp.csr_array) -> int:
        most = min(X.shape)
        if self.n_components is None:
            # Lanczos does not find all there are.
            most -= self.eigen_solver == "lanczos" and most == X.shape[1] > 1
            return min(most, DEFAULT_COMPONENTS)
        check_number(
            "n_components",
            self.n_components,
            1,
            most,
            integer=True,
            advice=f"X with {X.shape[0]} rows and {X.shape[1]} features has at most {most}",
        )
        return int(self.n_components)

    def _labels(self, y: Any, n_rows: int) -> np.ndarray | None:
        if self.beta == 0:
            return None
        if y is None:
            raise InputError(
                f"beta={self.beta} adds ghost edges between labelled nodes, but y is None; "
                f"give y with {UNLABELED} for unlabelled nodes, or use beta=0"
            )
        return check_labels(y, n_rows)[0]

    def _use_lanczos(self, X: np.ndarray | sp.csr_array, k: int) -> bool:
        d = X.shape[1]
        if self.eigen_solver == "lanczos" and k >= d:
            raise InputError(
                f"eigen_solver='lanczos' finds fewer than all {d} components, not {k}; "
                f"use eigen_solver='formed'"
            )
        # Then X^T D F is not symmetric (see Propagation.self_adjoint), as Lanczos needs it to be.
        lopsided = self.normalization == "rw" and self.ghost == "paper" and self.beta > 0
        if self.eigen_solver == "lanczos" and lopsided:
            raise InputError(
                f"eigen_solver='lanczos' does not go with normalization='rw', ghost='paper' and "
                f"beta={self.beta}; use eigen_solver='formed' or ghost='balanced'"
            )
        few = d > LANCZOS_FEATURES and 8 * k <= d and self.precision == "full" and not lopsided
        if not sp.issparse(X):  # it would be copied in float64, and read over and over
            few = few and X.size * 8 <= DENSE_BYTES and self.memory_limit is None
        return self.eigen_solver == "lanczos" or (self.eigen_solver == "auto" and few)

    def _propagation(
        self, graph: Graph, labels: np.ndarray | None, dtype: Any, *, reorder: bool
    ) -> Propagation:
        return Propagation(
            graph.indptr,
            graph.indices,
            graph.weights,
            normalization=self.normalization,  # type: ignore[arg-type]
            labels=labels,
            beta=float(self.beta),
            ghost=self.ghost,  # type: ignore[arg-type]
            dtype=dtype,
            reorder=reorder,
        )

    def _takes_steps(self) -> bool:
        few = self.n_iter is not None and self.n_iter < REORDERED_STEPS
        return self.alpha > 0 and self.solver != "direct" and not few

    def _solver(self, P: Propagation, dtype: Any = None) -> Solver:
        return Solver(
            P,
            float(self.alpha),
            method=self.solver,  # type: ignore[arg-type]
            tol=self.tol or default_tol(dtype or P.dtype),
            n_iter=self.n_iter,
            max_iter=self.max_iter,
            half=self._half,
        )

    def _inner_dtype(self, dtype: Any) -> Any:
        return np.float32 if self._half else dtype

    @property
    def _half(self) -> bool:
        return self.precision == "half" and self.alpha <= HALF_ALPHA

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def default_tol(dtype: Any) -> float:
    """What is promised of a solve: single precision stalls near 3e-6."""
    return 1e-5 if np.dtype(dtype) == np.float32 else 1e-6


def is_better_dense(X: sp.csr_array, itemsize: int) -> bool:
    size = X.shape[0] * X.shape[1]
    return X.nnz >= DENSE_SHARE * size and size * itemsize <= DENSE_BYTES
