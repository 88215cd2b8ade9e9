"""Rows, labels and nodes are matched by id, and results do not depend on their order."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from sklearn.exceptions import NotFittedError

from gpcanet import GPCA, GPCAClassifier, GPCAPath, Graph

#: Two solves with tol=1e-10 of columns of norm about 1, in different orders of the rows.
CLOSE = {"rtol": 0, "atol": 1e-7}


def random_case(seed, n, *, weighted=False, names=False):
    """A random graph with isolated nodes, features and some labels."""
    rng = np.random.default_rng(seed)
    n_edges = int(rng.integers(0, 3 * n))
    pairs = rng.integers(0, n, (2, n_edges))
    weights = rng.uniform(0.1, 5, n_edges) if weighted else None
    ids = rng.permutation([f"node {i}" for i in range(n)]) if names else None
    graph = Graph.from_edge_index(pairs, weights, n_nodes=n, node_ids=ids, each_once=True)
    X = rng.normal(size=(n, 4)) * [3, 2, 1, 0.5]
    y = np.where(rng.random(n) < 0.6, rng.integers(0, 2, n), -1)
    y[:4] = [0, 1, 0, 1]
    return graph, X, y, rng


cases = st.builds(
    random_case,
    st.integers(0, 10**6),
    st.integers(6, 30),
    weighted=st.booleans(),
    names=st.just(True),
)
betas = st.sampled_from([0.0, 0.3])
normalizations = st.sampled_from(["sym", "rw"])
ghosts = st.sampled_from(["balanced", "paper"])


# -- transforming a subset of the nodes -------------------------------------------------------


@examples(60)
@given(cases, betas, normalizations, ghosts, st.floats(0, 50), st.booleans())
def test_transform_of_a_subset_equals_rows_of_the_full_embedding(
    case, beta, normalization, ghost, alpha, is_sparse
):
    graph, X, y, rng = case
    X = sp.csr_array(X) if is_sparse else X
    n = graph.n_nodes
    model = GPCA(2, alpha=alpha, beta=beta, normalization=normalization, ghost=ghost, tol=1e-10)
    nodes = rng.permutation(n)
    whole = np.empty((n, 2))
    whole[nodes] = model.fit_transform(X[nodes], y[nodes], graph=graph, nodes=nodes)
    expected = model.set_params().transform(X, graph=graph)
    np.testing.assert_allclose(whole, expected, **CLOSE)
    some = rng.permutation(n)[: rng.integers(1, n + 1)]
    np.testing.assert_allclose(
        model.transform(X[some], graph=graph, nodes=some), whole[some], **CLOSE
    )


@examples(20)
@given(cases, st.sampled_from([True, False, "auto"]))
def test_probabilities_of_a_subset_equal_rows_of_all_probabilities(case, smooth):
    graph, X, y, rng = case
    n = graph.n_nodes
    nodes = rng.permutation(n)
    parameters = {"feature_scaling": "none", "C": 1.0, "cv": 2, "tol": 1e-10}
    model = GPCAClassifier(2, correct=smooth, smooth=smooth, **parameters)
    model.fit(X[nodes], y[nodes], graph=graph, nodes=nodes)
    whole = np.empty((n, 2))
    whole[nodes] = model.label_distributions_
    some = rng.permutation(n)[: rng.integers(1, n + 1)]
    # The coefficients of the head amplify differences of Z.
    np.testing.assert_allclose(
        model.predict_proba(X[some], graph=graph, nodes=some), whole[some], rtol=0, atol=1e-6
    )


@examples(20)
@given(cases)
def test_correct_and_smooth_does_not_depend_on_the_order_of_rows(case):
    graph, X, y, rng = case
    parameters = {"feature_scaling": "none", "C": 1.0, "cv": 2, "tol": 1e-10}
    model = GPCAClassifier(2, correct=True, smooth=True, **parameters).fit(X, y, graph=graph)
    order = rng.permutation(graph.n_nodes)
    permuted = model.predict_proba(X[order], graph=graph, nodes=order)
    np.testing.assert_allclose(permuted, model.label_distributions_[order], rtol=0, atol=1e-6)


# -- pandas objects are matched by their index --------------------------------------------------


@examples(60)
@given(cases, betas)
def test_dataframe_rows_are_matched_by_id_in_any_order(case, beta):
    graph, X, y, rng = case
    n = graph.n_nodes
    expected = GPCA(2, beta=beta, tol=1e-10).fit_transform(X, y, graph=graph)
    frame, labels = pd.DataFrame(X, graph.node_ids), pd.Series(y, graph.node_ids)
    order, other = rng.permutation(n), rng.permutation(n)
    model = GPCA(2, beta=beta, tol=1e-10)
    Z = model.fit_transform(frame.iloc[order], labels.iloc[other], graph=graph)
    np.testing.assert_allclose(Z, expected[order], **CLOSE)
    some = rng.permutation(n)[: rng.integers(1, n + 1)]
    np.testing.assert_allclose(
        model.transform(frame.iloc[some], graph=graph), expected[some], **CLOSE
    )
    path = GPCAPath(2, alphas=[10.0], betas=[beta], tol=1e-10)
    path.fit(frame.iloc[order], labels.iloc[other], graph=graph)
    np.testing.assert_allclose(path.embedding(10.0, beta), expected[order], **CLOSE)


@examples(15)
@given(cases)
def test_classifier_matches_rows_labels_and_masks_by_id(case):
    graph, X, y, rng = case
    n = graph.n_nodes
    held = np.zeros(n, bool)
    held[[2, 3]] = True
    parameters = {"n_components": 2, "feature_scaling": "none", "C": 1.0, "tol": 1e-10}
    expected = GPCAClassifier(**parameters).fit(X, y, graph=graph, validation=held)
    ids = graph.node_ids
    frame, labels, mask = pd.DataFrame(X, ids), pd.Series(y, ids), pd.Series(held, ids)
    orders = [rng.permutation(n) for _ in range(3)]
    rows, labels, mask = (
        values.iloc[order] for values, order in zip((frame, labels, mask), orders, strict=True)
    )
    model = GPCAClassifier(**parameters).fit(rows, labels, graph=graph, validation=mask)
    np.testing.assert_allclose(
        model.label_distributions_, expected.label_distributions_[orders[0]], rtol=0, atol=1e-6
    )
    score = expected.score(X, y, graph=graph)
    assert model.score(frame, labels, graph=graph) == score


def two_groups():
    """A networkx graph of two groups, with nodes in another order than their sorted ids."""
    graph = nx.planted_partition_graph(2, 40, 0.3, 0.01, seed=1)
    names = np.random.default_rng(0).permutation([f"n{i}" for i in range(80)])
    truth = pd.Series(np.repeat([0, 1], 40), names)
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(80, 6)), names)
    X[0] += 2 * truth
    return nx.relabel_nodes(graph, dict(enumerate(names))), X, truth


def test_sorted_dataframe_with_a_networkx_graph_in_another_order():
    graph, X, truth = two_groups()
    X, y = X.sort_index(), truth.sort_index()
    y.iloc[10:] = -1
    model = GPCAClassifier().fit(X, y, graph=graph)
    accuracy = np.mean(model.transduction_ == truth.sort_index().to_numpy())
    assert accuracy > 0.95


NAMED = Graph.from_edges({"source": ["a", "b"], "target": ["b", "c"]})
ROWS = pd.DataFrame(np.eye(3), list("cab"))
MODEL = GPCA(2, beta=0.5)
LABELS = pd.Series([0, 1, -1], list("abc"))


@pytest.mark.parametrize(
    ("X", "y", "nodes", "message"),
    [
        (ROWS.rename({"a": "z"}), [0, 1, 0], None, "node id 'z' in X.index is not in the graph"),
        (ROWS.iloc[[0, 1, 1]], [0, 1, 0], None, "X.index has 'a' more than once"),
        (
            ROWS.reset_index(drop=True),
            [0, 1, 0],
            None,
            "X has pandas' default index .* such as 'a'",
        ),
        (ROWS, [0, 1, 0], [0, 1, 2], "row 0 of X has the index 'c', but nodes= has node 'a'"),
        (ROWS, LABELS.rename({"a": "z"}), None, "node id 'a' in X is not in y.index"),
        (ROWS, LABELS.reset_index(drop=True), None, "y has pandas' default index, but X has node"),
        (ROWS, LABELS.iloc[:2], None, "y has 2 values for 3 rows of X; give y the index of X"),
        (
            np.eye(3),
            LABELS.rename({"a": "z"}),
            None,
            "the index of y is not the node ids",
        ),
        (
            np.eye(3),
            LABELS.iloc[::-1],
            None,
            "X has no index to match it with; give X",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_index_that_does_not_match_raises(X, y, nodes, message):
    with pytest.raises(ValueError, match=message):
        MODEL.fit(X, y, graph=NAMED, nodes=nodes)


def test_rows_are_matched_by_position_if_there_are_no_ids():
    expected = GPCA(2).fit_transform(np.eye(3), graph=NAMED)
    unnamed = Graph(NAMED.adjacency)
    np.testing.assert_array_equal(GPCA(2).fit_transform(ROWS, graph=unnamed), expected)
    default = pd.DataFrame(np.eye(3))
    by_nodes = GPCA(2).fit_transform(default, graph=NAMED, nodes=[0, 1, 2])
    np.testing.assert_array_equal(by_nodes, expected)
    numbered = Graph(NAMED.adjacency, node_ids=[0, 1, 2])
    np.testing.assert_array_equal(GPCA(2).fit_transform(default, graph=numbered), expected)


def test_integer_node_ids_in_another_order_need_an_explicit_index():
    numbered = Graph(NAMED.adjacency, node_ids=[2, 0, 1])
    with pytest.raises(ValueError, match="default index"):
        GPCA(2).fit(pd.DataFrame(np.eye(3)), graph=numbered)
    X = pd.DataFrame(np.eye(3), [0, 1, 2])  # not a RangeIndex, so these are ids
    expected = GPCA(2).fit_transform(np.eye(3)[[2, 0, 1]], graph=Graph(NAMED.adjacency))
    np.testing.assert_allclose(GPCA(2).fit_transform(X, graph=numbered), expected[[1, 2, 0]])


def test_a_graph_without_ids_is_the_same_as_with_ids():
    model = GPCA(2).fit(np.eye(3), graph=NAMED, nodes=[0, 1, 2])
    some = model.transform(np.eye(3)[:1], graph=Graph(NAMED.adjacency), nodes=[0])
    np.testing.assert_allclose(some, model.transform(np.eye(3), graph=NAMED)[:1], atol=1e-12)


# -- the same graph with its nodes in another order or without ids --------------------------------


@examples(15)
@given(cases)
def test_a_graph_with_its_nodes_in_another_order_is_the_same(case):
    graph, X, y, rng = case
    n = graph.n_nodes
    frame, labels = pd.DataFrame(X, graph.node_ids), pd.Series(y, graph.node_ids)
    order = rng.permutation(n)
    other = graph.subgraph(order)
    parameters = {"feature_scaling": "none", "C": 1.0, "cv": 2, "tol": 1e-10}
    model = GPCAClassifier(2, correct=True, smooth=True, **parameters)
    model.fit(frame, labels, graph=graph)
    some = order[: rng.integers(1, n + 1)] if graph.n_edges else order
    found = model.predict_proba(frame.iloc[some], graph=other)
    if graph.n_edges:  # graphs without edges are never the same
        np.testing.assert_allclose(found, model.label_distributions_[some], rtol=0, atol=1e-6)
        embedding = GPCA(2, beta=0.5, tol=1e-10)
        Z = embedding.fit_transform(frame, labels, graph=graph)
        np.testing.assert_allclose(
            embedding.transform(frame.iloc[some], graph=other), Z[some], **CLOSE
        )


def test_a_model_fitted_on_rows_with_ids_refuses_a_graph_without_ids():
    model = GPCA(2).fit(ROWS, graph=NAMED)
    with pytest.raises(ValueError, match="was fitted on rows matched by node id, but this graph"):
        model.transform(ROWS, graph=Graph(NAMED.adjacency))


DATES = pd.date_range("2020-01-01", periods=3)
ZONED = DATES.tz_localize("UTC")
TIMES = pd.to_timedelta([1, 2, 3], "h")

#: Node ids, and an index of pandas with the same values.
DATES_AND_TIMES = {
    "DatetimeIndex": (DATES, DATES),
    "datetime64[ns]": (DATES.to_numpy(), DATES),
    "datetime64[D]": (DATES.to_numpy().astype("datetime64[D]"), DATES),
    "datetime objects": (DATES.to_pydatetime(), DATES),
    "a list of Timestamps": (list(DATES), DATES),
    "with a time zone": (ZONED, ZONED),
    "TimedeltaIndex": (TIMES, TIMES),
    "timedelta64[ns]": (TIMES.to_numpy(), TIMES),
}


@pytest.mark.parametrize("kind", DATES_AND_TIMES)
def test_dates_and_times_as_node_ids_match_an_index_of_pandas(kind):
    ids, index = DATES_AND_TIMES[kind]
    graph = Graph(NAMED.adjacency, node_ids=ids)
    X = pd.DataFrame(np.eye(3), index)
    expected = GPCA(2).fit_transform(np.eye(3), graph=NAMED)
    found = GPCA(2).fit_transform(X.iloc[[2, 0, 1]], graph=graph)
    np.testing.assert_allclose(found, expected[[2, 0, 1]], atol=1e-12)
    assert graph.positions(index[::-1]).tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="in ids is not in the graph"):
        graph.positions(index + pd.Timedelta(1, "s"))


def test_an_adjacency_dataframe_has_node_ids():
    adjacency = pd.DataFrame(NAMED.adjacency.toarray(), list("abc"), list("abc"))
    shuffled = adjacency.loc[list("cab"), list("cab")]
    assert Graph(shuffled).node_ids.tolist() == ["c", "a", "b"]
    np.testing.assert_allclose(
        GPCA(2).fit_transform(ROWS, graph=shuffled), GPCA(2).fit_transform(ROWS, graph=NAMED)
    )
    with pytest.raises(ValueError, match="same ids in the same order as index and columns"):
        Graph(adjacency.loc[list("cab")])


def test_integer_nodes_of_a_networkx_graph_in_another_order_are_ambiguous():
    graph = nx.Graph([(2, 0), (0, 1)])
    with pytest.raises(ValueError, match="row i of X may mean node i or the i-th node"):
        GPCA(2).fit(np.eye(3), graph=graph)
    by_id = GPCA(2).fit_transform(pd.DataFrame(np.eye(3), [0, 1, 2]), graph=graph)
    by_order = GPCA(2).fit_transform(np.eye(3)[[2, 0, 1]], graph=Graph.from_networkx(graph))
    np.testing.assert_allclose(by_id[[2, 0, 1]], by_order)


def test_nodes_are_used_if_the_index_has_no_node_ids():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(3, 3)))
    whole = GPCA(2).fit(X, graph=NAMED, nodes=[0, 1, 2])
    expected = whole.transform(X.to_numpy(), graph=NAMED, nodes=[0, 1, 2])
    np.testing.assert_allclose(
        whole.transform(X.iloc[[2, 1]], graph=NAMED, nodes=[2, 1]), expected[[2, 1]]
    )
    numbered = Graph(NAMED.adjacency, node_ids=[0, 1, 2])
    model = GPCA(2).fit(X, graph=numbered)
    np.testing.assert_allclose(model.transform(X.iloc[:2], graph=numbered), expected[:2])


def test_labels_are_used_by_position_if_their_index_has_no_node_ids():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(4, 3)))
    y = pd.Series([0, 0, 1, 1])
    graph = Graph(nx.to_numpy_array(nx.path_graph(4)), node_ids=list("abcd"))
    nodes = np.array([1, 2, 3])
    expected = MODEL.fit(X.to_numpy()[1:], y.to_numpy()[1:], graph=graph, nodes=nodes)
    expected = expected.components_.copy()
    renamed = X.set_axis(["r0", "r1", "r2", "r3"])
    for rows, labels in (
        (X.to_numpy()[1:], y.iloc[1:]),
        (X.iloc[1:], y.iloc[1:]),
        (renamed.iloc[1:], y.set_axis(renamed.index).iloc[1:]),
        (renamed.iloc[1:], y.iloc[1:]),
    ):
        model = MODEL.fit(rows, labels, graph=graph, nodes=nodes)
        np.testing.assert_array_equal(model.components_, expected)
    with pytest.raises(ValueError, match="the index of y is not the node ids"):
        MODEL.fit(X.to_numpy()[1:], y.set_axis(list("abcd")).iloc[:3], graph=graph, nodes=nodes)


def test_the_nodes_and_targets_of_fit_may_be_modified_later():
    graph, X, _, rng = random_case(0, 30)
    nodes, Y = rng.permutation(30)[:20], rng.normal(size=(20, 2))
    model = GPCA(2, alpha=5.0, beta=0.5).fit(X[nodes], Y, graph=graph, nodes=nodes)
    new = np.setdiff1d(np.arange(30), nodes)
    expected = model.transform(X[new], graph=graph, nodes=new)
    nodes[:], Y[:] = nodes[::-1].copy(), 0
    np.testing.assert_array_equal(model.transform(X[new], graph=graph, nodes=new), expected)


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]"])
def test_a_nullable_mask_is_matched_by_id(dtype):
    graph, X, y, rng = random_case(1, 30, names=True)
    held_out = np.zeros(30, bool)
    held_out[[2, 3]] = True
    mask = pd.Series(np.where(held_out, True, None), graph.node_ids).astype(dtype)
    frame = pd.DataFrame(X, graph.node_ids)
    expected, found = (
        GPCAClassifier(2, alpha=1.0).fit(frame, y, graph=graph, validation=validation)
        for validation in (held_out, mask.iloc[rng.permutation(30)])
    )
    np.testing.assert_array_equal(found.label_distributions_, expected.label_distributions_)


# -- labels ---------------------------------------------------------------------------------------

FORMS = {
    "integers": np.array([0, 1, -1, 0, 1, -1]),
    "floats with NaN": np.array([0, 1, np.nan, 0, 1, -1.0]),
    "numbers and None": np.array([0, 1, None, 0, 1, -1], object),
    "a list with None": [0, 1, None, 0, 1, -1],
    "text with empty text": np.array(["a", "b", "", "a", "b", "-1"]),
    "text and -1": ["a", "b", -1, "a", "b", None],
    "object text and '-1'": np.array(["a", "b", "-1", "a", "b", np.nan], object),
    "pandas' nullable integers": pd.Series([0, 1, None, 0, 1, -1], dtype="Int64"),
    "pandas' strings": pd.Series(["a", "b", None, "a", "b", ""], dtype="string"),
    "pandas' nullable booleans": pd.Series([False, True, None] * 2, dtype="boolean"),
    "integers of Arrow": pd.Series([0, 1, None, 0, 1, -1], dtype="int64[pyarrow]"),
    "integers of a table": pd.DataFrame({"y": pd.array([0, 1, None, 0, 1, -1], "Int64")}),
    "categorical integers": pd.Series([0, 1, None, 0, 1, None], dtype="category"),
    "a categorical": pd.Series(["a", "b", None, "a", "b", None], dtype="category"),
    "a masked array": np.ma.masked_array([0, 1, 9, 0, 1, 9], [False, False, True] * 2),
    "masked text": np.ma.masked_array(list("abzabz"), [False, False, True] * 2),
    "booleans and None": np.array([False, True, None, False, True, None], object),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_types_of_labels_give_the_same_result(form):
    X = np.random.default_rng(0).normal(size=(6, 3))
    graph = Graph.from_edge_index([[0, 1, 2, 3, 4, 5], [3, 4, 5, 0, 1, 2]])
    expected = GPCA(2, beta=0.5).fit_transform(X, FORMS["integers"], graph=graph)
    np.testing.assert_array_equal(
        GPCA(2, beta=0.5).fit_transform(X, FORMS[form], graph=graph), expected
    )
    model = GPCAClassifier().fit(X, FORMS[form], graph=graph)
    assert len(model.classes_) == 2
    if "integers" in form or "booleans" in form:
        assert model.classes_.dtype == (bool if "booleans" in form else np.int64)
    assert set(model.transduction_.tolist()) <= set(model.classes_.tolist())


def test_words_for_missing_values_mean_unlabelled_with_a_warning():
    X = np.random.default_rng(0).normal(size=(6, 3))
    with pytest.warns(UserWarning, match=r"y: 'NA' \(2 of the labels\) means unlabelled; rename"):
        model = GPCAClassifier().fit(X, ["a", "b", "NA", "a", "b", "NA"])
    assert model.classes_.tolist() == ["a", "b"]


@examples(12)
@given(cases, st.permutations(["ant", "bee"]))
def test_renaming_the_classes_renames_the_predictions(case, names):
    graph, X, y, _ = case
    named = np.where(y >= 0, np.array(names, object)[y], None)
    parameters = {"n_components": 2, "feature_scaling": "none", "C": 1.0, "cv": 3}
    expected = GPCAClassifier(**parameters).fit(X, y, graph=graph)
    model = GPCAClassifier(**parameters).fit(X, named, graph=graph)
    order = [model.classes_.tolist().index(name) for name in names]
    # L-BFGS stops at a gradient of 1e-4.
    np.testing.assert_allclose(
        model.label_distributions_[:, order], expected.label_distributions_, atol=1e-3
    )


@examples(12)
@given(cases)
def test_folds_do_not_depend_on_the_order_of_rows(case):
    graph, X, y, rng = case
    parameters = {"n_components": 2, "feature_scaling": "none", "C": 1.0, "cv": 3, "tol": 1e-10}
    expected = GPCAClassifier(**parameters).fit(X, y, graph=graph)
    order = rng.permutation(graph.n_nodes)
    model = GPCAClassifier(**parameters).fit(X[order], y[order], graph=graph, nodes=order)
    assert model.validation_score_ == expected.validation_score_
    np.testing.assert_allclose(
        model.label_distributions_, expected.label_distributions_[order], rtol=0, atol=1e-3
    )


@examples(60)
@given(cases, betas, st.floats(0, 50))
def test_permuting_features_permutes_the_components(case, beta, alpha):
    graph, X, y, rng = case
    order = rng.permutation(X.shape[1])
    one = GPCA(2, alpha=alpha, beta=beta, tol=1e-10).fit(X, y, graph=graph)
    other = GPCA(2, alpha=alpha, beta=beta, tol=1e-10).fit(X[:, order], y, graph=graph)
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=1e-7)
    cosines = np.abs(np.sum(one.components_[:, order] * other.components_, axis=1))
    gap = (
        np.diff(
            np.append(
                one.eigenvalues_,
                GPCA(3, alpha=alpha, beta=beta).fit(X, y, graph=graph).eigenvalues_[2],
            )
        ).max()
        / -one.eigenvalues_[0]
    )
    if gap > 1e-4:  # components of repeated eigenvalues are not unique
        np.testing.assert_allclose(cosines, 1, atol=1e-6)


def test_score_refuses_labels_of_another_type_and_invalid_weights():
    X = np.random.default_rng(0).normal(size=(6, 3))
    y = ["a", "b"] * 3
    model = GPCAClassifier().fit(X, y)
    with pytest.raises(TypeError, match="y has labels such as 0, but the classes are 'a'"):
        model.score(X, [0, 1] * 3)
    assert model.score(X, np.array(y, object)) == model.score(X, y)
    numbers = GPCAClassifier().fit(X, [0, 1] * 3)
    for text in (np.array(["0", "1"] * 3), np.array(["0", "1"] * 3, object)):
        with pytest.raises(TypeError, match="y has labels such as '0', but the classes are 0"):
            numbers.score(X, text)
    assert model.score(X, y, sample_weight=[1, 0, 0, 0, 0, 0]) in (0.0, 1.0)
    for weights in ([1.0], [0.0] * 6, [-1.0] * 6):
        with pytest.raises(ValueError, match="sample_weight must have a number of at least 0 for"):
            model.score(X, y, sample_weight=weights)
    with pytest.raises(NotFittedError):
        GPCAClassifier().score(X, y)


@pytest.mark.parametrize("argument", ["y", "sample_weight", "validation"])
def test_series_in_another_order_than_x_are_matched_by_its_index(argument):
    """With nodes, the index of X need not hold node ids; then it is that of y all the same."""
    rng = np.random.default_rng(0)
    y, names = np.arange(60) % 2, [f"row {i}" for i in range(60)]
    X = pd.DataFrame(rng.normal(size=(60, 4)) + 2 * y[:, None], index=names)
    A = sp.random_array((60, 60), density=0.05, rng=rng)
    graph = Graph(A + A.T, node_ids=[f"node {i}" for i in range(60)])
    values = {
        "y": y, "sample_weight": rng.uniform(0.1, 3, 60), "validation": np.arange(60) % 3 == 0,
    }  # fmt: skip
    series = {name: pd.Series(one, index=names) for name, one in values.items()}
    fits = []
    for order in (np.arange(60), rng.permutation(60)):
        given = series | {argument: series[argument].iloc[order]}
        model = GPCAClassifier(2, alpha=1.0, n_members=1)
        fits.append(model.fit(X, graph=graph, nodes=np.arange(60), **given).label_distributions_)
    np.testing.assert_array_equal(*fits)
