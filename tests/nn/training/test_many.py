"""Several trainings at a time give the results of single ones."""

import copy
import re

import pytest
import torch
import torch_geometric.nn as pyg

from gpcanet.datasets import block_model
from gpcanet.errors import UserError
from gpcanet.linalg import parallel
from gpcanet.nn import GCN, Settings, train, train_many
from gpcanet.utils.progress import progress_to


@pytest.fixture(scope="module")
def data():
    return block_model(200, 800, n_features=8, n_classes=3, homophily=0.9, seed=0)


@pytest.fixture(params=[1, 2], autouse=True)
def n_threads(request, monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: request.param)


def make_models(kind=GCN, n=3, dropout=0.5):
    torch.manual_seed(0)
    return [kind(8, 16, 3, 3, dropout=dropout) for _ in range(n)]


SETTINGS = [
    Settings(epochs=12, lr=0.02, seed=1),
    Settings(epochs=30, lr=0.05, weight_decay=0.0, patience=3, seed=2),
    Settings(epochs=9, lr=0.01, eval_every=4, seed=3),
]


@pytest.mark.parametrize("kind", [GCN, pyg.GraphSAGE])
def test_results_and_weights_equal_those_of_single_trainings(data, kind):
    models = make_models(kind)
    alone = copy.deepcopy(models)
    state = torch.get_rng_state()
    results = train_many(models, data, SETTINGS)
    assert torch.equal(torch.get_rng_state(), state)
    for model, result, other, settings in zip(models, results, alone, SETTINGS, strict=True):
        expected = train(other, data, settings)
        assert result.curve == expected.curve
        assert (result.best_epoch, result.epochs) == (expected.best_epoch, expected.epochs)
        assert result.diverged is None
        for name, value in model.state_dict().items():
            assert torch.equal(value, other.state_dict()[name])


def test_results_of_lazy_models_equal_those_of_single_trainings(data):
    models = [GCN(-1, 16, 3, 3, dropout=0.5) for _ in SETTINGS]
    alone = copy.deepcopy(models)
    results = train_many(models, data, SETTINGS)
    for result, other, settings in zip(results, alone, SETTINGS, strict=True):
        assert result.curve == train(other, data, settings).curve


@pytest.mark.parametrize("kind", [GCN, pyg.GraphSAGE])
def test_diverged_training_does_not_stop_the_others(data, kind):
    models = make_models(kind)
    settings = [Settings(epochs=6), Settings(epochs=6, lr=1e37), Settings(epochs=6)]
    results = train_many(models, data, settings)
    assert [result.diverged is None for result in results] == [True, False, True]
    assert re.search(r"in epoch \d; use a smaller lr than 1e\+37", results[1].diverged)
    assert results[1].curve[0]["epoch"] == 0
    assert results[0].epochs == results[2].epochs == 6


def test_one_settings_for_all_and_defaults(data):
    models = make_models(n=2, dropout=0.0)
    models[1].load_state_dict(models[0].state_dict())
    first, second = train_many(models, data, Settings(epochs=5))
    assert first.curve == second.curve
    assert train_many([], data) == []


def test_progress_counts_the_epochs_of_all_models(data):
    reports = []
    with progress_to(lambda *report: reports.append(report)):
        train_many(make_models(), data, SETTINGS)
    done = [report[1] for report in reports]
    assert done == sorted(done)
    assert reports[-1] == ("training", 12 + 30 + 9, 12 + 30 + 9)


def test_wrong_lists_are_refused(data):
    models = make_models()
    for call, message in (
        (lambda: train_many(models, data, SETTINGS[:2]), "3 models and 2 settings; give one"),
        (lambda: train_many(models[:1] * 2, data), "a model occurs more than once in models; copy"),
        (lambda: train_many(["gcn"], data), "model is a str; give a torch.nn.Module"),
    ):
        with pytest.raises(UserError, match=message):
            call()
