"""The training loop: it learns, selects by validation, and resumes to the same end."""

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
    TrainingDivergedError,
    gpca_init_,
    partition,
    train,
)
from gpcanet.nn.training.loop import probabilities_of
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
def test_models_learn_whole_and_in_parts(data, kind, parts):
    net = model(kind)
    result = train(net, data, Settings(epochs=60, lr=0.01, parts=parts))
    assert result.epochs == 60
    assert result.curve[0]["epoch"] == 0
    assert result.accuracy["test"] > 0.8 > result.curve[0]["test"] + 0.1
    # It ends with the weights of the best epoch, not of the last one.
    predicted = probabilities_of(net, data).argmax(1)
    assert np.mean(predicted[data.test] == data.y[data.test]) == result.accuracy["test"]
    best = max(look["validation"] for look in result.curve[1:])
    assert result.accuracy["validation"] == best
    firsts = [look["epoch"] for look in result.curve[1:] if look["validation"] == best]
    assert result.best_epoch == firsts[0]


def test_a_full_step_is_that_of_plain_torch(data):
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


def test_the_same_seed_gives_the_same_training_and_leaves_the_callers_numbers(data):
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
    curves = [[look["loss"] for look in result.curve[1:]] for result in results]
    assert curves[0] == curves[1] != curves[2]


def test_patience_and_looks(data):
    result = train(model(), data, Settings(epochs=500, lr=0.05, patience=10, eval_every=5))
    assert result.epochs < 500
    assert result.epochs - result.best_epoch >= 10
    assert [look["epoch"] for look in result.curve] == list(range(0, result.epochs + 1, 5))


def test_of_ties_the_first_or_the_last_is_kept(data):
    found = {
        later: train(model(), data, Settings(epochs=80, lr=0.05, later_of_ties=later))
        for later in (False, True)
    }
    assert found[False].accuracy["validation"] == found[True].accuracy["validation"]
    assert found[False].best_epoch < found[True].best_epoch


def test_progress_is_reported(data):
    told = []
    with progress_to(lambda *report: told.append(report)):
        train(model(), data, Settings(epochs=3))
    assert told == [("training", done, 3) for done in (1, 2, 3)]


@pytest.mark.parametrize("parts", [1, 3])
def test_a_stopped_training_goes_on_to_the_same_end(data, tmp_path, monkeypatch, parts):
    settings = Settings(epochs=12, lr=0.01, parts=parts, parts_per_batch=min(2, parts))
    whole = model()
    expected = train(whole, data, settings)
    path, net = tmp_path / "training.safetensors", model()
    for stop in (3, 7):
        step = gpcanet.nn.training.loop._Loop._step

        def interrupted(self, batch, epoch, stop=stop, step=step):
            if epoch == stop:
                raise KeyboardInterrupt
            return step(self, batch, epoch)

        with monkeypatch.context() as patch:
            patch.setattr(gpcanet.nn.training.loop._Loop, "_step", interrupted)
            with pytest.raises(KeyboardInterrupt):
                train(model(seed=9), data, settings, checkpoint=path) if stop == 7 else train(
                    net, data, settings, checkpoint=path
                )
    again = model(seed=10)  # whatever it was initialised to
    result = train(again, data, settings, checkpoint=path)
    assert [look["loss"] for look in result.curve[1:]] == [
        look["loss"] for look in expected.curve[1:]
    ]
    assert result.accuracy == expected.accuracy
    for key, value in again.state_dict().items():
        assert torch.equal(value, whole.state_dict()[key])
    # A finished one is not trained again, unless for longer.
    assert train(model(), data, settings, checkpoint=path).epochs == 12
    longer = replace(settings, epochs=14)
    assert train(model(), data, longer, checkpoint=path).epochs == 14


KILLED = """
import sys, torch
import gpcanet.nn.training as t
from gpcanet.datasets import block_model
from gpcanet.nn import GCN, Settings, train
t.CHECKPOINT_SECONDS = 0.0
data = block_model(400, 2000, n_features=16, n_classes=4, homophily=0.9, seed=0)
torch.manual_seed(0)
net = GCN(16, 16, 2, 4, dropout=0.5)
print("started", flush=True)
train(net, data, Settings(epochs=100000, lr=0.01), checkpoint=sys.argv[1])
"""


def test_a_killed_training_leaves_a_whole_checkpoint(data, tmp_path):
    path = tmp_path / "training.safetensors"
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE)
        process.stdout.readline()
        before = path.stat().st_mtime_ns if path.exists() else 0
        while not path.exists() or path.stat().st_mtime_ns == before:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    result = train(model(), data, Settings(epochs=1, lr=0.01), checkpoint=path)
    assert result.epochs >= 3
    assert len(result.curve) == result.epochs + 1


def test_checkpoints_of_something_else_are_refused_and_stay(data, tmp_path):
    path = tmp_path / "training.safetensors"
    train(model(), data, QUICK, checkpoint=path)
    kept = path.read_bytes()
    torch.manual_seed(0)
    wider = GCN(16, 32, 2, 4)
    cases = [
        (wider, data, QUICK, r"another model: convs\.0\.bias is \[16\] there and \[32\] here"),
        (model(), data, Settings(epochs=40, seed=2), "is of another settings: seed is 0 there"),
        (model(dropout=0.1), data, QUICK, r"another model: dropout\.p is 0\.5 there and 0\.1 here"),
        (
            model(), block_model(400, 1000, n_features=16, n_classes=4), QUICK,
            "is of another data: number of edges is",
        ),
    ]  # fmt: skip
    for net, nodes, settings, message in cases:
        with pytest.raises(ValueError, match=message):
            train(net, nodes, settings, checkpoint=path)
    path.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(ValueError, match=r"is no training checkpoint of GPCANet, or damaged: "):
        train(model(), data, QUICK, checkpoint=path)
    from safetensors.torch import save_file

    save_file({"a": torch.ones(1)}, path)
    with pytest.raises(ValueError, match=r"is no training checkpoint .*; delete it to train"):
        train(model(), data, QUICK, checkpoint=path)


def test_other_labels_or_another_start_are_other_trainings(data, tmp_path):
    path = tmp_path / "training.safetensors"
    train(model(), data, QUICK, checkpoint=path, notes={"init": "gpca"})
    with pytest.raises(ValueError, match="of another start: init is gpca there and he here"):
        train(model(), data, QUICK, checkpoint=path, notes={"init": "he"})
    swapped = replace(data, y=(data.y + 1) % 4)
    with pytest.raises(ValueError, match="of another data: labels is"):
        train(model(), swapped, QUICK, checkpoint=path, notes={"init": "gpca"})
    slower = replace(QUICK, lr=0.001, epochs=41)
    assert train(model(), data, slower, checkpoint=path, notes={"init": "gpca"}).epochs == 41


def test_what_diverges_is_never_chosen_nor_written_over_what_was_good(data, tmp_path):
    path, net = tmp_path / "training.safetensors", model()
    train(net, data, Settings(epochs=5, lr=0.01), checkpoint=path)
    good = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(TrainingDivergedError, match="in epoch 6; use a smaller lr than 1e\\+38"):
        train(net, data, Settings(epochs=9, lr=1e38), checkpoint=path)
    for name, value in net.state_dict().items():
        assert torch.equal(value, good[name])
    assert train(net, data, Settings(epochs=9, lr=0.001), checkpoint=path).epochs == 9


def test_a_checkpoint_that_cannot_be_written_is_told_before_the_work(data, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; make it first"):
        train(model(), data, QUICK, checkpoint=tmp_path / "no" / "where.safetensors")


def test_a_disk_that_fills_up_costs_the_checkpoint_and_nothing_else(data, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gpcanet.nn.training.loop, "write_checkpoint", full)
    with pytest.warns(UserWarning, match="could not be written .*No space left"):
        result = train(model(), data, QUICK, checkpoint=tmp_path / "a.safetensors")
    assert result.epochs == 40


def test_the_last_epoch_is_looked_at_and_patience_waits_for_looks(data):
    result = train(model(), data, Settings(epochs=7, eval_every=5))
    assert [look["epoch"] for look in result.curve] == [0, 5, 7]
    assert train(model(), data, Settings(epochs=3, eval_every=10)).accuracy
    settings = Settings(epochs=200, lr=0.05, eval_every=10, patience=15, later_of_ties=True)
    waited = train(model(), data, settings)
    assert waited.epochs % 10 == 0
    assert waited.epochs - waited.rose >= 15


def test_parts_without_anybody_to_learn_from_are_left_out(data):
    few = replace(data, train=data.train[:3])
    torch.manual_seed(0)
    net = GPCANet(16, 8, 1, 4, alpha=2.0, beta=0.2)
    result = train(net, few, Settings(epochs=2, parts=20))
    assert result.epochs == 2


def test_models_and_data_that_do_not_fit(data):
    with pytest.raises(ValueError, match="the model does not take 400 nodes with 16 features"):
        train(pyg.GCN(17, 8, 2, 4), data, QUICK)
    with pytest.raises(ValueError, match="the model has 3 outputs for 4 classes"):
        train(GCN(16, 8, 2, 3), data, QUICK)
    with pytest.raises(ValueError, match="x has values that are NaN"):
        train(model(), replace(data, X=np.full((400, 16), np.nan, np.float32)), QUICK)
    with pytest.raises(ValueError, match="is more than once in train, validation, test"):
        train(model(), replace(data, validation=data.train), QUICK)


def test_weights_reach_models_that_take_them_and_others_are_told(data):
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
    losses = [[look["loss"] for look in result.curve[1:]] for result in (ours, theirs)]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    with pytest.warns(UserWarning, match="GraphSAGE takes no edge weights; they are left out"):
        train(model(pyg.GraphSAGE), weighted, Settings(epochs=1))


def test_a_loss_that_is_no_number_stops_at_once(data):
    net = model()
    with torch.no_grad():
        net.convs[0].lin.weight.fill_(1e38)
    with pytest.raises(
        TrainingDivergedError, match="an output is no finite number in epoch 0; use"
    ):
        train(net, data, QUICK)


def test_pyg_data_is_taken(data):
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
    losses = [[look["loss"] for look in result.curve[1:]] for result in results]
    np.testing.assert_allclose(*losses, rtol=1e-5)  # rows of the loss come in another order
    several = pyg_data.clone()
    several.train_mask = several.train_mask[:, None].repeat(1, 3)
    with pytest.raises(ValueError, match=r"masks of shape \(400, 3\) are several splits"):
        train(model(), several)
    as_ogb = pyg_data.clone()
    as_ogb.y = as_ogb.y[:, None]
    assert train(model(), as_ogb, Settings(epochs=5)).accuracy == results[1].accuracy
    with pytest.raises(ValueError, match="Data has no train_mask"):
        train(model(), Data(x=pyg_data.x, edge_index=edges, y=pyg_data.y))


def test_bad_data(data):
    nodes = NodeData.of(data)
    with pytest.raises(ValueError, match="no node for validation"):
        NodeData(nodes.x, nodes.graph, nodes.y, nodes.train, nodes.test[:0], nodes.test).check()
    with pytest.raises(
        ValueError, match=r"shape \(399, 16\) and labels of shape \(400,\) for 400 nodes"
    ):
        NodeData(nodes.x[1:], nodes.graph, nodes.y, nodes.train, nodes.test, nodes.test).check()
    unknown = nodes.y.clone()
    unknown[nodes.train[0]] = -1
    with pytest.raises(ValueError, match="a train node has no label"):
        NodeData(nodes.x, nodes.graph, unknown, nodes.train, nodes.test, nodes.test).check()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"lr": -1.0}, "lr=-1.0 must be finite and at least 0"),
        ({"parts_per_batch": 2}, "parts_per_batch=2 of parts=1"),
        ({"patience": 0}, "patience=0 must be at least 1"),
        ({"seed": -1}, "seed=-1 must be in"),
        ({"device": "gpu"}, "device='gpu' cannot be used here"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Settings(**settings)


@pytest.mark.parametrize("kind", [GCN, GPCANet, pyg.GCN, pyg.GraphSAGE])
def test_sparse_features_are_trained_on_as_dense_ones(data, kind):
    X = np.where(np.asarray(data.X) > 5, data.X, 0).astype(np.float32)
    assert 0 < np.mean(X != 0) < 0.04
    results = [
        train(model(kind), replace(data, X=features), Settings(epochs=5, parts=2))
        for features in (X, sp.csr_array(X))
    ]
    assert NodeData.of(replace(data, X=sp.csr_array(X))).x.layout == torch.sparse_csr
    losses = [[look["loss"] for look in result.curve[1:]] for result in results]
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_gpca_init_starts_ahead_of_random_weights(data):
    """The first look says it: a deep network passes features on instead of mixing them up."""
    nodes = NodeData.of(data)
    torch.manual_seed(0)
    nets = [GCN(16, 32, 10, 4) for _ in range(2)]
    gpca_init_(nets[1], nodes.x, nodes.graph)
    losses = [train(net, nodes, Settings(epochs=15, lr=0.01)).curve[-1]["loss"] for net in nets]
    assert losses[1] < losses[0]


def test_parts_are_all_nodes_once_and_the_same_each_time(data):
    parts, again = (partition(data.graph, 5, seed=1) for _ in range(2))
    assert len(parts) == 5
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(400))
    for part, same in zip(parts, again, strict=True):
        np.testing.assert_array_equal(part, same)
    assert max(map(len, parts)) < 1.2 * 80
    inside = sum(data.graph.subgraph(part).n_edges for part in parts)
    assert inside > 1.5 * data.graph.n_edges / 5  # what random parts would have
    with pytest.raises(ValueError, match=r"n_parts=0 must be in \[1, 400\]"):
        partition(data.graph, 0)
