"""Save fitted estimators to one file of arrays and JSON (see utils/tensor_file.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..errors import InputError, InputTypeError, UserError
from ..graph import Graph
from ..utils.tensor_file import read_tensor_file, write_tensor_file
from ._boosting import BoostedTrees
from ._ensemble import FittedMember
from ._model_selection import Candidate
from ._multilabel import MultiLabelModel
from ._node_statistics import NodeStatistics
from .classifier import GPCAClassifier
from .feature_scaler import FeatureScaler
from .gpca import GPCA
from .heads import Head
from .imputer import GraphImputer
from .regressor import GPCARegressor
from .training_nodes import TrainingNodes
from .validation import is_learned

#: Estimators: saved as their parameters and learned attributes.
ESTIMATORS = {
    "GPCA": GPCA,
    "GPCAClassifier": GPCAClassifier,
    "GPCARegressor": GPCARegressor,
    "GraphImputer": GraphImputer,
    "MultiLabelModel": MultiLabelModel,  # part of a classifier
}

#: Any of them.
Estimator = GPCA | GPCAClassifier | GPCARegressor | GraphImputer | MultiLabelModel

#: Dataclasses: saved as their fields.
RECORDS = {
    record.__name__: record
    for record in (
        BoostedTrees, Candidate, FeatureScaler, FittedMember, Head, NodeStatistics, TrainingNodes,
    )
}  # fmt: skip

#: Kind of the files of ``gpcanet.nn.save_model``.
NETWORK = "network"

#: Constructor arguments of a Graph and of a sparse array that are saved.
GRAPH_FIELDS = ("indptr", "indices", "weights", "node_ids")
SPARSE_FIELDS = ("data", "indices", "indptr", "shape")

#: Learned attributes that are results for the training nodes, not part of the model.
NOT_SAVED = ("transduction_", "label_distributions_", "fitted_values_")


def save_model(model: Estimator, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Save a fitted GPCA, classifier, regressor or imputer to a file.

    The file contains no pickle. It contains training nodes only where they are needed: labels
    and graph with ``beta > 0``, correct-and-smooth or propagated residuals, rows of X and graph
    after a fit with ``nodes``. ``transduction_``, ``label_distributions_`` and ``fitted_values_``
    are not saved.

    Parameters
    ----------
    model : GPCA, GPCAClassifier, GPCARegressor or GraphImputer
        Fitted estimator.
    path : str or path-like
        The file to write. It is written completely or not at all.
    overwrite : bool, default=False
        Whether to replace an existing file.

    See Also
    --------
    load_model : Load the saved estimator.

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
    kind = type(model).__name__
    if type(model) not in ESTIMATORS.values():  # what a subclass adds would be lost
        raise InputTypeError(
            f"a {kind} cannot be saved; give a {', '.join(ESTIMATORS)}, or use "
            f"gpcanet.nn.save_model for a network"
        )
    if not hasattr(model, "training_nodes_"):  # a failed fit has set n_features_in_
        raise InputError(f"this {kind} is not fitted; fit it before saving it")
    arrays: dict[str, np.ndarray] = {}
    header = {"kind": kind, "model": encode(model, kind, arrays)}
    write_tensor_file(Path(path), header, arrays, overwrite=overwrite)


def load_model(path: str | os.PathLike[str]) -> Estimator:
    """Load an estimator saved by ``save_model``.

    Its results are bit-identical to those of the saved estimator. It has no
    ``transduction_``, ``label_distributions_`` or ``fitted_values_``; compute them by ``predict``
    and ``predict_proba`` on the training nodes.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    model : GPCA, GPCAClassifier, GPCARegressor or GraphImputer
        Fitted estimator.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(GPCA(2).fit(load_iris().data), f"{folder}/iris.safetensors")
    ...     load_model(f"{folder}/iris.safetensors")
    GPCA(n_components=2)
    """
    header, arrays = read_model_file(path)
    if header.get("kind") == NETWORK:
        raise InputError(
            f"{path} holds a network, not an estimator; load it by gpcanet.nn.load_model, or apply "
            f"it by gpcanet classify"
        )
    if header.get("kind") not in tuple(ESTIMATORS):
        raise InputError(f"{path} is not a model of GPCANet: its kind is {header.get('kind')!r}")
    with explaining_bad_content(path):
        model = decode(header["model"], arrays)
    if type(model).__name__ != header["kind"]:
        raise InputError(f"{path} is not a model of GPCANet: it holds no {header['kind']}")
    return model


def read_model_file(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a saved estimator or network."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file; give the file of a saved model")
    return read_tensor_file(Path(path), "model")


@contextmanager
def explaining_bad_content(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise an InputError that names the file if its content is not a valid model."""
    try:
        yield
    except (UserError, ValueError) as error:
        raise InputError(f"{path} is not a model of GPCANet: {error}") from None
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise InputError(f"{path} is not a complete model of GPCANet ({error!r})") from None


def encode(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return the value as JSON, with its arrays moved to ``arrays`` under dotted names."""

    def encode_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {key: encode(item, f"{name}.{key}", arrays) for key, item in fields.items()}

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return _encode_array(value, name, arrays)
    if isinstance(value, list | tuple):
        items = [encode(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
        return {"$type": "tuple", "items": items} if isinstance(value, tuple) else items
    if isinstance(value, dict):  # class weights, whose keys need not be text
        return {"$type": "dict", "items": encode(list(value.items()), name, arrays)}
    kind = type(value)
    if kind in ESTIMATORS.values():
        learned = {
            key: item
            for key, item in vars(value).items()
            if is_learned(key) and key not in NOT_SAVED
        }
        parts = {"parameters": value.get_params(), "learned": learned}
        encoded = {part: encode_fields(fields) for part, fields in parts.items()}
        return {"$type": kind.__name__, **encoded}
    if kind in RECORDS.values():
        return {"$type": kind.__name__, **encode_fields(vars(value))}
    if kind is Graph:
        return {"$type": "Graph", **encode_fields({f: getattr(value, f) for f in GRAPH_FIELDS})}
    if sp.issparse(value):
        value = sp.csr_array(value)
        fields = encode_fields({field: getattr(value, field) for field in SPARSE_FIELDS})
        return {"$type": "csr_array", **fields}
    raise InputTypeError(f"{name}={value!r} cannot be saved; use a number, text or None")


def _encode_array(value: np.ndarray, name: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    if value.dtype.kind in "biuf":
        # The embeddings of a classifier share a graph and rows of X, which are written once.
        shared = next((known for known, array in arrays.items() if array is value), None)
        if shared is None:
            arrays[name] = np.ascontiguousarray(value)
        return {"$type": "array", "name": shared or name}
    if all(isinstance(item, str) for item in value.tolist()):
        return {"$type": "text", "items": value.tolist(), "object": value.dtype == object}
    raise InputTypeError(
        f"{name} holds values that are neither numbers nor text; such a model cannot be saved"
    )


def decode(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the value that encode was given; creates only the types that it knows."""
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: decode(item, arrays) for key, item in value.items()}
    match fields.pop("$type", None):
        case None:
            return fields
        case "array":
            return arrays[fields["name"]]
        case "text":
            return np.array(fields["items"], dtype=object if fields["object"] else str)
        case "dict":
            return dict(fields["items"])
        case "tuple":
            return tuple(fields["items"])
        case "Graph":
            return Graph.from_csr(**fields)
        case "csr_array":
            data, *structure, shape = (fields[field] for field in SPARSE_FIELDS)
            matrix = sp.csr_array((data, *structure), shape=shape)
            matrix.check_format(full_check=True)  # an index out of range would read other memory
            return matrix
        case kind if kind in RECORDS:
            return RECORDS[kind](**fields)
        case kind:
            return _restore(ESTIMATORS[kind](**fields["parameters"]), fields["learned"])


def _restore(model: Estimator, learned: dict[str, Any]) -> Estimator:
    """Give an estimator its learned attributes."""
    model.check_parameters()
    if not all(is_learned(name) for name in learned):
        raise InputError("it has attributes that are not learned; the file is damaged")
    model.__dict__.update(learned)
    if isinstance(model, GPCA):
        shape = len(model.eigenvalues_), len(model.mean_)
        if model.components_.shape != shape:
            raise InputError("the shapes of its arrays do not match; the file is damaged")
    return model
