"""Where a training stands, in one file that is written whole or not at all."""

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
from ...utils.tensor_file import read_tensor_file, write_tensor_file
from ...utils.training_result import SPLIT
from ..tensors import is_sparse, to_numpy_or_scipy
from .data import NodeData

KIND = "training checkpoint"


@contextmanager
def checkpoint_lock(path: Path) -> Iterator[None]:
    """Hold the checkpoint for one training; a second one is refused.

    The operating system releases the lock when a process dies.
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
    """Write tensors and JSON, in place of what was there."""
    # numpy has no bfloat16, so its bits are stored as int16.
    bfloat16 = [name for name, tensor in tensors.items() if tensor.dtype == torch.bfloat16]
    arrays = {
        name: (tensor.view(torch.int16) if name in bfloat16 else tensor).numpy()
        for name, tensor in (
            (name, tensor.detach().cpu().contiguous()) for name, tensor in tensors.items()
        )
    }
    header = {"kind": KIND, "notes": notes, "bfloat16": bfloat16}
    write_tensor_file(path, header, arrays, overwrite=True)


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and JSON of a checkpoint, once its checksum has been verified."""
    try:
        header, arrays = read_tensor_file(path, KIND)
    except DataError as error:
        raise DataError(f"{error}; delete it to train from the start") from None
    if header.get("kind") != KIND:
        raise DataError(
            f"{path} is no {KIND} of GPCANet: its kind is {header.get('kind')!r}; give another file"
        )
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    tensors |= {name: tensors[name].view(torch.bfloat16) for name in header["bfloat16"]}
    return tensors, header["notes"]


def as_json(notes: dict[str, Any]) -> dict[str, Any]:
    """Notes as they come back from a file, with lists for tuples and strings for keys."""
    try:
        return json.loads(json.dumps(notes, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"notes cannot be written as JSON ({error}); give text, finite numbers, lists and dicts"
        ) from None


def architecture(model: torch.nn.Module) -> dict[str, Any]:
    """Shapes of parameters and buffers, types and settings of modules, and what is trained."""
    found: dict[str, Any] = {k: list(tensor.shape) for k, tensor in model.state_dict().items()}
    for name, module in model.named_modules():
        found[name or "the model"] = type(module).__name__
        for setting, value in vars(module).items():
            if isinstance(value, str | int | float) and setting != "training" and setting[0] != "_":
                found[f"{name}.{setting}".lstrip(".")] = value
    # The optimizer numbers these, and its state belongs to the numbers.
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    return found | {"the list of trained parameters": trained}


def fingerprint(data: NodeData) -> dict[str, Any]:
    """Sizes and checksums of everything in the data that a training depends on."""
    graph = data.graph
    x = to_numpy_or_scipy(data.x)
    features = [x]
    if is_sparse(data.x):
        x = x.copy()
        x.sum_duplicates()  # the same matrix may store its entries in any order
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


def check_same(path: Path, what: str, kept: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise unless the checkpoint was made by the same model, settings or data."""
    for name in [*wanted, *kept]:
        before, now = kept.get(name), wanted.get(name)
        if before != now:
            raise InputError(
                f"{path} is of another {what}: {name} is {before} there and {now} here; delete "
                f"it, or give another file"
            )


def random_state(device: torch.device) -> dict[str, Tensor]:
    states = {"random.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["random.cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_state(tensors: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(tensors["random.cpu"])
    if device.type == "cuda" and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"], device)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{name}": torch.as_tensor(value)
        for index, values in state.items()
        for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
