"""Training: models learn, the best epoch is kept, and interrupted trainings are resumed."""

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
import torch_geometric.nn as pyg
from torch_geometric.data import Data

import gpcanet.nn.training.loop
from gpcanet import Graph
from gpcanet.datasets import block_model
from gpcanet.nn import (
    GCN,
    GPCANet,
    NodeData,
    Settings,
    TrainedNetwork,
    TrainingDivergedError,
    gpca_init_,
    train,
    train_many,
)
from gpcanet.utils.progress import progress_to


@pytest.fixture(scope="module")
def data():
    return block_model(400, 2000, n_features=16, n_classes=4, homophily=0.9, seed=0)


def model(kind=GCN, seed=0, dropout=0.5):
    torch.manual_seed(seed)
    return kind(16, 16, 2, 4, dropout=dropout)


QUICK = Settings(epochs=40, lr=0.01)


@pytest.mark.parametrize("kind", [GCN, GPCANet, pyg.GCN, pyg.GraphSAGE, pyg.GAT])
@pytest.mark.parametrize("parts", [1, 3])
def test_models_learn_on_the_whole_graph_and_on_parts(data, kind, parts):
    net = model(kind)
    result = train(net, data, Settings(epochs=60, lr=0.01, parts=parts))
    assert result.epochs == 60
    assert result.curve[0]["epoch"] == 0
    assert result.accuracy["test"] > 0.8 > result.curve[0]["test"] + 0.1
    # The model has the weights of the best epoch, not of the last one.
    predicted = TrainedNetwork(net).predict(data)
    assert np.mean(predicted[data.test] == data.y[data.test]) == result.accuracy["test"]
    best = max(entry["validation"] for entry in result.curve[1:])
    assert result.accuracy["validation"] == best
    firsts = [entry["epoch"] for entry in result.curve[1:] if entry["validation"] == best]
    assert result.best_epoch == firsts[0]


def test_training_step_equals_plain_torch(data):
    ours, plain = model(dropout=0.0), model(pyg.GCN, dropout=0.0)
    plain.load_state_dict(ours.state_dict())
    train(ours, data, Settings(epochs=3, lr=0.01, later_of_ties=True))
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=5e-4)
    coo = data.graph.adjacency.tocoo()
    edges = torch.from_numpy(np.stack(coo.coords).astype(np.int64))
    x, y, rows = (torch.from_numpy(np.asarray(a)) for a in (data.X, data.y, data.train))
    states = []
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(plain(x, edges)[rows], y[rows]).backward()
        optimizer.step()
        states.append({key: value.clone() for key, value in plain.state_dict().items()})
    errors = [
        max(float((ours.state_dict()[key] - value).abs().max()) for key, value in state.items())
        for state in states
    ]
    assert min(errors) < 1e-5


def test_seed_makes_training_reproducible_and_keeps_the_callers_random_state(data):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    nets = [model(seed=1) for _ in range(3)]
    torch.manual_seed(5)
    results = [
        train(net, data, Settings(epochs=8, seed=seed))
        for net, seed in zip(nets, (3, 3, 4), strict=True)
    ]
    assert torch.equal(torch.rand(3), expected)
    curves = [[entry["loss"] for entry in result.curve[1:]] for result in results]
    assert curves[0] == curves[1] != curves[2]


def test_patience_and_evaluation_interval(data):
    result = train(model(), data, Settings(epochs=500, lr=0.05, patience=10, eval_every=5))
    assert result.epochs < 500
    assert result.epochs - result.best_epoch >= 10
    assert [entry["epoch"] for entry in result.curve] == list(range(0, result.epochs + 1, 5))


def test_first_or_last_of_tied_epochs_is_kept(data):
    found = {
        later: train(model(), data, Settings(epochs=80, lr=0.05, later_of_ties=later))
        for later in (False, True)
    }
    assert found[False].accuracy["validation"] == found[True].accuracy["validation"]
    assert found[False].best_epoch < found[True].best_epoch


def test_progress_is_reported(data):
    reports = []
    with progress_to(lambda *report: reports.append(report)):
        train(model(), data, Settings(epochs=3))
    assert reports == [("training", done, 3) for done in (1, 2, 3)]


def interrupt_after(net, n_passes):
    """Interrupt the training when the model has run this number of times in training mode."""
    passes = []

    def hook(module, _):
        passes.extend([1] * module.training)
        if len(passes) > n_passes:
            raise KeyboardInterrupt

    net.register_forward_pre_hook(hook)
    return net


@pytest.mark.parametrize("parts", [1, 3])
def test_interrupted_training_is_resumed_to_the_same_result(data, tmp_path, parts):
    settings = Settings(epochs=12, lr=0.01, parts=parts, parts_per_batch=min(2, parts))
    uninterrupted = interrupt_after(model(), 1000)  # models with hooks are called by torch
    expected = train(uninterrupted, data, settings)
    path = tmp_path / "training.safetensors"
    # The second interrupt is in the middle of an epoch if there are two batches per epoch.
    for seed, n_passes in ((0, 3), (9, 5)):
        net = interrupt_after(model(seed=seed), n_passes)
        with pytest.raises(KeyboardInterrupt):
            train(net, data, settings, checkpoint=path)
    resumed = interrupt_after(model(seed=10), 1000)  # its initial weights do not matter
    result = train(resumed, data, settings, checkpoint=path)
    assert [entry["loss"] for entry in result.curve[1:]] == [
        entry["loss"] for entry in expected.curve[1:]
    ]
    assert result.accuracy == expected.accuracy
    for key, value in resumed.state_dict().items():
        assert torch.equal(value, uninterrupted.state_dict()[key])
    # A finished training is continued only for more epochs.
    assert train(model(), data, settings, checkpoint=path).epochs == 12
    longer = replace(settings, epochs=14)
    assert train(model(), data, longer, checkpoint=path).epochs == 14


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_interrupted_training_of_a_plain_gcn_is_resumed_to_the_same_result(data, tmp_path, dropout):
    settings = Settings(epochs=12, lr=0.01)
    expected = train(model(dropout=dropout), data, settings)

    def interrupt(_, done, __):
        if done in (3, 8):
            raise KeyboardInterrupt

    path = tmp_path / "training.safetensors"
    for seed in (0, 9):
        with pytest.raises(KeyboardInterrupt), progress_to(interrupt):
            train(model(seed=seed, dropout=dropout), data, settings, checkpoint=path)
    result = train(model(seed=10, dropout=dropout), data, settings, checkpoint=path)
    assert result.curve == expected.curve
    assert result.best_epoch == expected.best_epoch


ENDLESS = """
import sys, torch
from gpcanet.datasets import block_model
from gpcanet.nn import GCN, Settings, train
data = block_model(400, 2000, n_features=16, n_classes=4, homophily=0.9, seed=0)
torch.manual_seed(0)
settings = Settings(epochs=100000, lr=0.01)
train(GCN(16, 16, 2, 4, dropout=0.5), data, settings, checkpoint=sys.argv[1], checkpoint_seconds=0)
"""


def test_killed_training_leaves_a_complete_checkpoint(data, tmp_path):
    path = tmp_path / "training.safetensors"
    for _ in range(3):
        before = path.stat().st_mtime_ns if path.exists() else 0
        process = subprocess.Popen([sys.executable, "-c", ENDLESS, path])
        while not path.exists() or path.stat().st_mtime_ns == before:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    result = train(model(), data, Settings(epochs=1, lr=0.01), checkpoint=path)
    assert result.epochs >= 3
    assert len(result.curve) == result.epochs + 1


def test_checkpoint_of_another_training_is_an_error(data, tmp_path):
    path = tmp_path / "training.safetensors"
    train(model(), data, QUICK, checkpoint=path)
    kept = path.read_bytes()
    torch.manual_seed(0)
    wider = GCN(16, 32, 2, 4)
    cases = [
        (wider, data, QUICK, r"in its model, convs\.0\.bias is \[16\] instead of \[32\]"),
        (model(), data, Settings(epochs=40, seed=2), "in its settings, seed is 0 instead of 2"),
        (model(dropout=0.1), data, QUICK, r"in its model, dropout\.p is 0\.5 instead of 0\.1"),
        (
            model(), block_model(400, 1000, n_features=16, n_classes=4), QUICK,
            "in its data, number of edges is",
        ),
    ]  # fmt: skip
    for net, nodes, settings, message in cases:
        with pytest.raises(ValueError, match=message):
            train(net, nodes, settings, checkpoint=path)
    path.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(
        ValueError, match=r"is not a training checkpoint of GPCANet, or is damaged: "
    ):
        train(model(), data, QUICK, checkpoint=path)
    from safetensors.torch import save_file

    save_file({"a": torch.ones(1)}, path)
    with pytest.raises(ValueError, match=r"is not a training checkpoint .*; give another file"):
        train(model(), data, QUICK, checkpoint=path)


def test_checkpoint_depends_on_labels_and_notes_but_not_on_lr_and_epochs(data, tmp_path):
    path = tmp_path / "training.safetensors"
    train(model(), data, QUICK, checkpoint=path, notes={"init": "gpca"})
    with pytest.raises(ValueError, match="in its notes, init is gpca instead of he"):
        train(model(), data, QUICK, checkpoint=path, notes={"init": "he"})
    swapped = replace(data, y=(data.y + 1) % 4)
    with pytest.raises(ValueError, match="in its data, labels is"):
        train(model(), swapped, QUICK, checkpoint=path, notes={"init": "gpca"})
    slower = replace(QUICK, lr=0.001, epochs=41)
    assert train(model(), data, slower, checkpoint=path, notes={"init": "gpca"}).epochs == 41


def test_diverged_training_keeps_the_best_weights_and_the_checkpoint(data, tmp_path):
    path, net = tmp_path / "training.safetensors", model()
    train(net, data, Settings(epochs=5, lr=0.01), checkpoint=path)
    good = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(TrainingDivergedError, match="in epoch 6; use a smaller lr than 1e\\+38"):
        train(net, data, Settings(epochs=9, lr=1e38), checkpoint=path)
    for name, value in net.state_dict().items():
        assert torch.equal(value, good[name])
    assert train(net, data, Settings(epochs=9, lr=0.001), checkpoint=path).epochs == 9


def test_too_little_memory_raises_memory_error(data):
    class Greedy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(16, 4)

        def forward(self, x, edge_index):
            return self.linear(x) + torch.empty(2**60).sum()

    with pytest.raises(MemoryError, match="allocate"):
        train(Greedy(), data, QUICK)


def test_checkpoint_in_a_missing_folder_is_an_error_before_training(data, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        train(model(), data, QUICK, checkpoint=tmp_path / "no" / "where.safetensors")


def test_full_disk_issues_a_warning_and_training_continues(data, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gpcanet.nn.training.loop, "write_checkpoint", full)
    with pytest.warns(UserWarning, match="could not be written .*No space left"):
        result = train(model(), data, QUICK, checkpoint=tmp_path / "a.safetensors")
    assert result.epochs == 40


def test_last_epoch_is_evaluated_and_patience_waits_for_evaluations(data):
    result = train(model(), data, Settings(epochs=7, eval_every=5))
    assert [entry["epoch"] for entry in result.curve] == [0, 5, 7]
    assert train(model(), data, Settings(epochs=3, eval_every=10)).accuracy
    settings = Settings(epochs=200, lr=0.05, eval_every=10, patience=15, later_of_ties=True)
    waited = train(model(), data, settings)
    assert waited.epochs % 10 == 0
    assert waited.epochs - waited.last_improvement >= 15


def test_parts_without_training_nodes_are_left_out(data):
    few = replace(data, train=data.train[:3])
    torch.manual_seed(0)
    net = GPCANet(16, 8, 1, 4, alpha=2.0, beta=0.2)
    result = train(net, few, Settings(epochs=2, parts=20))
    assert result.epochs == 2


def test_model_and_data_that_do_not_fit_are_errors(data):
    with pytest.raises(ValueError, match="the model does not accept 400 nodes with 16 features"):
        train(pyg.GCN(17, 8, 2, 4), data, QUICK)
    with pytest.raises(ValueError, match="the model has 3 outputs for 4 classes"):
        train(GCN(16, 8, 2, 3), data, QUICK)
    with pytest.raises(ValueError, match="x contains NaN"):
        train(model(), replace(data, X=np.full((400, 16), np.nan, np.float32)), QUICK)
    with pytest.raises(ValueError, match="occurs more than once in train, validation, test"):
        train(model(), replace(data, validation=data.train), QUICK)


def test_edge_weights_are_used_or_issue_a_warning(data):
    rng = np.random.default_rng(0)
    coo = data.graph.adjacency.tocoo()
    upper = coo.row < coo.col
    pairs = np.stack([coo.row[upper], coo.col[upper]])
    graph = Graph.from_edge_index(
        pairs, rng.uniform(0.1, 9, upper.sum()), each_once=True, n_nodes=400
    )
    weighted = replace(data, graph=graph)
    ours, theirs = (train(model(kind, dropout=0.0), d, Settings(epochs=3)) for kind, d in
                    ((GCN, weighted), (pyg.GCN, weighted)))  # fmt: skip
    losses = [[entry["loss"] for entry in result.curve[1:]] for result in (ours, theirs)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    with pytest.warns(
        UserWarning, match="GraphSAGE does not support edge weights; they are ignored"
    ):
        train(model(pyg.GraphSAGE), weighted, Settings(epochs=1))


def test_infinite_output_is_an_error(data):
    net = model()
    with torch.no_grad():
        net.convs[0].lin.weight.fill_(1e38)
    with pytest.raises(TrainingDivergedError, match="an output is not finite in epoch 0; use"):
        train(net, data, QUICK)


def test_pyg_data_is_accepted(data):
    coo = data.graph.adjacency.tocoo()
    edges = torch.from_numpy(np.stack(coo.coords).astype(np.int64))
    masks = {}
    for name, nodes in (("train", data.train), ("val", data.validation), ("test", data.test)):
        masks[f"{name}_mask"] = torch.zeros(400, dtype=torch.bool)
        masks[f"{name}_mask"][nodes] = True
    pyg_data = Data(
        x=torch.from_numpy(np.asarray(data.X)),
        edge_index=edges,
        y=torch.from_numpy(data.y),
        **masks,
    )
    results = [train(model(), d, Settings(epochs=5)) for d in (data, pyg_data)]
    losses = [[entry["loss"] for entry in result.curve[1:]] for result in results]
    np.testing.assert_allclose(*losses, rtol=1e-5)  # the loss sums the rows in another order
    several = pyg_data.clone()
    several.train_mask = several.train_mask[:, None].repeat(1, 3)
    with pytest.raises(ValueError, match=r"masks of shape \(400, 3\) contain several splits"):
        train(model(), several)
    as_ogb = pyg_data.clone()
    as_ogb.y = as_ogb.y[:, None]
    assert train(model(), as_ogb, Settings(epochs=5)).accuracy == results[1].accuracy
    with pytest.raises(ValueError, match="Data has no train_mask"):
        train(model(), Data(x=pyg_data.x, edge_index=edges, y=pyg_data.y))


@pytest.mark.parametrize("kind", [GCN, GPCANet, pyg.GCN, pyg.GraphSAGE])
def test_training_on_sparse_and_dense_features_is_equal(data, kind):
    X = np.where(np.asarray(data.X) > 5, data.X, 0).astype(np.float32)
    assert 0 < np.mean(X != 0) < 0.04
    results = [
        train(model(kind), replace(data, X=features), Settings(epochs=5, parts=2))
        for features in (X, sp.csr_array(X))
    ]
    assert NodeData.of(replace(data, X=sp.csr_array(X))).x.layout == torch.sparse_csr
    losses = [[entry["loss"] for entry in result.curve[1:]] for result in results]
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_deep_model_learns_faster_with_gpca_weights(data):
    nodes = NodeData.of(data)
    torch.manual_seed(0)
    nets = [GCN(16, 32, 10, 4) for _ in range(2)]
    gpca_init_(nets[1], nodes.x, nodes.graph)
    losses = [train(net, nodes, Settings(epochs=15, lr=0.01)).curve[-1]["loss"] for net in nets]
    assert losses[1] < losses[0]


@pytest.mark.parametrize("kind", [GCN, pyg.GraphSAGE])
def test_lazy_model_is_trained_with_a_checkpoint(data, kind, tmp_path):
    def lazy():
        torch.manual_seed(0)
        return kind(-1, 8, 2, 4)

    path = tmp_path / "lazy.safetensors"
    first = train(lazy(), data, Settings(epochs=2), checkpoint=path)
    resumed = train(lazy(), data, Settings(epochs=4), checkpoint=path)
    whole = train(lazy(), data, Settings(epochs=4))
    assert first.epochs == 2
    assert resumed.curve == whole.curve


@pytest.mark.parametrize("kind", [GCN, pyg.GraphSAGE])
def test_training_where_gradients_are_disabled(data, kind):
    with torch.no_grad():
        result = train(model(kind), data, QUICK)
        several = train_many([model(kind), model(kind)], data, QUICK)
        assert not torch.is_grad_enabled()
    assert result.curve == train(model(kind), data, QUICK).curve
    assert [other.curve for other in several] == [result.curve] * 2


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of torch.compile
@pytest.mark.parametrize("kind", [GCN, GPCANet])
def test_compiled_model_is_trained_to_the_same_weights(data, kind):
    settings, models = Settings(epochs=3, lr=0.01), [model(kind), model(kind)]
    train(models[0], data, settings)
    train(torch.compile(models[1], backend="eager"), data, settings)
    for one, other in zip(*(net.parameters() for net in models), strict=True):
        torch.testing.assert_close(one, other)


def test_caches_of_the_whole_graph_are_not_used_for_parts(data):
    settings = Settings(epochs=1, parts=3)
    with pytest.raises(ValueError, match="cached=True keep the edges of one graph, but parts > 1"):
        train(pyg.SGConv(16, 4, K=2, cached=True), data, settings)
    assert train(GCN(16, 16, 2, 4, cached=True), data, settings).epochs == 1


def test_state_that_cannot_be_loaded_is_an_error_before_training(data):
    net = model()
    net.register_buffer("positions", torch.arange(5.0).expand(3, 5))
    calls = []
    net.register_forward_hook(lambda *_: calls.append(1))
    with pytest.raises(ValueError, match="the model cannot load its own state_dict"):
        train(net, data, QUICK)
    assert len(calls) == 1
