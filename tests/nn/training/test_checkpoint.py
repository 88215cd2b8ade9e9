"""Checkpoints: fingerprints of the data, damaged files, and locks."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from properties import examples

from gpcanet import GPCA, Graph
from gpcanet.datasets import block_model
from gpcanet.errors import UserError
from gpcanet.estimators.serialization import save_model
from gpcanet.nn import GCN, NodeData, Settings, train
from gpcanet.nn.tensors import to_csr_tensor
from gpcanet.nn.training.checkpoint import fingerprint, read_checkpoint, write_checkpoint

# -- fingerprints -----------------------------------------------------------------------------

N, D = 12, 5


def values(shape, elements):
    return st.lists(
        elements, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))
    ).map(lambda drawn: np.array(drawn).reshape(shape))  # fmt: skip


MATRICES = values((N, D), st.sampled_from([0.0, 0.0, 1.0, 2.5])).map(lambda X: X.astype("f4"))
WEIGHTS = values((N, N), st.sampled_from([0.0, 0.0, 1.0, 2.0]))


def node_data(X, A, y, members, layout):
    x = torch.from_numpy(X)
    if layout is not torch.strided:
        x = to_csr_tensor(sp.csr_array(X)) if layout is torch.sparse_csr else x.to_sparse_coo()
    split = [torch.from_numpy(np.flatnonzero(members == part)) for part in range(3)]
    return NodeData(x, Graph(np.triu(A, 1) + np.triu(A, 1).T), torch.from_numpy(y), *split)


data_parts = {
    "X": MATRICES,
    "A": WEIGHTS,
    "y": values((N,), st.integers(-1, 2)),
    "members": values((N,), st.integers(0, 3)),
}


@examples(40)
@given(
    parts=st.fixed_dictionaries(data_parts),
    layout=st.sampled_from([torch.strided, torch.sparse_csr, torch.sparse_coo]),
)
def test_equal_data_have_equal_fingerprints(parts, layout):
    first, second = (
        node_data(**{name: part.copy() for name, part in parts.items()}, layout=layout)
        for _ in range(2)
    )
    assert fingerprint(first) == fingerprint(second)
    if layout is torch.sparse_csr:  # the same matrix with its entries in another order
        matrix = sp.csr_array(parts["X"])
        for row in range(N):
            entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
            matrix.indices[entries] = matrix.indices[entries][::-1].copy()
            matrix.data[entries] = matrix.data[entries][::-1].copy()
        assert fingerprint(replace(first, x=to_csr_tensor(matrix))) == fingerprint(first)


@examples(40)
@given(
    parts=st.fixed_dictionaries(data_parts),
    name=st.sampled_from(list(data_parts)),
    layout=st.sampled_from([torch.strided, torch.sparse_csr, torch.sparse_coo]),
    draw=st.data(),
)
def test_changed_data_have_another_fingerprint(parts, name, layout, draw):
    before = node_data(**parts, layout=layout)
    after = node_data(**parts | {name: draw.draw(data_parts[name])}, layout=layout)
    tensors = ("y", "train", "validation", "test")
    same = all(torch.equal(getattr(before, t), getattr(after, t)) for t in tensors)
    same &= torch.equal(before.x.to_dense(), after.x.to_dense()) and before.graph == after.graph
    assume(not same)
    assert fingerprint(before) != fingerprint(after)


@examples(40)
@given(X=MATRICES, order=st.permutations(range(D)), row=st.integers(0, N - 1))
def test_moved_entries_of_sparse_features_have_another_fingerprint(X, order, row):
    """The stored values are the same; only the positions change."""
    data = block_model(N, 20, n_features=D, n_classes=2)
    split = [torch.tensor([i]) for i in range(3)]
    nodes = NodeData(to_csr_tensor(sp.csr_array(X)), data.graph, torch.zeros(N).long(), *split)
    moved = X.copy()
    moved[row] = X[row, list(order)]
    for other in (X[:, list(order)], moved, np.roll(X, 1, axis=0)):
        tensor = to_csr_tensor(sp.csr_array(other))
        same = np.array_equal(X, other)
        assert (fingerprint(nodes) == fingerprint(replace(nodes, x=tensor))) == same
    wider = to_csr_tensor(sp.csr_array(np.hstack([X, np.zeros((N, 1), "f4")])))
    assert fingerprint(nodes) != fingerprint(replace(nodes, x=wider))
    assert fingerprint(nodes) != fingerprint(replace(nodes, x=nodes.x.double()))


# -- damaged files -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return block_model(60, 200, n_features=6, n_classes=3, homophily=0.9, seed=0)


def model(seed=0):
    torch.manual_seed(seed)
    return GCN(6, 4, 2, 3, dropout=0.5)


SHORT, LONG = Settings(epochs=3, lr=0.01), Settings(epochs=5, lr=0.01)


@pytest.fixture(scope="module")
def content(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "training.safetensors"
    train(model(), data, SHORT, checkpoint=path)
    return path.read_bytes()


def resume(data, path):
    """Weights and curve of a training that is resumed; its own initial weights are different."""
    net = model(seed=9)
    result = train(net, data, LONG, checkpoint=path)
    return net.state_dict(), result.curve


@pytest.fixture(scope="module")
def undamaged(data, content, tmp_path_factory):
    path = tmp_path_factory.mktemp("undamaged") / "training.safetensors"
    path.write_bytes(content)
    return resume(data, path)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.integers(0, 10**6), change=st.integers(1, 255))
def test_changed_bytes_give_an_error_or_the_same_training(
    tmp_path, data, content, undamaged, share, change
):
    damaged = bytearray(content)
    damaged[share * len(damaged) // (10**6 + 1)] ^= change
    path = tmp_path / "t.safetensors"
    path.write_bytes(damaged)
    try:
        weights, curve = resume(data, path)
    except UserError as error:
        text = str(error)
        assert text.startswith(f"{path} is ")
        assert text.endswith("; give another file, or delete it to restart the training")
        assert "\n" not in text
        assert path.read_bytes() == damaged
    else:
        assert curve == undamaged[1]
        assert all(torch.equal(weights[name], undamaged[0][name]) for name in weights)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_flipped_bit_in_an_array_is_an_error(tmp_path, content, share, bit):
    begin = 8 + int.from_bytes(content[:8], "little")
    damaged = bytearray(content)
    damaged[begin + share * (len(content) - begin) // (10**6 + 1)] ^= 1 << bit
    path = tmp_path / "t.safetensors"
    path.write_bytes(damaged)
    with pytest.raises(UserError, match=r"is damaged: its content does not match its checksum; g"):
        read_checkpoint(path)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.integers(0, 10**6))
def test_truncated_checkpoint_is_an_error(tmp_path, content, share):
    path = tmp_path / "t.safetensors"
    path.write_bytes(content[: share * len(content) // (10**6 + 1)])
    with pytest.raises(
        UserError, match=r"is not a training checkpoint of GPCANet, or is damaged: .*; g"
    ):
        read_checkpoint(path)


def test_saved_estimator_is_not_a_checkpoint(tmp_path, data):
    path = tmp_path / "model.safetensors"
    save_model(GPCA(2).fit(data.X, graph=data.graph), path)
    with pytest.raises(UserError, match="is not a training checkpoint but a 'GPCA' of GPCANet"):
        train(model(), data, SHORT, checkpoint=path)


def test_tensors_of_every_dtype_and_shape_are_restored(tmp_path):
    types = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    tensors = {
        f"{dtype} {shape}": torch.ones(shape, dtype=dtype)
        for dtype in types for shape in ((), (0,), (2, 3), (0, 3))
    }  # fmt: skip
    write_checkpoint(tmp_path / "t.safetensors", tensors, {"a": [1]})
    found, notes = read_checkpoint(tmp_path / "t.safetensors")
    assert notes == {"a": [1]}
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_notes_are_compared_as_json_and_checked_before_training(tmp_path, data):
    path, notes = tmp_path / "t.safetensors", {"widths": (4, 4), "by layer": {10: "a", 9: "b"}}
    train(model(), data, SHORT, checkpoint=path, notes=notes)
    assert train(model(), data, LONG, checkpoint=path, notes=notes).epochs == 5
    with pytest.raises(TypeError, match=r"notes cannot be written as JSON .*; give text, finite"):
        train(model(), data, SHORT, notes={"model": model()})


def test_checkpoint_of_unfrozen_model_does_not_fit_frozen_model(tmp_path, data):
    path = tmp_path / "t.safetensors"
    train(model(), data, SHORT, checkpoint=path)
    frozen = model()
    frozen.convs[0].requires_grad_(False)
    with pytest.raises(UserError, match="in its model, the list of trained parameters is"):
        train(frozen, data, LONG, checkpoint=path)


# -- locks ------------------------------------------------------------------------------------

ENDLESS = """
import sys, torch
from gpcanet.datasets import block_model
from gpcanet.nn import GCN, Settings, train
data = block_model(60, 200, n_features=6, n_classes=3, homophily=0.9, seed=0)
torch.manual_seed(0)
settings = Settings(epochs=10**6, lr=0.01)
train(GCN(6, 4, 2, 3, dropout=0.5), data, settings, checkpoint=sys.argv[1], checkpoint_seconds=0)
"""


def test_checkpoint_is_locked_until_the_training_process_ends(data, tmp_path):
    path = tmp_path / "t.safetensors"
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, path])
    try:
        while not path.exists():
            assert process.poll() is None
            time.sleep(0.01)
        with pytest.raises(UserError) as caught:
            train(model(), data, SHORT, checkpoint=path)
        assert str(caught.value) == (
            f"{path} is in use by another training; wait until that ends, or give another file"
        )
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    # The lock is released with its process, and the checkpoint can be resumed.
    assert train(model(), data, SHORT, checkpoint=path).epochs >= 1


def test_failed_training_releases_its_checkpoint(data, tmp_path):
    path = tmp_path / "t.safetensors"
    with pytest.raises(UserError, match="the model has 2 outputs for 3 classes"):
        train(GCN(6, 4, 2, 2), data, SHORT, checkpoint=path)
    assert train(model(), data, SHORT, checkpoint=path).epochs == 3
