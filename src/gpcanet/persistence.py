"""Fitted models on disk, rebuilt from named arrays and plain values (see tensor_file.py)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .classifier import GPCAClassifier
from .errors import InputError, InputTypeError
from .gpca import GPCA
from .graph import Graph
from .head import FeatureScaler, Head
from .seen import SeenNodes
from .tensor_file import read_tensor_file, write_tensor_file


def save_model(
    model: GPCA | GPCAClassifier, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write a fitted GPCA or GPCAClassifier to one file, whole or not at all.

    Labels, and the graph they belong to, are part of a model with ``beta > 0`` and of a
    classifier that corrects and smooths; rows of X, and their graph, of a model fitted with
    ``nodes``. Other models keep nothing of their training nodes. ``transduction_`` and
    ``label_distributions_`` of a classifier are results, not the model, and are not saved.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = GPCA(2).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/iris.safetensors")
    ...     loaded = load_model(f"{folder}/iris.safetensors")
    >>> bool((loaded.transform(X) == model.transform(X)).all())
    True
    """
    if type(model) not in (GPCA, GPCAClassifier):  # what a subclass adds would be lost
        raise InputTypeError(
            f"a {type(model).__name__} cannot be saved; give a GPCA or a GPCAClassifier"
        )
    if not hasattr(model, "n_features_in_"):
        raise InputError(f"this {type(model).__name__} is not fitted; fit it before saving it")
    kind = type(model).__name__
    tree = _pack_gpca(model) if isinstance(model, GPCA) else _pack_classifier(model)
    arrays: dict[str, np.ndarray] = {}
    header = {"kind": kind, "model": _flatten(tree, kind, arrays)}
    write_tensor_file(Path(path), header, arrays, overwrite=overwrite)


def load_model(path: str | os.PathLike[str]) -> GPCA | GPCAClassifier:
    """The model that ``save_model`` wrote; it transforms to the same bytes.

    A classifier comes back without ``transduction_`` and ``label_distributions_``; ``predict``
    and ``predict_proba`` on the training nodes give them again.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is no file; give the file of a saved model")
    header, arrays = read_tensor_file(Path(path), "model")
    if header.get("kind") not in ("GPCA", "GPCAClassifier"):
        raise InputError(f"{path} is no model of GPCANet: its kind is {header.get('kind')!r}")
    try:
        tree = _restore(header["model"], arrays)
        return _unpack_gpca(tree) if header["kind"] == "GPCA" else _unpack_classifier(tree)
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise InputError(f"{path} is no complete model of GPCANet ({error!r})") from None
    except ValueError as error:
        raise InputError(f"{path} is no model of GPCANet: {error}") from None


# -- estimators as trees of plain values and arrays ---------------------------------------------


def _pack_gpca(model: GPCA) -> dict[str, Any]:
    return {
        "parameters": model.get_params(),
        "fitted": _fitted_attributes(model),
        "seen": _pack_seen(model._seen),
    }


def _pack_seen(seen: SeenNodes | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    return {
        "graph": _pack_graph(seen.graph),
        "nodes": seen.nodes,
        "X": _pack_matrix(seen.X),
        "labels": seen.labels,
    }


def _unpack_seen(tree: dict[str, Any] | None) -> SeenNodes | None:
    if tree is None:
        return None
    graph, X = _unpack_graph(tree["graph"]), _unpack_matrix(tree["X"])
    return SeenNodes(graph, tree["nodes"], X, tree["labels"])


def _unpack_gpca(tree: dict[str, Any]) -> GPCA:
    model = GPCA(**tree["parameters"])
    model._check_parameters()
    model.__dict__.update(tree["fitted"])
    if model.components_.shape != (len(model.eigenvalues_), len(model.mean_)):
        raise InputError("the arrays of the model do not fit together; the file is damaged")
    model._n_features_out = len(model.components_)
    model._seen = _unpack_seen(tree["seen"])
    return model


def _pack_classifier(model: GPCAClassifier) -> dict[str, Any]:
    return {
        "parameters": model.get_params(),
        "fitted": _fitted_attributes(
            model, without=("gpca_", "transduction_", "label_distributions_")
        ),
        "gpca": [_pack_gpca(gpca) for gpca in model.gpca_],
        "heads": [vars(head) for head in model._heads],
        "scaler": vars(model._scaler),
        "labelled": _pack_seen(model._labelled),
    }


def _unpack_classifier(tree: dict[str, Any]) -> GPCAClassifier:
    model = GPCAClassifier(**tree["parameters"])
    model._check_parameters()
    model.__dict__.update(tree["fitted"])
    model.gpca_ = [_unpack_gpca(part) for part in tree["gpca"]]
    model._heads = [_with_attributes(Head, head) for head in tree["heads"]]
    model._scaler = _with_attributes(FeatureScaler, tree["scaler"])
    model._labelled = _unpack_seen(tree["labelled"])
    return model


def _fitted_attributes(model: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """What fit has learnt, by scikit-learn's rule for names."""
    return {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_") and name not in without
    }


def _with_attributes(kind: Any, attributes: Mapping[str, Any]) -> Any:
    made = kind.__new__(kind)
    made.__dict__.update(attributes)
    return made


def _pack_graph(graph: Graph) -> dict[str, Any]:
    return {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "weights": graph.weights,
        "node_ids": graph.node_ids,
    }


def _unpack_graph(tree: dict[str, Any]) -> Graph:
    n_nodes = len(tree["indptr"]) - 1
    weights = tree["weights"]
    values = np.ones(len(tree["indices"]), bool) if weights is None else weights
    matrix = sp.csr_array((values, tree["indices"], tree["indptr"]), shape=(n_nodes, n_nodes))
    matrix.check_format(full_check=True)  # positions out of range would read elsewhere
    return Graph(matrix, node_ids=tree["node_ids"])


def _pack_matrix(X: Any) -> Any:
    if not sp.issparse(X):
        return X
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": list(X.shape)}


def _unpack_matrix(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    shape = tuple(tree["shape"])
    matrix = sp.csr_array((tree["data"], tree["indices"], tree["indptr"]), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


# -- trees as JSON and arrays -------------------------------------------------------------------


def _flatten(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """The tree as JSON, its arrays moved to ``arrays`` under the names of their places."""
    if isinstance(value, dict):
        return {key: _flatten(item, f"{name}.{key}", arrays) for key, item in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        items = [_flatten(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
        return {"$tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biuf":
            # The embeddings of a classifier share the graph and the rows that they keep.
            shared = next((known for known, array in arrays.items() if array is value), None)
            if shared is None:
                arrays[name] = np.ascontiguousarray(value)
            return {"$array": shared or name}
        if all(isinstance(item, str) for item in value.tolist()):
            return {"$text": value.tolist(), "object": value.dtype == object}
        raise InputTypeError(
            f"{name} holds values that are neither numbers nor text; such a model cannot be saved"
        )
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputTypeError(f"{name}={value!r} cannot be saved; use a number, text or None")


def _restore(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_restore(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return arrays[value["$array"]]
    if "$tuple" in value:
        return tuple(_restore(value["$tuple"], arrays))
    if "$text" in value:
        return np.array(value["$text"], dtype=object if value["object"] else str)
    return {key: _restore(item, arrays) for key, item in value.items()}
