"""The distributed GPCA equals the local one, over real worker processes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from properties import examples
from test_store import IDS, make_dataset
from truth import random_targets

from gpcanet import GPCA as LocalGPCA
from gpcanet import Graph, load_model, save_model
from gpcanet.datasets import Dataset
from gpcanet.distributed import GPCA
from gpcanet.distributed.writing import write_dataset
from gpcanet.errors import InputError, OutputExistsError, ParameterError

counter = itertools.count()

#: Shrinking a failure would take minutes, as every example is a run.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


def run(client, data, folder, *, method="fit_transform", width=4, y=None, format="parquet", **kw):
    """Z of the distributed estimator, and the estimator."""
    store = write_dataset(data, folder / f"store{next(counter)}", columns_per_block=width)
    model = GPCA(**kw)
    scratch = folder / "scratch"
    parts = model.fit_transform(
        store, y, client=client, scratch=scratch, output=folder / f"out{next(counter)}",
        format=format,
    )  # fmt: skip
    if method == "transform":
        parts = model.transform(
            store, client=client, scratch=scratch, output=folder / f"out{next(counter)}"
        )
    assert sorted(path.name for path in scratch.iterdir()) in (["lock"], [])
    return parts, model


SOLVERS = [
    {}, {"solver": "chebyshev"}, {"solver": "cg"}, {"solver": "fixed-point"},
    {"solver": "fixed-point", "n_iter": 5}, {"precision": "half", "solver": "chebyshev"},
]  # fmt: skip


@examples(8, suppress_health_check=[HealthCheck.function_scoped_fixture], phases=PHASES)
@given(
    kind=st.sampled_from(["plain", "weighted", "disconnected", "isolated"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    normalization=st.sampled_from(["sym", "rw"]),
    beta=st.sampled_from([0.0, 0.3]),
    ghost=st.sampled_from(["balanced", "paper"]),
    solver=st.sampled_from(SOLVERS),
    alpha=st.sampled_from([0.0, 0.5, 10.0]),
    k=st.sampled_from([1, 3, 0.8]),
    width=st.integers(1, 7),
    scale=st.sampled_from([1.0, 1e-25, 1e14]),
    method=st.sampled_from(["fit_transform", "transform"]),
)
def test_it_equals_the_local_estimator(
    client, tmp_path_factory, kind, dtype, normalization, beta, ghost, solver, alpha, k, width,
    scale, method,
):  # fmt: skip
    if solver.get("precision") == "half" and normalization == "rw":
        ghost = "balanced"
    data = make_dataset(kind, dtype=dtype)
    data = Dataset("made", data.graph, (data.X * scale).astype(dtype), data.y)
    # A solve to a tolerance stops by the worst column of its block, so the tolerance bounds the
    # difference; 1e-11 leaves room for 1e-8 of Z.
    kw = {
        "n_components": k, "alpha": alpha, "beta": beta, "ghost": ghost,
        "normalization": normalization, **solver,
    }  # fmt: skip
    if dtype == np.float64 and "n_iter" not in solver and "precision" not in solver:
        kw["tol"] = 1e-11
    parts, model = run(
        client, data, tmp_path_factory.mktemp("run"), method=method, width=width, **kw
    )
    local = LocalGPCA(**kw)
    expected = local.fit_transform(data.X, data.y, graph=data.graph)
    Z = parts.read()
    assert Z.dtype == dtype
    assert parts.shape == Z.shape == expected.shape
    half = "precision" in solver
    tolerance = 1e-2 if half else 1e-8 if dtype == np.float64 else 1e-4
    size = np.abs(expected).max()
    np.testing.assert_allclose(Z / size, expected / size, atol=tolerance)
    np.testing.assert_allclose(model.mean_, local.mean_, rtol=1e-5)
    np.testing.assert_allclose(model.eigenvalues_, local.eigenvalues_, rtol=100 * tolerance)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, local.explained_variance_ratio_, atol=tolerance
    )
    np.testing.assert_allclose(model.objective_, local.objective_, rtol=2e-2 if half else 1e-4)
    np.testing.assert_array_equal(np.isnan(model.residual_), np.isnan(local.residual_))
    assert vars(model).keys() - vars(local).keys() == {"store_digest_"}


def contents(parts):
    return [path.read_bytes() for path in parts.files]


def test_bytes_do_not_depend_on_the_number_of_workers(client, tmp_path, monkeypatch):
    import gpcanet.distributed.plan as plan

    monkeypatch.setattr(plan, "CHUNK_BYTES", 400)  # several chunks, and two levels of the tree
    data, kw = make_dataset("isolated", ids=IDS["text"]), {"n_components": 3, "beta": 0.2}
    found = {}
    for n_workers in (2, 1, 4):
        client.cluster.scale(n_workers)
        while len(client.nthreads()) != n_workers:
            client.sync(client.cluster._correct_state)
        folder = tmp_path / str(n_workers)
        folder.mkdir()
        parts, model = run(client, data, folder, **kw)
        found[n_workers] = contents(parts), model.components_.tobytes(), model.objective_
    assert len(found[1][0]) == 5
    assert found[1] == found[2] == found[4]
    assert parts.ids().tolist() == IDS["text"].tolist()


def test_labels_may_be_targets(client, tmp_path):
    data, Y = make_dataset(), random_targets()
    parts, _ = run(client, data, tmp_path, y=Y, n_components=2, beta=0.4, format="npy", tol=1e-11)
    local = LocalGPCA(2, beta=0.4, tol=1e-11).fit_transform(data.X, Y, graph=data.graph)
    np.testing.assert_allclose(parts.read(), local, atol=1e-8)


def test_the_model_can_be_saved(client, tmp_path):
    data = replace(make_dataset(), feature_names=None)
    _, model = run(client, data, tmp_path, n_components=2, beta=0.2)
    save_model(model.to_local(), tmp_path / "m.safetensors")
    local = LocalGPCA(2, beta=0.2)
    Z = local.fit_transform(data.X, data.visible_labels(validation=False), graph=data.graph)
    again = load_model(tmp_path / "m.safetensors").transform(data.X, graph=data.graph)
    np.testing.assert_allclose(again, Z, atol=1e-5)


def test_the_local_model_knows_its_graph_in_the_precision_of_the_user(client, tmp_path):
    data = replace(make_dataset("weighted", dtype=np.float32), feature_names=None)
    weights = np.random.default_rng(0).random(len(data.graph.indices)) + 0.1
    adjacency = sp.csr_array((weights, data.graph.indices, data.graph.indptr))
    graph = Graph(adjacency.maximum(adjacency.T), node_ids=data.graph.node_ids)
    assert np.any(graph.weights != graph.weights.astype(np.float32))
    _, model = run(client, replace(data, graph=graph), tmp_path, n_components=2, beta=0.3)
    local = LocalGPCA(2, beta=0.3)
    Z = local.fit_transform(data.X, data.visible_labels(validation=False), graph=graph)
    found = model.to_local().transform(data.X, graph=graph)
    np.testing.assert_allclose(found, Z, atol=1e-4)  # float32; 0.3 without the ghost edges


def test_fewer_columns_per_task_and_a_memory_limit(client, tmp_path):
    data = make_dataset()
    store = write_dataset(data, tmp_path / "store")
    expected = LocalGPCA(2, tol=1e-11).fit(data.X, graph=data.graph)
    for number, kw in enumerate([{"columns_per_task": 1}, {"columns_per_task": 4}, {}]):
        model = GPCA(2, memory_limit="1GiB", tol=1e-11)
        model.fit(store, client=client, scratch=tmp_path / f"s{number}", **kw)
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)
    with pytest.raises(ParameterError, match="too small for a worker; use at least 301 MiB"):
        GPCA(2, memory_limit="10MiB").fit(store, client=client, scratch=tmp_path / "s")


@pytest.mark.parametrize(
    ("kw", "message"),
    [
        ({"eigen_solver": "lanczos"}, r"without eigen_solver='lanczos'; reduce sparse features"),
        ({"keep_training_nodes": True}, "a distributed run keeps none"),
        ({"n_components": 7}, "at most 6 components"),
        ({"beta": 2.0}, r"beta=2.0 must be in \[0, 1\]"),
    ],
)
def test_bad_parameters(client, tmp_path, kw, message):
    store = write_dataset(make_dataset(), tmp_path / "store")
    with pytest.raises(InputError, match=message):
        GPCA(**{"n_components": 2} | kw).fit(store, client=client, scratch=tmp_path / "s")


def test_bad_input(client, tmp_path):
    data = make_dataset()
    unlabeled = Dataset("m", data.graph, data.X, np.full(40, -1))
    store = write_dataset(unlabeled, tmp_path / "store")
    scratch = tmp_path / "s"
    with pytest.raises(InputError, match="the store has no labels; give labels"):
        GPCA(2, beta=0.1).fit(store, client=client, scratch=scratch)
    with pytest.raises(OutputExistsError):
        GPCA(2).fit_transform(store, client=client, scratch=scratch, output=tmp_path)
    with pytest.raises(InputError, match="format='csv' must be"):
        GPCA(2).fit_transform(
            store, client=client, scratch=scratch, output=tmp_path / "o", format="csv"
        )
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        GPCA(2).fit(store, client=client, scratch=tmp_path / "a" / "b")
    model = GPCA(2).fit(store, client=client, scratch=scratch)
    other = write_dataset(make_dataset(d=3), tmp_path / "other")
    with pytest.raises(InputError, match=r"the store has 3 features, but the model .* with 6"):
        model.transform(other, client=client, scratch=scratch, output=tmp_path / "o")
