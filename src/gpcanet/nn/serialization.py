"""Save trained networks to one file of arrays and JSON, in the format of saved estimators."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.nn as pyg

from ..errors import InputError, InputTypeError, UserError
from ..estimators.heads import TEMPERATURES
from ..estimators.serialization import (
    NETWORK,
    decode,
    encode,
    explaining_bad_content,
    read_model_file,
)
from ..estimators.training_nodes import TrainingNodes
from ..utils.checks import check_choice, check_number
from ..utils.tensor_file import write_tensor_file
from .models import GCN, GPCANet
from .tensors import dtype_name
from .trained_network import NO_TRAINING_LABELS, TrainedNetwork, uses_labels
from .training.checkpoint import describe_model, to_json
from .training.registry import APPNP, MLP, MODEL_NAMES, build_model, model_arguments

#: Names of the models of each class.
NAMES: dict[type[torch.nn.Module], tuple[str, ...]] = {
    GCN: ("gcn",),
    pyg.GraphSAGE: ("sage",),
    pyg.GAT: ("gat", "gatv2"),
    pyg.GIN: ("gin",),
    APPNP: ("appnp",),
    MLP: ("mlp",),
    pyg.SGConv: ("sgc",),
    GPCANet: ("gpcanet",),
}

#: Largest width of a layer; the size of a larger weight matrix would overflow.
MAX_WIDTH = 2**29

#: Largest number of propagation steps of a layer; a forged file could ask for days of work.
MAX_STEPS = 10_000

#: Dtypes that the weights of a network may have, all the same.
_DTYPES = ({"float32"}, {"float64"})

#: Fields of a TrainedNetwork besides its model and notes.
_PARTS = ("classes", "feature_names", "training_nodes")

#: Prefix of the names of weights and buffers in the file.
_STATE = "state."


def save_model(
    model: TrainedNetwork | torch.nn.Module,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Save a network to a file, with the names of its classes and features.

    Supported are the networks of ``gpcanet train``: ``GPCANet``, ``GCN``, APPNP and MLP of this
    package, and ``GraphSAGE``, ``GAT``, ``GIN`` and ``SGConv`` of PyG with their default settings.
    For any other network, save the weights by ``torch.save(model.state_dict(), path)``.

    The file contains no pickle. It contains the graph and the training labels only for a
    ``GPCANet`` with beta > 0, which needs them to predict.

    Parameters
    ----------
    model : TrainedNetwork or torch.nn.Module
        The network. A plain module has the classes 0, 1, ... and no feature names.
    path : str or path-like
        The file to write. It is written completely or not at all.
    overwrite : bool, default=False
        Whether to replace an existing file.

    See Also
    --------
    load_model : Load the saved network.

    Examples
    --------
    >>> import tempfile
    >>> from gpcanet.datasets import block_model
    >>> from gpcanet.nn import GCN, Settings, TrainedNetwork, train
    >>> data = block_model(200, 800, n_features=8, n_classes=2)
    >>> model = GCN(8, 16, num_layers=2, out_channels=2)
    >>> result = train(model, data, Settings(epochs=5))
    >>> network = TrainedNetwork.of(model, data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(network, f"{folder}/network.safetensors")
    ...     loaded = load_model(f"{folder}/network.safetensors")
    >>> bool((loaded.predict_proba(data) == network.predict_proba(data)).all())
    True
    """
    network = model if isinstance(model, TrainedNetwork) else TrainedNetwork.of(model)
    name, arguments = _identify(network.model)
    _check_parts(network, arguments)
    state = network.model.state_dict()
    dtypes = {dtype_name(tensor) for tensor in state.values() if tensor.is_floating_point()}
    if dtypes not in _DTYPES:
        raise InputError(
            f"the weights have dtype {' and '.join(sorted(dtypes))}; convert them by model.float()"
        )
    arrays = {
        _STATE + key: tensor.detach().cpu().contiguous().numpy() for key, tensor in state.items()
    }
    for key, array in arrays.items():
        if not np.isfinite(array).all():
            raise InputError(
                f"{key.removeprefix(_STATE)} contains NaN or infinite values; train the network "
                f"again with a smaller lr"
            )
    header = {
        "kind": NETWORK,
        "name": name,
        "arguments": arguments,
        "temperature": network.temperature,
        "notes": to_json(network.notes),
    }
    header |= {part: encode(getattr(network, part), part, arrays) for part in _PARTS}
    write_tensor_file(Path(path), header, arrays, overwrite=overwrite)


def load_model(path: str | os.PathLike[str]) -> TrainedNetwork:
    """Load a network saved by ``save_model``.

    Its probabilities are bit-identical to those of the saved network on the same machine.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    network : TrainedNetwork
        Its ``model`` is the torch module, on the CPU and in evaluation mode; all its parameters
        can be trained further.

    Examples
    --------
    >>> import tempfile
    >>> from gpcanet.nn import GCN
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(GCN(8, 16, num_layers=2, out_channels=3), f"{folder}/net.safetensors")
    ...     network = load_model(f"{folder}/net.safetensors")
    >>> network.model
    GCN(8, 3, num_layers=2)
    """
    header, arrays = read_model_file(path)
    if header.get("kind") != NETWORK:
        raise InputError(
            f"{path} is not a network of GPCANet but of kind {header.get('kind')!r}; load an "
            f"estimator by gpcanet.load_model"
        )
    with explaining_bad_content(path):
        arguments = header["arguments"]
        state = {name: array for name, array in arrays.items() if name.startswith(_STATE)}
        model = _build_without_memory(header["name"], arguments, len(state))
        _check_state(model, state)
        tensors = {name.removeprefix(_STATE): torch.from_numpy(a) for name, a in state.items()}
        model.load_state_dict(tensors, assign=True)
        parts = {part: decode(header[part], arrays) for part in _PARTS}
        parts |= {name: header[name] for name in ("temperature", "notes")}
        network = TrainedNetwork(model.eval(), **parts)
        _check_parts(network, arguments)
    return network


# -- name and arguments of a model ----------------------------------------------------------


def _identify(model: torch.nn.Module) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments that build the same model."""
    kind = type(model).__name__
    advice = "save its weights by torch.save(model.state_dict(), path)"
    difference = ""
    for name in NAMES.get(type(model), ()):
        try:
            arguments = model_arguments(name, model)
            same = _build_without_memory(name, arguments, len(model.state_dict()))
        except (UserError, TypeError) as error:  # a pair of widths is a TypeError
            difference = str(error)
            break
        difference = _first_difference(describe_model(model), describe_model(same))
        if not difference:
            return name, arguments
    if difference:
        raise InputTypeError(
            f"this {kind} has settings that save_model does not support: {difference}; {advice}"
        )
    raise InputTypeError(f"a {kind} is not a network that save_model supports; {advice}")


def _first_difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    # Which parameters are frozen does not matter for predictions.
    for name in [*expected, *found]:
        if not name.startswith("the list of") and found.get(name) != expected.get(name):
            return f"{name} is {found.get(name)!r} instead of {expected.get(name)!r}"
    return ""


def _build_without_memory(name: Any, arguments: Any, n_tensors: int) -> torch.nn.Module:
    """Build a model with weights that have shapes but no memory; check its arguments first."""
    check_choice("model", name, MODEL_NAMES)
    advice = "other networks cannot be loaded"
    for width in ("in_channels", "out_channels", "hidden"):
        if width != "hidden" or name != "sgc":
            check_number(width, arguments[width], 1, MAX_WIDTH, advice=advice, integer=True)
    # Each layer has at least one tensor; for sgc, ``layers`` counts propagation steps.
    most = MAX_STEPS if name == "sgc" else n_tensors
    check_number("layers", arguments["layers"], 1, most, advice=advice, integer=True)
    if name == "gpcanet":
        check_choice("act", str(arguments["act"]).lower(), ("relu", "none"))
        if arguments["n_iter"] != "taylor":
            check_number("n_iter", arguments["n_iter"], 0, MAX_STEPS, advice=advice, integer=True)
    with torch.device("meta"):
        model = build_model(name, **arguments)
    if model_arguments(name, model) != arguments:
        raise InputError("the arguments of its model are not valid; the file is damaged")
    return model


# -- checks of what a file contains ---------------------------------------------------------


def _check_state(model: torch.nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise unless the arrays are finite and have the names, shapes and dtypes of the state."""
    expected = {_STATE + name: tensor for name, tensor in model.state_dict().items()}
    for name in sorted(arrays.keys() ^ expected.keys()):
        problem = "is missing" if name in expected else "does not belong to the model"
        raise InputError(f"{name} {problem}; the file is damaged")
    dtypes = set()
    for name, tensor in expected.items():
        array = arrays[name]
        if array.shape != tuple(tensor.shape):
            raise InputError(
                f"{name} has shape {array.shape} instead of {tuple(tensor.shape)}; the file is "
                f"damaged"
            )
        if tensor.is_floating_point():
            dtypes.add(str(array.dtype))
        elif array.dtype != np.int64:
            raise InputError(f"{name} has dtype {array.dtype} instead of int64")
        if not np.isfinite(array).all():
            raise InputError(f"{name} contains NaN or infinite values")
    if dtypes not in _DTYPES:
        raise InputError(f"the weights have dtype {' and '.join(sorted(dtypes))}")


def _check_parts(network: TrainedNetwork, arguments: dict[str, Any]) -> None:
    """Raise unless classes, feature names, training nodes, temperature and notes are valid."""
    check_number("temperature", network.temperature, *TEMPERATURES, advice="1 changes nothing")
    for part, n in (
        ("classes", arguments["out_channels"]),
        ("feature_names", arguments["in_channels"]),
    ):
        names = getattr(network, part)
        if names is not None and (not isinstance(names, np.ndarray) or names.shape != (n,)):
            raise InputError(f"{part} must be an array of {n} names, one for each column")
    if not isinstance(network.notes, dict):
        raise InputError(f"notes is a {type(network.notes).__name__}; give a dict")
    to_json(network.notes)
    known = network.training_nodes
    if not uses_labels(network.model):
        if known is not None:
            raise InputError("training_nodes are for a GPCANet with beta > 0 only")
        return
    if not isinstance(known, TrainingNodes) or known.labels is None:
        raise InputError(NO_TRAINING_LABELS)
    is_whole = known.nodes is None and known.labels.shape == (known.graph.n_nodes,)
    if not is_whole or known.labels.dtype.kind != "i":
        raise InputError("training_nodes must have one label for each node of the graph")
