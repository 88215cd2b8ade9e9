"""Wrong input gives an error of one sentence, never an error of torch."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.nn as pyg
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from torch_geometric.data import Data

from gpcanet.datasets import block_model
from gpcanet.errors import UserError
from gpcanet.nn import (
    GCN,
    GCNConv,
    GPCAConv,
    GPCANet,
    NodeData,
    Settings,
    effective_rank,
    gpca_init_,
    train,
    train_many,
)
from gpcanet.nn.training.data import to_class_codes

DATA = block_model(40, 120, n_features=5, n_classes=3, seed=0)
NODES = NodeData.of(DATA)
X, EDGES, Y = NODES.x, NODES.edge_index, NODES.y
NAN = float("nan")
WRONG_WIDTH = sp.random_array((40, 200), density=0.02, rng=np.random.default_rng(0))


def assert_refused(action, message):
    with pytest.raises(UserError, match=message) as caught:
        action()
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)  # followed by what to do


# -- labels -----------------------------------------------------------------------------------

CODES = st.lists(st.integers(-1, 50), min_size=1, max_size=30)


@examples(100)
@given(
    codes=CODES, kind=st.sampled_from(["int8", "int32", "int64", "float16", "float32", "float64"])
)
def test_integral_values_of_any_dtype_are_class_codes(codes, kind):
    values = np.array(codes, kind)
    for y in (values, torch.from_numpy(values), torch.from_numpy(values)[:, None]):
        found = to_class_codes(y)
        assert found.dtype == torch.int64
        assert found.tolist() == codes


@examples(100)
@given(codes=CODES, where=st.integers(0, 29), value=st.floats(width=32))
def test_non_integral_labels_are_errors(codes, where, value):
    y = np.array(codes, np.float32)
    y[where % len(y)] = value
    if np.isfinite(value) and value == np.floor(value):
        return
    message = f"at node {where % len(y)}, .*does not support node regression, so give integer"
    assert_refused(lambda: to_class_codes(y), message)
    assert_refused(lambda: to_class_codes(torch.from_numpy(y)), message)


def test_train_accepts_integral_floats_and_bools_as_labels():
    def curve(**parts):
        torch.manual_seed(0)
        return train(GCN(5, 4, 2, 3), replace(NODES, **parts), Settings(epochs=2)).curve

    assert curve(y=Y.double()) == curve()
    assert curve(y=(Y > 0)) == curve(y=(Y > 0).long())


# -- training ---------------------------------------------------------------------------------


def mask(positions):
    found = torch.zeros(40, dtype=torch.bool)
    found[positions] = True
    return found


MASKS = {"train": NODES.train, "val": NODES.validation, "test": NODES.test}
PYG = {f"{name}_mask": mask(nodes) for name, nodes in MASKS.items()}
PYG |= {"x": X, "edge_index": EDGES, "y": Y, "num_nodes": 40}

PYG_DATA = {
    "fractions": ({"y": Y + 0.5}, r"y is \S+ at node 0, which is not a class code; train does"),
    "NaN labels": ({"y": Y * NAN}, "y is nan at node 0"),
    "one-hot": ({"y": torch.eye(3)[Y]}, r"y of shape \(40, 3\) has several values per node; give"),
    "complex": ({"y": Y * 1j}, "y holds complex numbers"),
    "no labels": ({"y": None}, "the data have no y; give one class code per node"),
    "few labels": ({"y": Y[:9]}, r"labels of shape \(9,\) for 40 nodes"),
    "positions for a mask": ({"train_mask": NODES.train}, r"a mask has shape \(\d+,\) .*int"),
    "short mask": ({"train_mask": mask(NODES.train)[:9]}, r"a mask has shape \(9,\) .*bool"),
    "no features": ({"x": None}, "x of the data is a NoneType; give a tensor"),
    "list of features": ({"x": X.tolist()}, "x of the data is a list; give a tensor"),
    "integer features": ({"x": X.long()}, "float32 but its features have dtype int64"),
    "double features": ({"x": X.double()}, r"have dtype float64; .* x\.to\(torch\.float32"),
    "one feature": ({"x": X[:, 0]}, r"features of shape \(40,\)"),
    "NaN": ({"x": X * NAN}, "x contains NaN or infinite values; impute them"),
    "float edges": ({"edge_index": EDGES.float()}, "edge_index of dtype float32 must hold"),
    "edges beyond": ({"edge_index": EDGES + 30}, "node 69 is out of range"),
    "negative edges": ({"edge_index": EDGES - 1}, "node -1 is out of range"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PYG_DATA)
def test_wrong_pyg_data(kind):
    parts, message = PYG_DATA[kind]
    assert_refused(lambda: train(GCN(5, 4, 2, 3), Data(**PYG | parts)), message)


DATASETS = {
    "fractions": (replace(DATA, y=DATA.y + 0.5), "train does not support node regression"),
    "names": (replace(DATA, y=DATA.y.astype(str)), "must hold integer class codes; np.unique"),
    "one-hot": (replace(DATA, y=np.eye(3)[DATA.y]), "has several values per node"),
    "mask": (replace(DATA, train=np.ones(40, bool)), "train of shape .* must be a list of integer"),
    "beyond": (replace(DATA, train=np.array([0, 99])), "train contains node 99, but there are 40"),
    "objects": (replace(DATA, X=np.asarray(DATA.X, object)), "features of dtype object must be"),
    "float tensor": (replace(NODES, y=Y + 0.5), "train does not support node regression"),
    "negative": (
        replace(NODES, test=torch.tensor([-1])),
        "test contains node -1, but there are 40",
    ),
    "repeated": (
        replace(NODES, test=NODES.test[[0, 0]]),
        "occurs more than once in train, validation",
    ),
    "wrong width": (
        replace(DATA, X=sp.csr_array(WRONG_WIDTH)),
        "200.* the layer has in_channels=5",
    ),
    "a list": ([DATA], "list has no train_mask; give a Dataset"),
}


@pytest.mark.parametrize("kind", DATASETS)
def test_wrong_datasets(kind):
    data, message = DATASETS[kind]
    assert_refused(lambda: train(GCN(5, 4, 2, 3), data), message)


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = torch.nn.ModuleList([GCNConv(5, 3), GCNConv(5, 3)])

    def forward(self, x, edge_index):
        return tuple(head(x, edge_index) for head in self.heads)


MODELS = {
    "no model": (lambda: "gcn", "model is a str; give a torch.nn.Module"),
    "frozen": (
        lambda: GCN(5, 4, 2, 3).requires_grad_(False),
        "has no parameter to train; unfreeze",
    ),
    "features alone": (
        lambda: torch.nn.Linear(5, 3),
        r"Linear.forward does not take \(x, edge_ind",
    ),
    "two outputs": (
        TwoHeads,
        "the model returns tuple; wrap it in one that returns a tensor of 40 rows",
    ),
    "too narrow": (lambda: GCN(5, 4, 2, 2), "the model has 2 outputs for 3 classes; use"),
    "ours, other width": (
        lambda: GCN(6, 4, 2, 3),
        r"\(40, 5\), but the layer has in_channels=6; give",
    ),
    "PyG, other width": (
        lambda: pyg.GCN(6, 4, 2, 3),
        "the model does not accept 40 nodes with 5 f",
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_wrong_models(kind):
    make, message = MODELS[kind]
    with pytest.raises(UserError, match=message):
        train(make(), DATA)


def test_sparse_features_of_wrong_width_and_too_large_seed():
    with pytest.raises(
        UserError, match="the model does not accept 40 nodes with 200 features: mat1"
    ):
        train(pyg.GCN(5, 4, 2, 3), replace(DATA, X=sp.csr_array(WRONG_WIDTH)))
    with pytest.raises(UserError, match=r"seed=.* must be in"):
        Settings(seed=2**70)


# -- layers and initialisation ----------------------------------------------------------------

ANY = {
    "numpy": ({"x": X.numpy()}, "x is a ndarray; give "),
    "integers": ({"x": X.long()}, "weights of dtype float32 but its features have dtype int64; c"),
    "double": ({"x": X.double()}, "weights of dtype float32 but its features have dtype float64"),
    "another device": ({"x": X.to("meta")}, "x is on device meta and the model on cpu; move"),
    "float edges": ({"edge_index": EDGES.float()}, "edge_index of dtype float32 must hold"),
    "transposed": ({"edge_index": EDGES.T}, r"must have shape \(2, n_edges\); tr"),
    "edges beyond": ({"edge_index": EDGES + 9}, r"node 48\b.* 0 to 39"),
    "negative edges": ({"edge_index": EDGES - 1}, r"node -1\b.* 0 to 39"),
    "few weights": ({"edge_weight": torch.ones(3)}, r"shape \(3,\) (must have one value )?for"),
    "NaN weights": ({"edge_weight": torch.full(EDGES[0].shape, NAN)}, "nan|NaN"),
}  # fmt: skip
LAYERS = {
    "another width": ({"x": X[:, :4]}, r"\(40, 4\), but the layer has in_channels=5; give"),
    "one dimension": ({"x": X[:, 0]}, r"\(40,\), but the layer has in_channels=5; give"),
    "no edges": ({"edge_index": None}, "edge_index is missing; give"),
}
GIVEN = {"x": X, "edge_index": EDGES}


@pytest.mark.filterwarnings("ignore:the edge_index is directed")
@pytest.mark.parametrize(
    "make",
    [
        partial(GCNConv, 5, 2),
        partial(GPCAConv, 5, 2),
        partial(GCN, 5, 4, 2, 3),
        partial(GPCANet, 5, 4, 2, 3),
    ],
    ids=["GCNConv", "GPCAConv", "GCN", "GPCANet"],
)
@pytest.mark.parametrize("kind", [*ANY, *LAYERS])
def test_wrong_input_of_layers_and_models(make, kind):
    parts, message = (ANY | LAYERS)[kind]
    with pytest.raises(UserError, match=message) as caught:
        make()(**GIVEN | parts)
    assert "\n" not in str(caught.value)


INITS = {
    "list of edges": ({"edge_index": EDGES.tolist()}, "edge_index is a list; give a tensor"),
    "edges elsewhere": ({"edge_index": EDGES.to("meta")}, "edge_index is on device meta and x on"),
    "NaN": ({"x": X * NAN}, "x contains NaN or infinite values; impute"),
    "few labels": ({"beta": 0.5, "y": Y[:3]}, "y has 3 labels for 40 rows"),
    "seed": ({"seed": -1}, r"seed=-1 must be in"),
    "one name": ({"skip": "convs.0"}, r"skip='convs.0' is a string; give a list of names"),
    "mask of integers": (
        {"head": "ridge", "y": Y, "train_mask": (Y > 0).long()},
        "train_mask has position 1 more than once; give every position once, or a mask of bools",
    ),
    "mask of floats": (
        {"beta": 0.5, "y": Y, "train_mask": (Y > 0).float()},
        r"train_mask has shape \(40,\) and dtype float32, but y has 40 rows; give one bool",
    ),
    "float codes": (
        {"head": "ridge", "y": Y.float(), "train_mask": NODES.train},
        "y has 1 columns, but layer .* one column per output, or integer class codes",
    ),
    "labels needed": ({"beta": 0.5}, "adds ghost edges between nodes of equal label; give y"),
}


@pytest.mark.parametrize("make", [pyg.GCN, pyg.GraphSAGE, GCN])
@pytest.mark.parametrize("kind", [*ANY, *INITS])
def test_wrong_input_of_gpca_init_leaves_the_model_unchanged(make, kind):
    parts, message = (ANY | INITS)[kind]
    model = make(5, 4, 2, 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    if kind == "numpy":
        message = "x is a ndarray; give the features of all nodes as one tensor"
    with pytest.raises(UserError, match=message) as caught:
        gpca_init_(model, **GIVEN | parts)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("options", [{}, {"n_iter": "taylor"}, {"center": False}])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X * NAN, "x contains NaN or infinite values; impute"),
        (X[:, :3], r"\(40, 3\), but the layer has in_channels=5; give"),
        (X.double(), "its features have dtype float64; convert"),
        (X.numpy(), "x is a ndarray; give a tensor"),
    ],
)
def test_wrong_input_of_pretrain_(options, x, message):
    assert_refused(lambda: GPCANet(5, 4, 2, 3, **options).pretrain_(x, EDGES), message)


def test_wrong_seed_of_pretrain_and_wrong_features_of_effective_rank():
    assert_refused(lambda: GPCANet(5, 4, 2, 3).pretrain_(X, EDGES, seed=-1), "seed=-1 must be")
    for H in (X[:, 0], X.numpy(), X.to_sparse_coo()):
        assert_refused(lambda H=H: effective_rank(H), "H must be a dense tensor of shape")


def test_wrong_settings():
    for settings in ({"epochs": 3}, 3):
        assert_refused(lambda s=settings: train(GCN(5, 4, 2, 3), DATA, s), "settings is a .*; give")
    assert_refused(lambda: train_many([GCN(5, 4, 2, 3)], DATA, [3]), "settings is a int; give")


def test_ghost_edges_require_labels():
    assert_refused(
        lambda: GPCAConv(5, 2, beta=0.5)(X, EDGES), "adds ghost edges between .*; give y"
    )


def test_unusual_but_valid_input_is_accepted():
    plain = GCNConv(5, 2)
    expected = plain(X, EDGES)
    torch.testing.assert_close(plain(X, EDGES.int()), expected)
    for weights in (torch.ones(EDGES.shape[1]).bfloat16(), [1.0] * EDGES.shape[1]):
        torch.testing.assert_close(plain(X, EDGES, weights), expected)
    assert GCN(-1, 4, 2, 3)(X, EDGES).shape == (40, 3)
    assert GPCANet(5, 4, 2, 3, alpha=np.float32(2)).convs[1].alpha == 2
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(plain(X.bfloat16(), EDGES)).all()


class Dense(torch.nn.Module):
    """Takes a dense adjacency matrix in place of an edge_index."""

    def __init__(self):
        super().__init__()
        self.first, self.last = pyg.DenseGCNConv(5, 4), pyg.DenseGCNConv(4, 3)

    def forward(self, x, adjacency):
        return self.last(self.first(x, adjacency).relu(), adjacency)[0]


def test_dense_adjacency_matrix_is_passed_to_models_that_take_one():
    adjacency = torch.from_numpy(DATA.graph.adjacency.toarray()).float()
    assert gpca_init_(Dense(), X, adjacency).n_set == 1
