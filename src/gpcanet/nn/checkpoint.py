"""Where a training stands, in one safetensors file that is written whole or not at all."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..atomic import whole_file
from ..errors import InputError
from ..outcome import SPLIT
from .data import NodeData
from .tensors import values_of

FORMAT = "gpcanet training 1"


def write_checkpoint(path: Path, tensors: dict[str, Tensor], notes: dict[str, Any]) -> None:
    """Tensors and JSON under one name, in place of what was there."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"format": FORMAT, "notes": json.dumps(notes)}
    with whole_file(path, overwrite=True) as file:
        file.write(save(whole, metadata))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What was written, or one sentence on why it cannot be had."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise InputError(
            f"{path} is not a whole checkpoint ({error}); delete it to train from the start"
        ) from None
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path} holds no training of this version; give another file")
    return tensors, json.loads(metadata["notes"])


def architecture(model: torch.nn.Module) -> dict[str, Any]:
    """Names and shapes of all that a model holds, kinds of its modules, and their settings."""
    found: dict[str, Any] = {k: list(tensor.shape) for k, tensor in model.state_dict().items()}
    for name, module in model.named_modules():
        found[name or "the model"] = type(module).__name__
        for setting, value in vars(module).items():
            if isinstance(value, str | int | float) and setting != "training" and setting[0] != "_":
                found[f"{name}.{setting}".lstrip(".")] = value
    return found


def fingerprint(data: NodeData) -> dict[str, Any]:
    """Sizes, and checksums of all that a training depends on."""
    parts = {"features": values_of(data.x), "labels": data.y}
    parts |= {name: getattr(data, name) for name in SPLIT}
    arrays = {name: part.cpu().contiguous().numpy() for name, part in parts.items()}
    arrays |= {"edges": data.graph.indices}
    if data.graph.weights is not None:
        arrays["weights"] = data.graph.weights
    sizes = {"nodes": data.graph.n_nodes, "number of edges": data.graph.n_edges}
    return sizes | {name: zlib.crc32(memoryview(array).cast("B")) for name, array in arrays.items()}


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
