"""Checkpoint of a training: one file, written completely or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from ...errors import DataError, InputError, InputTypeError
from ...utils.labels import SPLIT
from ...utils.tensor_file import read_tensor_file, write_tensor_file
from ..tensors import is_sparse, to_numpy_or_scipy
from .data import NodeData

KIND = "training checkpoint"


# -- the file -----------------------------------------------------------------------------


@contextmanager
def checkpoint_lock(path: Path) -> Iterator[None]:
    """Lock the checkpoint for this training; raise an error if another training has locked it.

    The operating system releases the lock if the process dies.
    """
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"{path} is in use by another training; wait until that ends, or give another file"
        ) from None
    try:
        yield
    finally:
        lock.release()


def write_checkpoint(path: Path, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
    """Write tensors and JSON, replacing an existing file."""
    arrays, bfloat16 = {}, []
    for name, tensor in tensors.items():
        values = tensor.detach().cpu().contiguous()
        if values.dtype == torch.bfloat16:  # numpy has none, so its bits are stored
            bfloat16.append(name)
            values = values.view(torch.int16)
        arrays[name] = values.numpy()
    header = {"kind": KIND, "notes": notes, "bfloat16": bfloat16}
    write_tensor_file(path, header, arrays, overwrite=True)


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON of a checkpoint after verifying its checksum."""
    try:
        header, arrays = read_tensor_file(path, KIND)
    except DataError as error:
        raise DataError(
            f"{error}; give another file, or delete it to restart the training"
        ) from None
    if header.get("kind") != KIND:
        raise DataError(
            f"{path} is not a {KIND} but a {header.get('kind')!r} of GPCANet; give another file"
        )
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    tensors |= {name: tensors[name].view(torch.bfloat16) for name in header["bfloat16"]}
    return tensors, header["notes"]


# -- what a training depends on -----------------------------------------------------------


def to_json(notes: dict[str, Any]) -> dict[str, Any]:
    """Return notes as they are read from a file: tuples become lists and keys strings."""
    try:
        return json.loads(json.dumps(notes, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"notes cannot be written as JSON ({error}); give text, finite numbers, lists and dicts"
        ) from None


def describe_model(model: torch.nn.Module) -> dict[str, Any]:
    """Return the shapes, module types, settings and trained parameters of a model."""
    found: dict[str, Any] = {k: list(tensor.shape) for k, tensor in model.state_dict().items()}
    for name, module in model.named_modules():
        found[name or "the model"] = type(module).__name__
        for setting, value in vars(module).items():
            if isinstance(value, np.generic):  # such as a number of classes computed by numpy
                value = value.item()
            if isinstance(value, str | int | float) and setting != "training" and setting[0] != "_":
                found[f"{name}.{setting}".lstrip(".")] = value
    # The state of the optimizer refers to parameters by their position in this list.
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    return found | {"the list of trained parameters": trained}


def fingerprint(data: NodeData) -> dict[str, Any]:
    """Return sizes and checksums of the features, graph, labels and split."""
    graph = data.graph
    x = to_numpy_or_scipy(data.x)
    features = [x]
    if is_sparse(data.x):
        x = x.copy()
        x.sum_duplicates()  # equal matrices may store their entries in different orders
        features = [x.indptr.astype(np.int64), x.indices.astype(np.int64), x.data]
    found = {
        "nodes": graph.n_nodes,
        "number of edges": graph.n_edges,
        "features": _checksum(*features, text=f"{data.x.dtype} {tuple(data.x.shape)}"),
        "labels": _checksum(data.y.cpu().numpy()),
        "edges": _checksum(graph.indptr, graph.indices),
        "edge weights": None if graph.weights is None else _checksum(graph.weights),
    }
    return found | {name: _checksum(getattr(data, name).cpu().numpy()) for name in SPLIT}


def _checksum(*arrays: np.ndarray, text: str = "") -> str:
    found = hashlib.sha256(text.encode())
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()[:16]


def check_same(path: Path, part: str, stored: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise an error if the model, settings, data or notes of a checkpoint are different."""
    for name in [*expected, *stored]:
        if stored.get(name) != expected.get(name):
            raise InputError(
                f"{path} belongs to another training: in its {part}, {name} is "
                f"{stored.get(name)} instead of {expected.get(name)}; give another file, or "
                f"delete it"
            )


# -- state of a training ------------------------------------------------------------------


def copy_state(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> dict[str, Tensor]:
    """Return copies of the weights, the optimizer state and the random state by name."""
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            state[f"optimizer.{index}.{name}"] = torch.as_tensor(value)
    state["random.cpu"] = torch.get_rng_state()
    if device.type == "cuda":
        state["random.cuda"] = torch.cuda.get_rng_state(device)
    return {name: tensor.clone() for name, tensor in state.items()}


def restore_state(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    state: dict[str, Tensor],
) -> None:
    """Set the weights, the optimizer state and the random state to those of ``copy_state``."""
    model.load_state_dict(with_prefix("model.", state))
    values: dict[int, dict[str, Tensor]] = {}
    for key, tensor in with_prefix("optimizer.", state).items():
        index, name = key.split(".")
        values.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": values})
    torch.set_rng_state(state["random.cpu"])
    if device.type == "cuda" and "random.cuda" in state:
        torch.cuda.set_rng_state(state["random.cuda"], device)


def with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names start with a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
