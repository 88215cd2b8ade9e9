"""GPCA of an AnnData object, in the manner of ``scanpy.pp.pca``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import DataError, DataWarning, InputError, InputTypeError, ParameterError
from ..estimators.gpca import GPCA
from ..files.annotated_data import adjacency_matrix, feature_matrix, find_graph, obs_column
from ..graph import Graph
from ..utils.labels import is_missing

#: Default number of components, as in scanpy.
N_COMPS = 50

#: Column of var with the mask that is used by default, as in scanpy.
HIGHLY_VARIABLE = "highly_variable"

_DEFAULT: Any = type("Default", (), {"__repr__": lambda self: "'highly_variable' if in var"})()


def gpca(
    adata: Any,
    n_comps: int | float | None = None,
    *,
    alpha: float = 10.0,
    neighbors_key: str | None = None,
    use_rep: str | None = None,
    layer: str | None = None,
    mask_var: Any = _DEFAULT,
    batch_key: str | None = None,
    label_key: str | None = None,
    key_added: str = "X_gpca",
    copy: bool = False,
    **settings: Any,
) -> Any:
    """Embed the observations of an AnnData object by :class:`gpcanet.GPCA`.

    Parameters
    ----------
    adata : AnnData
        Normalise and transform counts first, as for ``scanpy.pp.pca``. Columns are centred here;
        sparse matrices stay sparse.
    n_comps : int or float, optional
        Number of components. None means 50, or as many as possible if that is smaller. A number
        in (0, 1) is the share of the variance to reach, as in :class:`gpcanet.GPCA`.
    alpha : float
        Strength of the graph regularisation; 0 is PCA.
    neighbors_key : str, optional
        The graph: a key of ``obsp``, such as "spatial_connectivities", or a key of ``uns`` that
        names one, such as "spatial_neighbors". By default the graph of ``scanpy.pp.neighbors``,
        ``obsp["connectivities"]``. Its weights are used.
    use_rep : str, optional
        Array of ``obsm`` to use instead of X.
    layer : str, optional
        Layer to use instead of X.
    mask_var : str or array-like of bool, optional
        Genes to use: a column of ``var`` or a mask; a Series is matched by its index. By default
        ``var["highly_variable"]`` if it exists; None means all genes.
    batch_key : str, optional
        Column of ``obs`` with samples. Edges between samples are dropped and counted, so that the
        graph is block-diagonal. Components and means are shared by all samples.
    label_key : str, optional
        Column of ``obs`` with labels for ``beta`` > 0; missing values mean unlabelled.
    key_added : str
        Key of the results.
    copy : bool
        Whether to return a copy of ``adata`` with the results, instead of adding them to it.
    **settings
        Further parameters of :class:`gpcanet.GPCA`, such as ``beta``, ``precision`` and
        ``memory_limit``.

    Returns
    -------
    AnnData or None
        None, or the copy if ``copy`` is True. These fields are set:

        ``obsm[key_added]``
            The embedding, of shape (n_obs, n_comps).
        ``varm[key_added]``
            The components, of shape (n_vars, n_comps), zero for genes that are not used. With
            ``use_rep``, ``uns[key_added]["components"]`` has them instead.
        ``uns[key_added]``
            ``params``; ``variance`` (eigenvalues divided by n_obs - 1) and ``variance_ratio``; with
            ``batch_key`` also the number of ``dropped_edges``.

    Examples
    --------
    >>> import anndata, numpy as np, scipy.sparse as sp
    >>> from gpcanet.integrations.anndata import gpca
    >>> adata = anndata.AnnData(np.random.default_rng(0).normal(size=(6, 4)))
    >>> ring = sp.csr_array(np.roll(np.eye(6), 1, axis=0))
    >>> adata.obsp["spatial_connectivities"] = (ring + ring.T).tocsr()
    >>> gpca(adata, 2, alpha=5, neighbors_key="spatial_connectivities")
    >>> adata.obsm["X_gpca"].shape, adata.varm["X_gpca"].shape
    ((6, 2), (4, 2))
    """
    if not (hasattr(adata, "obsp") and hasattr(adata, "layers")):
        raise InputTypeError(f"adata is a {type(adata).__name__}; give an AnnData object")
    if adata.isbacked and (copy or adata.is_view):
        raise InputError(
            "a backed AnnData object cannot be copied, and its views cannot be changed; use "
            "adata.to_memory()"
        )
    key = find_graph(adata, "adata", neighbors_key)
    matrix = adjacency_matrix(adata, "adata", key)
    dropped = 0
    if batch_key is not None:
        matrix, dropped = _without_edges_between(adata, matrix, batch_key)
    X = feature_matrix(adata, "adata", layer=layer, obsm=None if use_rep == "X" else use_rep)
    mask = None
    if use_rep in (None, "X"):
        mask = _mask(adata, mask_var)
    elif mask_var is not _DEFAULT and mask_var is not None:
        raise InputError(f"mask_var selects columns of X, but use_rep={use_rep!r}; leave one out")
    X = X if mask is None else X[:, mask]
    model = GPCA(min(N_COMPS, *X.shape) if n_comps is None else n_comps, alpha=alpha, **settings)
    y = None
    if label_key is not None:
        if not model.beta:
            raise InputError(f"label_key={label_key!r} is used for beta > 0; pass beta, too")
        y = obs_column(adata, label_key, "adata")
    try:
        model.check_parameters()
        if y is None and model.beta:
            raise InputError(f"beta={model.beta} needs labels; pass label_key, a column of obs")
        Z = model.fit_transform(X, y, graph=Graph(matrix))
    except ParameterError as error:
        if error.parameter != "n_components":
            raise
        raise ParameterError("n_comps", error.value, error.reason) from None

    adata = adata.copy() if copy else adata
    given = {
        "alpha": alpha, "neighbors_key": neighbors_key, "obsp": key, "use_rep": use_rep,
        "layer": layer, "batch_key": batch_key, "label_key": label_key, **settings,
    }  # fmt: skip
    if isinstance(mask_var, str):
        given["mask_var"] = mask_var
    elif mask is not None:
        given["mask_var"] = HIGHLY_VARIABLE if mask_var is _DEFAULT else "array"
    results = {
        "params": {name: value for name, value in given.items() if value is not None},
        "variance": model.eigenvalues_ / max(1, X.shape[0] - 1),
        "variance_ratio": model.explained_variance_ratio_,
    }
    if batch_key is not None:
        results["dropped_edges"] = dropped
    W = model.components_.T
    adata.obsm[key_added] = Z
    if use_rep in (None, "X"):
        loadings = np.zeros((adata.n_vars, W.shape[1]), W.dtype)
        loadings[slice(None) if mask is None else mask] = W
        adata.varm[key_added] = loadings
    else:
        results["components"] = W
        adata.varm.pop(key_added, None)  # of an earlier embedding of the genes
    adata.uns[key_added] = results
    return adata if copy else None


def _mask(adata: Any, mask_var: Any) -> np.ndarray | None:
    """The genes to use; None for all."""
    if mask_var is _DEFAULT:
        mask_var = HIGHLY_VARIABLE if HIGHLY_VARIABLE in adata.var else None
    if mask_var is None:
        return None
    if isinstance(mask_var, str):
        if mask_var not in adata.var:
            names = ", ".join(map(repr, adata.var.columns)) or "no columns"
            raise DataError(f"adata has no var[{mask_var!r}]; it has {names}")
        mask = adata.var[mask_var].to_numpy()
    else:
        if hasattr(mask_var, "iloc") and not mask_var.index.equals(adata.var_names):
            if set(mask_var.index) != set(adata.var_names) or not mask_var.index.is_unique:
                raise InputError(
                    "the index of mask_var is not the names of the genes; correct it, or pass "
                    "mask_var.to_numpy() in the order of the genes"
                )
            mask_var = mask_var.loc[adata.var_names]
        mask = np.asarray(mask_var)
    if mask.dtype == object and mask.ndim == 1 and (missing := sum(map(is_missing, mask))):
        raise InputError(f"{missing} of {len(mask)} values of mask_var are missing; set them")
    if mask.shape != (adata.n_vars,) or mask.dtype != bool:
        raise InputError(
            f"mask_var of shape {mask.shape} and dtype {mask.dtype} must be one boolean for each "
            f"of {adata.n_vars} genes"
        )
    if not mask.any():
        raise InputError("mask_var selects no gene; select at least one")
    return mask


def _without_edges_between(
    adata: Any, matrix: sp.csr_array, batch_key: str
) -> tuple[sp.csr_array, int]:
    """The matrix without edges between samples, and their number."""
    samples = obs_column(adata, batch_key, "adata")
    missing = [row for row, value in enumerate(samples) if is_missing(value)]
    if missing:
        raise DataError(
            f"adata: obs[{batch_key!r}] of {adata.obs_names[missing[0]]!r} is missing "
            f"({len(missing)} in all); name its sample or drop it"
        )
    _, codes = np.unique(samples.astype(str), return_inverse=True)
    entries = sp.coo_array(matrix)
    entries.eliminate_zeros()
    within = codes[entries.row] == codes[entries.col]
    n_entries, n_dropped = len(within), int(np.sum(~within))
    if n_dropped == 0:
        return matrix, 0
    ends = np.sort([entries.row[~within], entries.col[~within]], axis=0)
    n_edges = len(np.unique(ends[0].astype(np.int64) * len(codes) + ends[1]))
    sentence = f"{n_edges:,} edges between samples of obs[{batch_key!r}] dropped"
    if n_dropped == n_entries:
        raise DataError(f"{sentence}, and no edge is left; compute neighbours within each sample")
    if 2 * n_dropped > n_entries:
        warnings.warn(
            f"{sentence}, more than half of all; compute neighbours within each sample",
            DataWarning,
            stacklevel=3,
        )
    kept = (entries.data[within], (entries.row[within], entries.col[within]))
    return sp.csr_array(sp.coo_array(kept, shape=matrix.shape)), n_edges
