"""Other methods compute what their names say, and agree with ours where they should."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg
from truth import dense_P

from benchmarks import peers, step
from benchmarks.baselines import scipy_embedding, scipy_propagation, torch_embedding
from benchmarks.fits import FITS
from benchmarks.timing import prepare, smallest_cosine, time_interleaved
from gpcanet import GPCA
from gpcanet.datasets import block_model

ALPHA, K = 10.0, 5


@pytest.fixture(scope="module")
def data():
    return block_model(300, 900, n_features=80, n_classes=4)


def orthonormal(Z):
    return np.linalg.qr(Z.astype(np.float64))[0].T


def fixed_point(data, n_steps):
    P, X = dense_P(data.graph), data.X - data.X.mean(axis=0)
    F, c = X, ALPHA / (1 + ALPHA)
    for _ in range(n_steps):
        F = c * P @ F + (1 - c) * X
    return F


def test_scipy_propagation_equals_the_dense_one(data):
    P = scipy_propagation(data.graph.indptr, data.graph.indices)
    truth = dense_P(data.graph)
    np.testing.assert_allclose(P.toarray(), truth, rtol=0, atol=1e-6)
    assert P.indices.dtype == np.int32


@pytest.mark.parametrize("embedding", [scipy_embedding, torch_embedding])
def test_baselines_are_five_fixed_point_steps(data, embedding):
    if embedding is torch_embedding:
        pytest.importorskip("torch")
    Z = embedding(data.graph.indptr, data.graph.indices, data.X, K)
    ours = GPCA(K, alpha=ALPHA, solver="fixed-point", n_iter=5).fit_transform(
        data.X, graph=data.graph
    )
    assert smallest_cosine(orthonormal(Z), orthonormal(ours)) > 1 - 1e-5
    # Up to signs, the columns are the same: they are in the same order.
    np.testing.assert_allclose(np.abs(Z), np.abs(ours), rtol=0, atol=1e-3 * np.abs(ours).max())


@pytest.mark.parametrize("method", FITS)
def test_every_fit_finds_the_same_space(data, method):
    if "torch" in method:
        pytest.importorskip("torch")
    settings = {} if "exact" in method else {"solver": "fixed-point", "n_iter": 5}
    ours = GPCA(K, alpha=ALPHA, **settings).fit_transform(data.X, graph=data.graph)
    Z = FITS[method](data.graph, data.X, K)
    # Half precision is good to 3e-4, and the gap to the next component widens that.
    assert smallest_cosine(orthonormal(Z), orthonormal(ours)) > 1 - 1e-4


def test_all_methods_compute_the_same_step(data):
    tasks, omitted = prepare(step.METHODS, data)
    truth, leave = tasks["scipy CSR"](), step.leave_of(data)
    np.testing.assert_allclose(leave(tasks["GPCANet"]()), truth, rtol=0, atol=1e-5)
    if "torch sparse CSR" in tasks:
        np.testing.assert_allclose(tasks["torch sparse CSR"]().numpy(), truth, rtol=0, atol=1e-5)
    if "PyG propagate" in tasks:  # it uses F in place of X
        expected = truth + (1 - step.C) * (step.block(data) - data.X)
        np.testing.assert_allclose(tasks["PyG propagate"]().numpy(), expected, rtol=0, atol=1e-5)
    assert tasks["GPCANet, half precision"]().dtype == np.float16
    assert all(set(outcome) == {"skipped"} for outcome in omitted.values())


def test_pyg_propagation_is_that_of_sgc_and_appnp(data, monkeypatch):
    pytest.importorskip("torch_geometric")
    monkeypatch.setattr(peers, "PCA", lambda *_, **__: SimpleNamespace(fit_transform=np.asarray))
    P = dense_P(data.graph)
    tasks, _ = prepare(peers.METHODS, data)
    sgc = tasks["PyG SGC, 2 steps, then PCA"]()
    np.testing.assert_allclose(sgc, P @ P @ data.X, rtol=0, atol=1e-5)
    appnp = tasks["PyG APPNP, 5 steps, then PCA"]()
    constant = fixed_point(data, 5) - appnp  # the means, which PyG does not subtract
    np.testing.assert_allclose(np.linalg.matrix_rank(constant, tol=1e-3), 1)


def test_every_method_gives_a_finite_embedding_or_a_reason(data):
    tasks, omitted = prepare(peers.LARGE_METHODS, data)
    for name, task in tasks.items():
        Z = task()
        assert Z.shape == (300, peers.WIDTH), name
        assert np.all(np.isfinite(Z)), name
    assert set(tasks) | set(omitted) == {method.name for method in peers.LARGE_METHODS}
    assert {"GPCA", "PCA of X", "SVD, 2 steps, SVD"} <= set(tasks)
    assert all("is not installed" in outcome["skipped"] for outcome in omitted.values())


def test_missing_packages_are_named(data, monkeypatch):
    for package in ("torch", "torch_geometric", "sknetwork", "GraphPCA"):
        monkeypatch.setitem(sys.modules, package, None)
    tasks, omitted = prepare(peers.METHODS, data)
    assert len(tasks) == 5
    assert omitted["torch CSR, 5 steps"] == {"skipped": "torch is not installed"}
    assert omitted["scikit-network GSVD"] == {"skipped": "sknetwork is not installed"}
    assert omitted["st-graphpca, corrected"] == {"skipped": "GraphPCA is not installed"}


# -- st-graphpca --------------------------------------------------------------------------------


@pytest.fixture
def stand_in(monkeypatch):
    """A package with the error of st-graphpca that records the preconditioner."""
    given = []

    def Run_GPCA(table, network, n_components):
        Phi = sp.eye_array(table.shape[0]) + 0.5 * sp.csgraph.laplacian(network)
        M = peer.diags(Phi.diagonal())
        b = table.X @ np.ones(table.shape[1])
        z, _ = peer.cg(Phi.tocsr(), b, M=M, maxiter=peer.most)
        given.append(M.diagonal() * Phi.diagonal())
        return np.repeat(z[:, None], n_components, axis=1), None

    peer = ModuleType("GraphPCA.gpca")
    peer.__dict__.update(
        diags=sp.diags_array,
        cg=scipy.sparse.linalg.cg,
        Run_GPCA=Run_GPCA,
        most=500,
        logger=SimpleNamespace(setLevel=lambda level: None),
    )
    package = ModuleType("GraphPCA")
    package.gpca = peer
    monkeypatch.setitem(sys.modules, "GraphPCA", package)
    monkeypatch.setitem(sys.modules, "GraphPCA.gpca", peer)
    return SimpleNamespace(module=peer, given=given)


def test_correction_inverts_the_diagonal_and_is_undone(data, stand_in):
    tasks, _ = prepare(peers.METHODS, data)
    before = stand_in.module.diags, stand_in.module.cg
    released = tasks["st-graphpca"]()
    corrected = tasks["st-graphpca, corrected"]()
    assert (stand_in.module.diags, stand_in.module.cg) == before
    assert stand_in.given[0].max() > 4  # the diagonal, squared
    np.testing.assert_allclose(stand_in.given[1], 1)
    np.testing.assert_allclose(corrected, released, rtol=0, atol=1e-3 * np.abs(corrected).max())


def test_corrected_solver_reports_missing_convergence(data, stand_in):
    stand_in.module.most = 1
    tasks, _ = prepare(peers.METHODS, data)
    selected = {name: task for name, task in tasks.items() if name.startswith("st-")}
    found = time_interleaved(selected, 1)
    assert "seconds" in found["st-graphpca"]
    assert "stopped with status 1" in found["st-graphpca, corrected"]["failed"]
    assert stand_in.module.cg is scipy.sparse.linalg.cg
