"""The transform of PyG, next to dense formulas and GPCA."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.transforms import Compose, NormalizeFeatures, RandomNodeSplit, ToUndirected
from truth import align_signs, dense_components, dense_P, dense_solve, random_features, random_graph

from gpcanet import GPCA, Graph
from gpcanet.errors import InputError, InputTypeError, UserError
from gpcanet.integrations.pyg import AddGPCA

N = 40


def make(seed=0, *, weighted=False, **attributes):
    graph = random_graph(N, weighted=weighted, seed=seed)
    entries = graph.adjacency.tocoo()
    edges = torch.from_numpy(np.stack([entries.row, entries.col]).astype(np.int64))
    weights = {"edge_weight": torch.from_numpy(entries.data)} if weighted else {}
    x = torch.from_numpy(random_features(N, 6, seed))
    return graph, Data(x=x, edge_index=edges, **weights, **attributes)


@examples(20)
@given(
    seed=st.integers(0, 10**6),
    alpha=st.floats(0, 50),
    beta=st.sampled_from([0.0, 0.2, 0.7]),
    weighted=st.booleans(),
)
def test_embedding_equals_dense_formula_and_uses_training_labels_only(seed, alpha, beta, weighted):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(N) % 3)
    known = rng.random(N) < 0.5
    known[:1] = True
    graph, data = make(seed, weighted=weighted, y=torch.from_numpy(labels))
    data.train_mask = torch.from_numpy(known)
    found = AddGPCA(3, alpha, beta=beta)(data)
    X = data.x.numpy() - data.x.numpy().mean(axis=0)
    P = dense_P(graph, labels=np.where(known, labels, -1), beta=beta)
    values, W = dense_components(X, P, alpha, 4, np.ones(N))
    Z = dense_solve(P, alpha, X) @ W[:, :3]
    # The error of an eigenvector grows with the inverse of the gap to the next eigenvalue.
    gap = np.min(-np.diff(values)) / values[0]
    np.testing.assert_allclose(
        align_signs(found.gpca.numpy(), Z), Z, atol=1e-5 / gap * np.abs(Z).max()
    )
    assert "gpca" not in data
    data.y[~data.train_mask] = 7
    np.testing.assert_array_equal(AddGPCA(3, alpha, beta=beta)(data).gpca, found.gpca)


def test_result_equals_that_of_gpca():
    _, data = make()
    data.x = data.x.float()
    expected = GPCA(4, alpha=3.0, normalization="rw").fit_transform(
        data.x.numpy(), graph=Graph.from_pyg(data)
    )
    found = AddGPCA(4, 3.0, normalization="rw")(data).gpca
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.numpy(), expected)


def test_features_are_extended_or_replaced():
    _, data = make()
    Z = AddGPCA(2)(data).gpca
    torch.testing.assert_close(AddGPCA(2, attr_name=None)(data).x, torch.cat([data.x, Z], dim=1))
    torch.testing.assert_close(AddGPCA(2, attr_name="x")(data).x, Z)
    sparse = make()[1]
    sparse.x = sparse.x.to_sparse_coo()
    torch.testing.assert_close(AddGPCA(2, attr_name=None)(sparse).x[:, 6:], Z)
    counts = make()[1]
    counts.x = (10 * counts.x).round().long()
    assert AddGPCA(2)(counts).gpca.dtype == torch.float32


@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr"])
def test_sparse_features_stay_sparse(layout):
    _, data = make()
    expected = AddGPCA(2)(data)
    data.x = getattr(data.x, layout)()
    found = AddGPCA(2)(data)
    assert found.x.layout == data.x.layout
    torch.testing.assert_close(found.gpca, expected.gpca)


def test_labels_of_other_kinds():
    numbers = torch.linspace(-1, 1, N, dtype=torch.float64)
    known = torch.arange(N) % 2 == 0
    for y in (numbers, numbers[:, None], (numbers > 0).long()[:, None]):
        _, data = make(y=y, train_mask=known)
        target = y.numpy().reshape(N).astype(float)
        target[~known.numpy()] = np.nan
        expected = GPCA(2, beta=0.5).fit_transform(
            data.x.numpy(), target, graph=Graph.from_pyg(data)
        )
        np.testing.assert_allclose(AddGPCA(2, beta=0.5)(data).gpca.numpy(), expected, atol=1e-9)
    several = torch.stack([numbers, numbers**2], dim=1)
    _, data = make(y=several, train_mask=known)
    assert AddGPCA(2, beta=0.5)(data).gpca.shape == (N, 2)


class Copies(InMemoryDataset):
    """Two graphs, transformed before they are stored."""

    raw_file_names = ()
    processed_file_names = ("graphs.pt",)

    def process(self):
        self.save([self.pre_transform(make(seed)[1]) for seed in (1, 2)], self.processed_paths[0])


def test_pre_transform_of_a_dataset(tmp_path, capsys):
    pipeline = Compose([RandomNodeSplit(num_val=5, num_test=5), ToUndirected(), AddGPCA(2)])
    dataset = Copies(tmp_path, pre_transform=pipeline)
    dataset.load(dataset.processed_paths[0])
    for seed, data in zip((1, 2), dataset, strict=True):
        torch.testing.assert_close(data.gpca, AddGPCA(2)(make(seed)[1]).gpca)
    assert "AddGPCA(n_components=2)" in (
        tmp_path / "processed" / "pre_transform.pt"
    ).read_bytes().decode("latin-1")


def test_batch_is_one_graph():
    batch = Batch.from_data_list([make(1)[1], make(2)[1]])
    found = AddGPCA(2)(batch)
    expected = GPCA(2).fit_transform(batch.x.numpy(), graph=Graph.from_pyg(batch))
    np.testing.assert_array_equal(found.gpca.numpy(), expected)


def test_repr_and_pickle():
    transform = AddGPCA(3, alpha=2.0, attr_name=None)
    assert repr(transform) == "AddGPCA(attr_name=None, alpha=2.0, n_components=3)"
    _, data = make()
    again = pickle.loads(pickle.dumps(transform))
    torch.testing.assert_close(again(data).x, transform(data).x)
    assert repr(Compose([NormalizeFeatures(), AddGPCA()])).count("AddGPCA()") == 1


MASK = torch.ones(N, dtype=torch.bool)
LABELS = torch.arange(N) % 3


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ({"x": None}, {}, InputError, "data has no features; set data.x"),
        ({"edge_index": None}, {}, InputError, "has no edge_index"),
        ({}, {"beta": 0.5}, InputError, "beta=0.5 needs labels; set data.y"),
        ({"y": LABELS}, {"beta": 0.5}, InputError, "data.train_mask, which is missing"),
        ({"y": LABELS, "train_mask": MASK[:, None].repeat(1, 3)}, {"beta": 0.5}, InputError,
         r"train_mask of shape \(40, 3\) .* several splits, set one of its columns"),
        ({"y": LABELS, "train_mask": LABELS}, {"beta": 0.5}, InputError, "one boolean per node"),
        ({"y": LABELS, "train_mask": ~MASK}, {"beta": 0.5}, InputError, "selects no node"),
        ({"y": LABELS[:3], "train_mask": MASK}, {"beta": 0.5}, InputError, "for each of 40 nodes"),
        ({"x": torch.full((N, 3), torch.nan)}, {}, UserError, "NaN"),
    ],
)  # fmt: skip
def test_bad_data_gets_a_sentence(change, options, error, message):
    _, data = make()
    for name, value in change.items():
        data[name] = value
    with pytest.raises(error, match=message):
        AddGPCA(2, **options)(data)
    assert "gpca" not in data


def test_other_objects_and_parameters_are_refused():
    with pytest.raises(InputTypeError, match=r"one type of nodes; use data\.to_homogeneous\(\)"):
        AddGPCA(2)(HeteroData())
    with pytest.raises(InputTypeError, match="needs a PyG Data object, not list"):
        AddGPCA(2)([1])
    with pytest.raises(InputError, match="alpha=-1 must be"):
        AddGPCA(2, alpha=-1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64, torch.bfloat16])
def test_embedding_beside_features_of_other_dtypes(dtype):
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (30, 4))).to(dtype)
    edges = torch.stack([torch.arange(30), torch.arange(30).roll(1)])
    data = Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1))
    joined = AddGPCA(2, attr_name=None)(data).x
    embedding = AddGPCA(2)(data).gpca
    assert joined.is_floating_point()
    torch.testing.assert_close(joined[:, :4].double(), x.double())
    torch.testing.assert_close(joined[:, 4:], embedding.to(joined.dtype))


def test_weights_of_from_networkx_and_in_bfloat16():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight = torch.tensor([5.0, 5.0, 0.5, 0.5])
    expected = Graph.from_pyg(Data(edge_index=edges, edge_weight=weight, num_nodes=3))
    assert Graph.from_pyg(Data(edge_index=edges, weight=weight, num_nodes=3)) == expected
    half = Data(edge_index=edges, edge_weight=weight.bfloat16(), num_nodes=3)
    assert Graph.from_pyg(half) == expected
