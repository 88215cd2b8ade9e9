"""Nodes that arrive after fit, with edges to training nodes, against dense formulas."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from truth import dense_P, dense_solve, random_graph

from gpcanet import GPCA, GPCAClassifier, GPCAPath, Graph, GraphImputer, load_model, save_model

#: Solves with tol=1e-10 of columns of norm about 1.
CLOSE = {"rtol": 0, "atol": 1e-7}


class Growth:
    """A graph of n nodes that grows by m nodes, of which some are isolated."""

    def __init__(self, seed, n=20, m=5, *, weighted=False):
        rng = np.random.default_rng(seed)
        self.n, self.rng = n, rng
        old = random_graph(n, weighted=weighted, parts=2, isolated=2, seed=seed).adjacency.toarray()
        A = np.zeros((n + m, n + m))
        A[:n, :n] = old
        links = rng.random((m, n + m)) < 0.2
        A[n:] = np.where(links, rng.uniform(0.5, 2, (m, n + m)) if weighted else 1.0, 0)
        A[:, n:] = A[n:].T
        A[n:, n:] = np.triu(A[n:, n:], 1) + np.triu(A[n:, n:], 1).T
        self.A = A
        self.new = np.arange(n, n + m)
        self.X = rng.normal(size=(n + m, 4)) * [3, 2, 1, 0.5] + 1
        self.y = np.where(rng.random(n) < 0.6, rng.integers(0, 2, n), -1)
        self.y[:4] = [0, 1, 0, 1]
        self.ids = rng.permutation([f"node {i}" for i in range(n + m)])
        self.graph, self.extended = Graph(old), Graph(A)
        self.named = Graph(old, node_ids=self.ids[:n])

    @property
    def table(self):
        return pd.DataFrame(self.X, self.ids, list("abcd"))

    def new_edges(self):
        """A table of the edges of new nodes alone, and a graph of them with the new nodes."""
        i, j = np.nonzero(np.triu(self.A))
        chosen = j >= self.n
        i, j = i[chosen], j[chosen]
        ids = self.ids
        frame = pd.DataFrame({"source": ids[i], "target": ids[j], "weight": self.A[i, j]})
        named = [*ids[self.new], *ids[np.unique(i[i < self.n])]]
        return frame, Graph.from_edges(frame, nodes=self.rng.permutation(named))

    def expected(self, model, labels=None):
        """(I + alpha L)^-1 [X_old; X_new] W on the extended graph, rows of the new nodes."""
        if labels is not None:
            labels = np.append(labels, np.full(len(self.new), -1))
        P = dense_P(self.extended, model.normalization, labels, model.beta, model.ghost)
        centered = self.X - self.X[: self.n].mean(axis=0)
        return dense_solve(P, model.alpha, centered @ model.components_.T)[self.new]


growths = st.builds(
    Growth, st.integers(0, 10**6), st.integers(12, 25), st.integers(1, 6), weighted=st.booleans()
)
settings = st.fixed_dictionaries({
    "beta": st.sampled_from([0.0, 0.3]),
    "normalization": st.sampled_from(["sym", "rw"]),
    "ghost": st.sampled_from(["balanced", "paper"]),
    "alpha": st.floats(0, 50),
})  # fmt: skip


@examples(60)
@given(growths, settings, st.booleans(), st.booleans())
def test_new_rows_and_the_extended_graph_give_the_rows_of_the_whole_embedding(
    growth, parameters, is_sparse, is_shuffled
):
    kind = sp.csr_array if is_sparse else np.asarray
    n, X = growth.n, kind(growth.X)
    model = GPCA(2, tol=1e-10, keep_training_nodes=True, **parameters)
    model.fit(X[:n], growth.y, graph=growth.graph)
    expected = growth.expected(model, growth.y)
    order = growth.rng.permutation(len(growth.new)) if is_shuffled else np.arange(len(growth.new))
    new = growth.new[order]
    Z = model.transform(X[new], graph=growth.extended, nodes=new)
    np.testing.assert_allclose(Z, expected[order], **CLOSE)
    # All rows on the extended graph: the labels of fit act again, whether rows were kept or not.
    forgetful = GPCA(2, tol=1e-10, keep_training_nodes=False, **parameters)
    forgetful.fit(X[:n], growth.y, graph=growth.graph)
    for whole in (model.transform(X, graph=growth.extended),
                  forgetful.transform(X, graph=growth.extended)):  # fmt: skip
        np.testing.assert_allclose(whole[growth.new], expected, **CLOSE)


@examples(60)
@given(growths, settings)
def test_edges_of_new_nodes_with_ids_are_enough(growth, parameters):
    n = growth.n
    model = GPCA(2, tol=1e-10, **parameters)
    order = growth.rng.permutation(n)
    rows, y = growth.table.iloc[:n].iloc[order], growth.y[order]
    model.fit(rows, y, graph=growth.named)
    expected = growth.expected(model, growth.y)
    _, graph = growth.new_edges()
    Z = model.transform(growth.table.iloc[growth.new], graph=graph)
    np.testing.assert_allclose(Z, expected, **CLOSE)
    # The whole extended graph, with its nodes in any order, is the same.
    places = growth.rng.permutation(n + len(growth.new))
    whole = Graph(growth.A[np.ix_(places, places)], node_ids=growth.ids[places])
    Z = model.transform(growth.table.iloc[growth.new], graph=whole)
    np.testing.assert_allclose(Z, expected, **CLOSE)
    # So is the union of both graphs, made by the caller.
    Z = model.transform(growth.table.iloc[growth.new], graph=growth.named.union(graph))
    np.testing.assert_allclose(Z, expected, **CLOSE)


@examples(25)
@given(growths, settings, st.booleans())
def test_saved_models_embed_new_nodes(tmp_path_factory, growth, parameters, has_ids):
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    n, new = growth.n, growth.new
    model = GPCA(2, tol=1e-10, keep_training_nodes=True, **parameters)
    graph = growth.named if has_ids else growth.graph
    model.fit(growth.X[:n], growth.y, graph=graph)
    save_model(model, path)
    loaded = load_model(path)
    Z = loaded.transform(growth.X[new], graph=growth.extended, nodes=new)
    np.testing.assert_allclose(Z, growth.expected(model, growth.y), **CLOSE)
    if has_ids:
        table = growth.table.iloc[new].set_axis(range(4), axis=1)
        np.testing.assert_allclose(loaded.transform(table, graph=growth.new_edges()[1]), Z, **CLOSE)


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("beta", [0.0, 0.3])
@pytest.mark.parametrize("has_ids", [True, False])
def test_predictions_for_new_nodes_equal_those_on_the_whole_graph(tmp_path, smooth, beta, has_ids):
    growth = Growth(3, 30, 6, weighted=True)
    n, new = growth.n, growth.new
    settings = {"alpha": [1.0, 10.0], "C": 1.0, "cv": 2, "tol": 1e-10, "beta": beta}
    model = GPCAClassifier(2, correct=smooth, smooth=smooth, keep_training_nodes=True, **settings)
    model.fit(growth.X[:n], growth.y, graph=growth.named if has_ids else growth.graph)
    save_model(model, tmp_path / "model.safetensors")
    whole = Graph(growth.A, node_ids=growth.ids) if has_ids else growth.extended
    expected = model.predict_proba(growth.X, graph=whole)[new]
    forgetful = GPCAClassifier(
        2, correct=smooth, smooth=smooth, keep_training_nodes=False, **settings
    )
    forgetful.fit(growth.X[:n], growth.y, graph=growth.graph)
    others = forgetful.predict_proba(growth.X, graph=growth.extended)[new]
    np.testing.assert_allclose(others, expected, atol=1e-6)
    with pytest.raises(ValueError, match="fit kept no training rows"):
        forgetful.predict(growth.X[new], graph=growth.extended, nodes=new)
    # Training labels act: without them the probabilities would differ.
    if smooth or beta:
        unlabeled = model.predict_proba(growth.X[new], graph=growth.extended.subgraph(new))
        assert np.abs(unlabeled - expected).max() > 1e-3
    for one in (model, load_model(tmp_path / "model.safetensors")):
        found = one.predict_proba(growth.X[new], graph=growth.extended, nodes=new)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        np.testing.assert_array_equal(
            one.predict(growth.X[new], graph=growth.extended, nodes=new),
            model.classes_[expected.argmax(axis=1)],
        )
        if has_ids:
            table = growth.table.iloc[new].set_axis(range(4), axis=1)
            found = one.predict_proba(table, graph=growth.new_edges()[1])
            np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_path_keeps_training_nodes_for_its_models():
    growth = Growth(4)
    path = GPCAPath(2, alphas=[1.0, 5.0], tol=1e-10, keep_training_nodes=True)
    path.fit(growth.X[: growth.n], graph=growth.graph)
    model = path.gpca(5.0)
    Z = model.transform(growth.X[growth.new], graph=growth.extended, nodes=growth.new)
    np.testing.assert_allclose(Z, growth.expected(model), **CLOSE)


@pytest.mark.parametrize("has_ids", [True, False])
def test_missing_features_of_new_nodes_are_filled_in_from_training_nodes(has_ids):
    growth = Growth(5, 25, 6)
    n, new, X = growth.n, growth.new, growth.X.copy()
    X[growth.rng.random(X.shape) < 0.3] = np.nan
    imputer = GraphImputer(tol=1e-12, keep_training_nodes=True)
    graph, extended = (growth.named, growth.new_edges()[1]) if has_ids else (
        growth.graph, growth.extended)  # fmt: skip
    filled = imputer.fit(X[:n], graph=graph).transform(
        pd.DataFrame(X[new], growth.ids[new]) if has_ids else X[new],
        graph=extended,
        nodes=None if has_ids else new,
    )
    whole = imputer.transform(X, graph=growth.extended)
    np.testing.assert_allclose(filled, whole[new], atol=1e-9)
    alone = imputer.transform(X[new], graph=growth.extended.subgraph(new))
    assert np.abs(alone - filled).max() > 0.01


# -- what is recognised as the graph of fit -------------------------------------------------------


def test_further_edges_between_training_nodes_are_used():
    growth = Growth(6)
    n, new = growth.n, growth.new
    i, j = np.argwhere(np.triu(growth.A[:n, :n] == 0, 1))[3]
    growth.A[i, j] = growth.A[j, i] = 1
    growth.extended = Graph(growth.A)
    model = GPCA(2, beta=0.3, tol=1e-10, keep_training_nodes=True)
    model.fit(growth.X[:n], growth.y, graph=growth.graph)
    Z = model.transform(growth.X[new], graph=growth.extended, nodes=new)
    np.testing.assert_allclose(Z, growth.expected(model, growth.y), **CLOSE)


def test_all_rows_of_another_graph_are_embedded_without_the_training_nodes():
    """Even if some of its ids are those of training nodes."""
    growth = Growth(7)
    model = GPCA(2, beta=0.3, tol=1e-10)
    model.fit(growth.table.iloc[: growth.n], growth.y, graph=growth.named)
    other = Graph(random_graph(8, seed=1).adjacency, node_ids=growth.ids[3:11])
    X = growth.rng.normal(size=(8, 4))
    Z = model.transform(pd.DataFrame(X, other.node_ids, list("abcd")), graph=other)
    centered = X - growth.X[: growth.n].mean(axis=0)
    expected = dense_solve(dense_P(other, beta=0.3), 10.0, centered @ model.components_.T)
    np.testing.assert_allclose(Z, expected, **CLOSE)


def test_what_cannot_be_matched_is_refused():
    growth = Growth(8, 20, 3)
    n, new, X = growth.n, growth.new, growth.X
    model = GPCA(2, keep_training_nodes=True).fit(X[:n], graph=growth.graph)
    other = growth.A.copy()
    i, j = np.argwhere(other[:n, :n])[0]
    other[i, j] = other[j, i] = 0
    with pytest.raises(ValueError, match=r"does not contain the graph of fit; .*first 20 nodes"):
        model.transform(X[new], graph=Graph(other), nodes=new)
    with pytest.raises(ValueError, match=r"node 22 of the graph has no row in X and is not a node"):
        model.transform(X[new[:2]], graph=growth.extended, nodes=new[:2])
    with pytest.raises(ValueError, match="X has 3 rows but the graph has 23 nodes"):
        model.transform(X[new], graph=growth.extended)
    named = GPCA(2).fit(growth.table.iloc[:n], graph=growth.named)
    frame = growth.new_edges()[0]
    stranger = pd.DataFrame({"source": ["who"], "target": [growth.ids[n]], "weight": [1.0]})
    graph = Graph.from_edges(pd.concat([frame, stranger]))
    linked = graph.node_ids[np.isin(graph.node_ids, growth.ids[new])]
    with pytest.raises(ValueError, match=r"node 'who' of the graph has no row in X"):
        named.transform(growth.table.loc[linked], graph=graph)


def test_only_what_is_asked_for_is_kept():
    growth = Growth(9)
    n, X, y = growth.n, growth.X, growth.y
    assert GPCA(2).fit(X[:n], graph=growth.graph).training_nodes_ is None
    kept = GPCA(2, keep_training_nodes=True).fit(X[:n], graph=growth.graph).training_nodes_
    assert kept.X.shape == (n, 4)
    assert kept.labels is None
    nodes = np.arange(n)
    assert GPCA(2).fit(X[:n], graph=growth.graph, nodes=nodes).training_nodes_.X is not None
    model = GPCA(2, keep_training_nodes=False).fit(X[:n], graph=growth.graph, nodes=nodes)
    assert model.training_nodes_ is None
    model = GPCA(2, beta=0.1, keep_training_nodes=False).fit(X[:n], y, graph=growth.graph)
    assert model.training_nodes_.X is None
    np.testing.assert_array_equal(model.training_nodes_.labels, y)
    for keep in (None, False):
        classifier = GPCAClassifier(
            2, alpha=1.0, C=1.0, correct=False, smooth=False, keep_training_nodes=keep
        ).fit(X[:n], y, graph=growth.graph)
        assert classifier.training_nodes_ is None
        assert classifier.gpca_[0].training_nodes_ is None


def test_weights_of_training_edges_are_compared_in_the_lower_precision():
    growth = Growth(3, weighted=True)
    graph = growth.graph
    weights = graph.weights.astype(np.float32)
    rounded = Graph.from_csr(graph.indptr, graph.indices, weights, validate=False)
    X, y = growth.X[: growth.n], growth.y
    extended = growth.A[: growth.n, : growth.n].copy()
    i, j = np.argwhere(np.triu(extended == 0, 1))[0]
    extended[i, j] = extended[j, i] = 1.0  # a further edge between training nodes
    found = [
        GPCA(2, beta=0.5).fit(X, y, graph=known).transform(X, graph=Graph(extended))
        for known in (graph, rounded)
    ]
    np.testing.assert_allclose(*found, atol=1e-5)  # rounded weights; 4 without ghost edges
