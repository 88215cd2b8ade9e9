"""How a model is called: with tensors, with dictionaries by type, or with PyG data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch_geometric.data import HeteroData
from torch_geometric.data.data import BaseData

from ...errors import InputError, InputTypeError

#: Runs a model that is not called as model(x, edge_index).
Forward = Callable[[torch.nn.Module], Any]

#: Attributes of data that are passed to optional parameters of the same name.
OPTIONAL = ("x", "edge_index", "adj_t", "edge_weight", "edge_attr", "edge_type", "batch", "pos")

#: Attributes of mini-batches that PyG's loaders have sampled from a graph.
SAMPLED = ("input_id", "num_sampled_nodes")

#: Names of a parameter that takes the data as a whole; "batch" does so if it is the only one.
WHOLE = ("data", "batch_data", "graph")


class ModelInput(NamedTuple):
    """Features and edges, and a function that runs the model if it is not called with them."""

    x: Any
    edge_index: Any
    edge_weight: Any
    forward: Forward | None


def read_input(
    model: torch.nn.Module, x: Any, edge_index: Any, edge_weight: Any, forward: Forward | None
) -> ModelInput:
    """Take features and edges out of PyG data in place of ``x``; return other input as it is."""
    if not isinstance(x, BaseData):
        return ModelInput(x, edge_index, edge_weight, forward)
    if edge_index is not None or edge_weight is not None:
        raise InputTypeError(f"give either the {type(x).__name__} or x and edge_index, not both")
    if any(name in x for name in SAMPLED):
        raise InputError(
            f"this {type(x).__name__} is a mini-batch that was sampled from a graph; give the data "
            f"of the whole graph, also for a model that is trained on mini-batches"
        )
    values = _values(x)
    if forward is None:
        args, kwargs = _arguments(model, x, values)
        forward = partial(_call, args=args, kwargs=kwargs)
    return ModelInput(values.get("x"), values.get("edge_index"), values.get("edge_weight"), forward)


def check_call(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an error if the ``forward`` of a model does not take these arguments."""
    try:
        _signature(model).bind(*args, **kwargs)
    except TypeError as error:
        names = ", ".join(["x", "edge_index"][: len(args)] + [f"{name}=" for name in kwargs])
        raise InputTypeError(
            f"the model cannot be called as model({names}): {error}; give "
            f"forward=lambda model: model(...) with the arguments that it takes"
        ) from error


def _signature(model: torch.nn.Module) -> inspect.Signature:
    try:
        return inspect.signature(model.forward)
    except ValueError:  # a function without a signature, such as one that is not in Python
        return inspect.signature(lambda *args, **kwargs: None)


def _call(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return model(*args, **kwargs)


def _values(data: BaseData) -> dict[str, Any]:
    """Attributes of data by the names of parameters; those of HeteroData also end in _dict."""
    if isinstance(data, HeteroData):
        names = {name for store in data.stores for name in store if not isinstance(name, tuple)}
        values = {name: data.collect(name) for name in names}
        values |= {f"{name}_dict": value for name, value in values.items()}
    else:
        values = {name: value for name, value in data.to_dict().items() if value is not None}
    if "adj_t" in values:
        values.setdefault("edge_index", values["adj_t"])
    if "adj_t_dict" in values:
        values.setdefault("edge_index_dict", values["adj_t_dict"])
    return values


def _arguments(
    model: torch.nn.Module, data: BaseData, values: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of ``model.forward`` that the data have, by name if it has parameters by name."""
    parameters = _signature(model).parameters
    if list(parameters) == ["batch"]:
        return (), {"batch": data}
    named = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    if not named:
        return tuple(values[name] for name in ("x", "edge_index") if name in values), {}
    arguments, missing = {}, []
    for name, parameter in named.items():
        is_required = parameter.default is parameter.empty
        if name in values and (is_required or name.removesuffix("_dict") in OPTIONAL):
            arguments[name] = values[name]
        elif is_required and name in WHOLE:
            arguments[name] = data
        elif is_required:
            missing.append(name)
    if missing:
        raise InputTypeError(
            f"forward of the model takes {', '.join(missing)}, but the {type(data).__name__} has "
            f"{', '.join(sorted(values)) or 'no attributes'}; give forward=lambda model: model(...)"
        )
    return (), arguments
