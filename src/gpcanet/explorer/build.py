"""explore: embeddings for a grid of alpha and beta -> Explorer, a page that shows them."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..datasets import Dataset
from ..datasets.splits import TEST_SHARE, hold_out
from ..errors import InputError, InputTypeError
from ..estimators.path import GPCAPath
from ..estimators.validation import check_features, check_held_out, check_labels, match_rows
from ..linalg import Propagation
from ..utils.atomic import atomic_file
from ..utils.checks import check_number
from ..utils.progress import report_progress
from .feature_columns import feature_columns
from .layout import choose_layout, lay_out, quantize
from .measures import Classifier, feature_weights, shown_eigenvalues, smoothness
from .page import render

#: Grid of the page. Larger alphas change little, and beta beyond 0.5 seldom helps.
ALPHAS, BETAS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0), (0.0, 0.2, 0.5)

#: Number of components, as in the tables of the paper on citation graphs.
COMPONENTS = 64

#: Largest number of nodes on the page; of more nodes, a random sample is shown.
MAX_NODES = 200_000

#: Largest number of edges on the page; of more edges, a random sample is shown.
MAX_EDGES = 2_000_000

#: The page stores a class in one byte, which is 255 for unlabelled nodes.
MAX_CLASSES = 255

#: Height of the page in a notebook, in pixels.
NOTEBOOK_HEIGHT = 820


@dataclass(frozen=True, repr=False)
class Explorer:
    """A page of HTML that shows embeddings; notebooks display it.

    Attributes
    ----------
    html : str
        The page. It contains all it needs and sends no request.
    title : str
        Its title.
    facts : dict
        Sizes, layout and scores that the page shows, for each alpha and beta.

    Examples
    --------
    >>> from gpcanet import Explorer
    >>> Explorer("<html></html>", "a page")
    Explorer('a page', 0.0 MB)
    """

    html: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the page to a file, completely or not at all."""
        with atomic_file(path, overwrite=overwrite) as file:
            file.write(self.html.encode())

    def __repr__(self) -> str:
        return f"Explorer({self.title!r}, {len(self.html) / 1e6:.1f} MB)"

    def _repr_html_(self) -> str:
        # A frame of its own origin: the page cannot read or change the notebook.
        return (
            f'<iframe sandbox="allow-scripts" style="width:100%;height:{NOTEBOOK_HEIGHT}px;'
            f'border:0" srcdoc="{html.escape(self.html)}"></iframe>'
        )


def explore(
    X: Any,
    y: Any = None,
    *,
    graph: Any = None,
    test: Any = None,
    path: GPCAPath | None = None,
    layout: str = "auto",
    max_nodes: int = MAX_NODES,
    title: str | None = None,
) -> Explorer:
    """Embed nodes for a grid of alpha and beta and return a page that shows them.

    On the page, sliders of alpha and beta move the nodes from one embedding to the next.

    Parameters
    ----------
    X : array-like, sparse matrix or Dataset
        Features of shape (n_nodes, n_features). A Dataset has its own labels, graph and split.
    y : array-like of shape (n_nodes,), optional
        Classes, as in :class:`GPCAClassifier`. Unlabelled nodes have -1.
    graph : Graph or anything that converts to one, optional
    test : array-like of int or bool, optional
        Positions or mask of labelled nodes that are held out for the accuracy: their labels are
        used neither by beta nor by the classifier. By default a fifth of every class.
    path : GPCAPath, optional
        Its parameters give the grid and the embeddings. By default 64 components, alphas from 0
        to 50 and betas from 0 to 0.5 (0 alone without labels).
    layout : {"auto", "pca", "tsne"}
        The first two components, or t-SNE of all components, each started from the layout of the
        neighbouring alpha. "auto" is t-SNE up to 5,000 nodes; t-SNE is limited to 20,000.
    max_nodes : int
        Number of nodes on the page. Of a larger graph, a random sample is shown; embeddings and
        scores are those of the whole graph.
    title : str, optional
        Title of the page.

    Returns
    -------
    page : Explorer

    Examples
    --------
    >>> from gpcanet import explore
    >>> from gpcanet.datasets import block_model
    >>> page = explore(block_model(100, 300, n_features=4), layout="pca")
    >>> page.facts["nodes"]
    100
    """
    check_number("max_nodes", max_nodes, 1, integer=True, advice="the default is 200000")
    if isinstance(X, Dataset):
        if y is not None or graph is not None or test is not None:
            raise InputTypeError(
                "a Dataset has its own labels, graph and split; pass X, y, graph and test of it "
                "to change one of them"
            )
        data = X
    else:
        data = _dataset(X, y, graph, test)
    if data.n_classes > MAX_CLASSES:
        raise InputError(
            f"the labels have {data.n_classes:,} classes, {MAX_CLASSES} are allowed; leave the "
            f"labels out or group them"
        )
    if np.any(data.y >= 0) and not data.has_split:
        data = hold_out(data, 0, test=TEST_SHARE)
    path = default_path(data) if path is None else clone(path)
    return _build(data, path, layout, max_nodes, data.name if title is None else title)


def default_path(data: Dataset) -> GPCAPath:
    """The grid of ``explore``, not fitted."""
    betas = BETAS if np.any(data.y >= 0) else (0.0,)
    return GPCAPath(min(COMPONENTS, *data.X.shape), alphas=ALPHAS, betas=betas)


def _dataset(X: Any, y: Any, graph: Any, test: Any) -> Dataset:
    """Arguments of ``explore`` as a Dataset, with rows in the order of X."""
    checker = GPCAPath()  # has the feature names afterwards
    rows = check_features(checker, X, reset=True)
    row_graph, y, test = match_rows(X if hasattr(X, "iloc") else rows, y, graph, test)
    names = getattr(checker, "feature_names_in_", None)
    codes, classes = np.full(rows.shape[0], -1), None
    if y is not None:
        codes, classes = check_labels(y, rows.shape[0])
    data = Dataset("graph", row_graph, rows, codes, class_names=classes, feature_names=names)
    if test is None:
        return data
    if classes is None:
        raise InputError("test= holds labels out, but y is None; pass y")
    held_out = check_held_out(test, codes, classes, "test")
    train = np.flatnonzero((codes >= 0) & ~held_out)
    return replace(data, train=train, test=np.flatnonzero(held_out))


def _build(data: Dataset, path: GPCAPath, layout: str, max_nodes: int, title: str) -> Explorer:
    n_nodes = data.graph.n_nodes
    shown = np.arange(n_nodes)
    if n_nodes > max_nodes:
        shown = np.sort(np.random.default_rng(0).choice(n_nodes, max_nodes, replace=False))
    kind = choose_layout(layout, len(shown))
    path.fit(data.X, data.visible_labels(validation=False), graph=data.graph)
    alphas = sorted({float(alpha) for alpha in np.atleast_1d(path.alphas)})
    betas = sorted({float(beta) for beta in np.atleast_1d(path.betas)})
    pairs = [(alpha, beta) for beta in betas for alpha in alphas]
    P = Propagation(data.graph.indptr, data.graph.indices, data.graph.weights)
    classifier = Classifier(data) if len(data.train) else None

    embeddings, scores = {}, []
    classes = np.zeros((len(pairs), len(shown)), np.uint8)
    probabilities = np.zeros((len(pairs), len(shown)), np.uint8)
    for i, (alpha, beta) in enumerate(pairs):
        Z = path.embedding(alpha, beta)
        accuracy = {}
        if classifier is not None:
            predictions = classifier.predict(Z)
            classes[i] = predictions.codes[shown]
            probabilities[i] = np.rint(255 * predictions.probabilities[shown])
            accuracy = predictions.accuracy
        scores.append({
            "alpha": alpha,
            "beta": beta,
            "accuracy": accuracy,
            "smoothness": smoothness(Z, P),
            "eigenvalues": shown_eigenvalues(path.eigenvalues(alpha, beta)),
        })  # fmt: skip
        columns_used = slice(0, 2 if kind == "pca" else None)
        embeddings[divmod(i, len(alphas))] = Z[shown, columns_used]
        report_progress("embedding", i + 1, len(pairs))
    positions = quantize(lay_out(embeddings, kind))
    weights = feature_weights(path, pairs)
    used, places = np.unique(weights.features, return_inverse=True)
    colors = feature_columns(data.X, shown, weights.relevant)

    facts = {
        "nodes": n_nodes,
        "edges": data.graph.n_edges,
        "features": data.X.shape[1],
        "components": path.n_components_,
        "shown": len(shown),
        "shown_features": len(colors.features),
        "layout": kind,
        "scores": scores,
    }
    edges = _edges(data, shown)
    header = {
        **facts,
        "title": title,
        "alphas": alphas,
        "betas": betas,
        "n_shown_edges": len(edges),
        "step": positions.step,
        "ids": _texts(shown if data.graph.node_ids is None else data.graph.node_ids[shown]),
        "classes": _class_names(data),
        "predicts": classifier is not None,
        "weighted": {"names": _feature_names(data, used), "shape": list(weights.features.shape)},
        "colored": _feature_names(data, colors.features),
        "n_suggested": len(weights.relevant),
    }
    arrays = {
        "positions": positions.levels.reshape(len(pairs), -1),
        "predicted": classes,
        "probability": probabilities,
        "label": np.where(data.y < 0, MAX_CLASSES, data.y)[shown].astype(np.uint8),
        "part": _parts(data)[shown],
        "degree": np.diff(data.graph.indptr)[shown].astype(np.uint32),
        "edges": edges,
        "value_starts": colors.starts,
        "value_nodes": colors.nodes,
        "values": colors.values,
        "weighted": places.reshape(-1).astype(np.uint32),
        "weighted_column": _positions(colors.features, used),
        "weights": weights.weights.reshape(-1).astype(np.float32),
    }
    return Explorer(render(title, header, arrays), title, facts)


def _edges(data: Dataset, shown: np.ndarray) -> np.ndarray:
    """Pairs of positions in ``shown``, each edge once; a random sample of many."""
    graph = data.graph.subgraph(shown)
    sources = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    once = np.flatnonzero(sources < graph.indices)
    if len(once) > MAX_EDGES:
        once = np.sort(np.random.default_rng(0).choice(once, MAX_EDGES, replace=False))
    return np.stack([sources[once], graph.indices[once]], axis=1).astype(np.uint32)


def _positions(features: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Position of every wanted feature among those of the page, their number if it is not there."""
    order = np.argsort(features)
    place = np.minimum(np.searchsorted(features, wanted, sorter=order), len(features) - 1)
    found = features[order[place]] == wanted
    return np.where(found, order[place], len(features)).astype(np.uint32)


def _parts(data: Dataset) -> np.ndarray:
    """0 for nodes outside the split, 1 for training, 2 for validation, 3 for test nodes."""
    parts = np.zeros(data.graph.n_nodes, np.uint8)
    for code, nodes in enumerate((data.train, data.validation, data.test), 1):
        parts[nodes] = code
    return parts


def _class_names(data: Dataset) -> list[str]:
    return _texts(np.arange(data.n_classes) if data.class_names is None else data.class_names)


def _feature_names(data: Dataset, features: np.ndarray) -> list[str]:
    if data.feature_names is None:
        return [f"feature {i}" for i in features]
    return _texts(data.feature_names[features])


def _texts(values: np.ndarray) -> list[str]:
    return [str(value) for value in values.tolist()]
