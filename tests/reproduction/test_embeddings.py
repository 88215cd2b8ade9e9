"""Shared embeddings equal those computed for each cell alone."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize
from truth import align_signs, dense_P

from gpcanet import GPCA
from gpcanet.datasets import Dataset, block_model
from reproduction.cells import PUBLIC, Setup, Split
from reproduction.embeddings import (
    Embeddings,
    embedding_key,
    one_triangle_embedding,
    upper_triangle_vectors,
)

PAPER = {"normalization": "sym", "n_iter": 5, "ghost": "paper", "triangle": "both"}
AUTHORS = {"normalization": "rw", "n_iter": 10, "ghost": "paper", "triangle": "upper"}
OURS = {"normalization": "sym", "ghost": "balanced", "scaling": "none"}


@dataclass(frozen=True)
class OneDataset:
    """A loader with one dataset for every name."""

    data: Dataset

    def split(self, name, split):
        if split == PUBLIC:
            return self.data
        return replace(self.data, train=self.data.test[: 10 * (1 + split.random_seed)])


@pytest.fixture(scope="module")
def data():
    return block_model(120, 400, n_features=9, n_classes=3, homophily=0.9, seed=3)


def cell(how, split=PUBLIC, seed=0, **options):
    options = {"alpha": 5, "beta": 0, "hidden": 4, **options}
    return Setup.of("gpca", "blocks", **{**how, **options}).cell(split, seed)


def embedding(data, how, **options):
    wanted = cell(how, **options)
    return Embeddings([wanted], OneDataset(data)).embedding(wanted)


def assert_same_but_for_signs(Z, expected, tolerance=1e-8):
    assert Z.shape == expected.shape
    error = np.abs(align_signs(Z, expected) - expected).max()
    assert error < tolerance * np.abs(expected).max()


def dense_embedding(X, P, alpha, n_iter, k):
    """F W by dense products: a fixed number of steps, then one triangle of X^T F."""
    X = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    F = X
    for _ in range(n_iter):
        F = alpha / (1 + alpha) * P @ F + 1 / (1 + alpha) * X
    _, vectors = np.linalg.eigh(X.T @ F, UPLO="U")
    return F @ vectors[:, ::-1][:, :k]


def random_walk(data, beta=0.0):
    """D^-1 (A + I), with beta also the means of the labelled classes (the paper's ghost edges)."""
    A = data.graph.adjacency.toarray() + np.eye(len(data.y))
    P = A / A.sum(axis=1, keepdims=True)
    if beta == 0:
        return P
    same = np.zeros_like(A)
    for i in data.train:
        for j in data.train:
            same[i, j] = data.y[i] == data.y[j]
    sizes = np.maximum(same.sum(axis=1, keepdims=True), 1)
    return (1 - beta) * P + beta * same / sizes


# -- protocol authors-code ----------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0, 0.1, 0.5])
@pytest.mark.parametrize("alpha", [1, 20])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_one_triangle_embedding_equals_dense_computation(data, alpha, beta, form):
    Z = embedding(replace(data, X=form(data.X)), AUTHORS, alpha=alpha, beta=beta)
    assert_same_but_for_signs(Z, dense_embedding(data.X, random_walk(data, beta), alpha, 10, 4))


def test_only_training_labels_are_used(data):
    y = data.y.copy()
    y[data.validation] = y[data.test] = 0
    first, second = (
        embedding(replace(data, y=labels), AUTHORS, beta=0.2) for labels in (data.y, y)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, embedding(replace(data, train=data.train[:5]), AUTHORS, beta=0.2))


def test_triangles_give_different_vectors():
    M = np.random.default_rng(0).standard_normal((8, 8)) + 3 * np.eye(8)
    symmetric = np.triu(M) + np.triu(M, 1).T
    values = np.linalg.eigvalsh(symmetric)
    found = upper_triangle_vectors(M, 3)
    np.testing.assert_allclose(symmetric @ found, found * values[::-1][:3], atol=1e-10)
    assert not np.allclose(np.abs(found), np.abs(upper_triangle_vectors(M.T, 3)), atol=1e-3)
    assert upper_triangle_vectors(M, 8).shape == (8, 8)


def test_features_are_not_modified(data):
    X = data.X.astype(np.float64)
    before = X.copy()
    how = {"alpha": 5, "beta": 0, "normalization": "rw", "n_iter": 10, "ghost": "paper"}
    one_triangle_embedding(replace(data, X=X), X, None, 4, how)
    np.testing.assert_array_equal(X, before)


# -- protocols paper and ours --------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0, 0.2])
@pytest.mark.parametrize("alpha", [1, 20])
def test_protocol_paper_is_gpca_with_fixed_steps(data, alpha, beta):
    Z = embedding(data, PAPER, alpha=alpha, beta=beta)
    y = data.visible_labels(validation=False)
    model = GPCA(9, alpha=alpha, beta=beta, ghost="paper", solver="fixed-point", n_iter=5)
    np.testing.assert_array_equal(Z, model.fit_transform(data.X, y, graph=data.graph)[:, :4])
    P = dense_P(data.graph, "sym", y, beta, "paper")  # symmetric: either triangle will do
    assert_same_but_for_signs(Z, dense_embedding(data.X, P, alpha, 5, 4), 1e-4)


@pytest.mark.parametrize("ghost", ["balanced", "paper"])
@pytest.mark.parametrize("beta", [0, 0.2])
def test_protocol_ours_is_exact_gpca_for_all_alphas_of_a_path(data, beta, ghost):
    data = replace(data, X=data.X.astype(np.float64))
    alphas = (1, 5, 50)
    cells = [cell({**OURS, "ghost": ghost}, alpha=alpha, beta=beta) for alpha in alphas]
    shared = Embeddings(cells, OneDataset(data))
    y = data.visible_labels(validation=False)
    for alpha, one in zip(alphas, cells, strict=True):
        model = GPCA(4, alpha=alpha, beta=beta, ghost=ghost, solver="direct")
        expected = model.fit_transform(data.X, y if beta else None, graph=data.graph)
        assert_same_but_for_signs(shared.embedding(one), expected, 1e-5)
        assert_same_but_for_signs(
            Embeddings([one], OneDataset(data)).embedding(one), expected, 1e-5
        )


@pytest.mark.parametrize("how", [OURS, PAPER], ids=["ours", "paper"])
def test_rows_are_scaled_before_gpca(data, how):
    Z = embedding(data, {**how, "scaling": "l2"})
    expected = embedding(replace(data, X=normalize(data.X)), {**how, "scaling": "none"})
    np.testing.assert_allclose(Z, expected, rtol=1e-5, atol=1e-6)


# -- sharing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [PAPER, AUTHORS], ids=["paper", "authors-code"])
def test_smaller_embedding_is_the_start_of_a_larger_one(data, how):
    narrow, wide = cell(how, hidden=2), cell(how, hidden=7)
    shared = Embeddings([narrow, wide], OneDataset(data))
    assert shared.embedding(wide).shape == (120, 7)
    np.testing.assert_array_equal(shared.embedding(narrow), shared.embedding(wide)[:, :2])
    np.testing.assert_array_equal(
        shared.embedding(narrow), Embeddings([narrow], OneDataset(data)).embedding(narrow)
    )  # bit by bit, because a resumed run may share with other cells


@pytest.mark.parametrize("how", [OURS, PAPER, AUTHORS], ids=["ours", "paper", "authors-code"])
def test_number_of_components_is_limited_by_the_features(data, how):
    assert embedding(data, how, hidden=128).shape == (120, 9)


@pytest.mark.parametrize(
    ("how", "hidden"), [(OURS, 128), (PAPER, 256), (AUTHORS, 256)], ids=["ours", "paper", "authors"]
)
def test_cells_with_different_heads_share_an_embedding(how, hidden):
    one = cell(how, seed=0, hidden=128, dropout=0, weight_decay=0.05)
    other = cell(how, seed=3, hidden=hidden, dropout=0.5, C=3, unit_rows=True, head="linear")
    assert embedding_key(one) == embedding_key(other)


@pytest.mark.parametrize("how", [OURS, PAPER, AUTHORS], ids=["ours", "paper", "authors-code"])
@pytest.mark.parametrize(
    "options",
    [
        {"beta": 0.1},
        {"normalization": "other"},
        {"ghost": "other"},
        {"triangle": "other"},
        {"scaling": "l2"},
        {"n_iter": 7},
    ],
    ids=lambda options: next(iter(options)),
)
def test_cells_with_different_options_do_not_share(how, options):
    assert embedding_key(cell(how)) != embedding_key(cell(how, **options))


def test_cells_of_different_datasets_do_not_share():
    options = cell(PAPER).setup.options
    other = Setup.of("gpca", "others", **dict(options)).cell(PUBLIC, 0)
    assert embedding_key(cell(PAPER)) != embedding_key(other)


def test_path_has_all_alphas_and_fixed_steps_have_one():
    for how, shared in ((OURS, True), (PAPER, False), (AUTHORS, False)):
        assert (embedding_key(cell(how)) == embedding_key(cell(how, alpha=6))) is shared


@pytest.mark.parametrize("how", [OURS, PAPER, AUTHORS], ids=["ours", "paper", "authors-code"])
def test_splits_share_an_embedding_without_labels(data, how):
    splits = (PUBLIC, Split(random_seed=0), Split(random_seed=1))
    unsupervised = [cell(how, split=split) for split in splits]
    supervised = [cell(how, split=split, beta=0.2) for split in splits]
    assert len({embedding_key(one) for one in unsupervised}) == 1
    assert len({embedding_key(one) for one in supervised}) == 3
    made = [Embeddings([one], OneDataset(data)).embedding(one) for one in unsupervised]
    np.testing.assert_array_equal(made[0], made[1])
    made = [Embeddings([one], OneDataset(data)).embedding(one) for one in supervised]
    assert not np.allclose(made[1], made[2])
