"""Compatibility with scikit-learn: estimator checks, pipelines, cross-validation."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpcanet import GPCA, GPCAClassifier, GPCAPath, GPCARegressor, GraphImputer
from gpcanet.datasets import block_model

# Checks that cannot pass, with the reason. A check listed here that passes is a failure.
EXPECTED_FAILURES = {
    "GPCA": {},
    "GPCAPath": {},
    "GPCARegressor": {
        f"check_sample_weight_equivalence_on_{kind}_data": "weights apply to the regressions; the "
        "embedding is that of all rows"
        for kind in ("dense", "sparse")
    },
    "GraphImputer": {},
    "GPCAClassifier": {
        "check_classifiers_classes": "uses -1 as a class, which marks unlabelled nodes here (as "
        "in sklearn.semi_supervised, which the check exempts by name)",
        "check_sample_weight_equivalence_on_dense_data": "a row of weight 0 is part of the "
        "embedding like an unlabelled one; removing it is not the same",
        "check_sample_weight_equivalence_on_sparse_data": "the same",
        "check_class_weight_classifiers": "sets n_iter, which solver='auto' does not have here",
    },
}


# One alpha and two folds: the checks fit hundreds of times and test the interface only.
@parametrize_with_checks(
    [
        GPCA(),
        GPCAPath(),
        GPCARegressor(alpha=10.0),
        GraphImputer(),
        GPCAClassifier(alpha=10.0, cv=2),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[type(estimator).__name__],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return block_model(300, 1500, n_features=20, n_classes=3, homophily=0.9, feature_noise=4.0)


@pytest.fixture
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("_routing")
def test_pipeline_passes_the_graph_to_fit_and_predict(data):
    pipeline = make_pipeline(StandardScaler(), GPCA(8), LogisticRegression())
    pipeline.fit(data.X, data.y, graph=data.graph)
    predicted = pipeline.predict(data.X, graph=data.graph)
    scaled = StandardScaler().fit_transform(data.X)
    Z = GPCA(8).fit_transform(scaled, graph=data.graph)
    np.testing.assert_array_equal(predicted, LogisticRegression().fit(Z, data.y).predict(Z))


@pytest.mark.usefixtures("_routing")
def test_grid_search_uses_the_graph(data):
    # The features are noisy, so alpha > 0 is better only if the graph is used.
    pipeline = make_pipeline(GPCA(8), LogisticRegression(max_iter=1000))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, {"gpca__alpha": [0.0, 10.0]}, cv=folds, error_score="raise")
    search.fit(data.X, data.y, graph=data.graph, nodes=np.arange(len(data.y)))
    without, with_graph = search.cv_results_["mean_test_score"]
    assert search.best_params_ == {"gpca__alpha": 10.0}
    assert with_graph > without + 0.1


@pytest.mark.usefixtures("_routing")
def test_cross_validation_of_the_classifier(data):
    model = GPCAClassifier(8, alpha=10.0, C=1.0, feature_scaling="none", normalize_embedding=False)
    scores = cross_validate(
        model,
        data.X,
        data.y,
        cv=3,
        params={"graph": data.graph, "nodes": np.arange(len(data.y))},
        error_score="raise",
    )
    assert scores["test_score"].mean() > 0.85


def test_cross_validation_without_nodes_raises_with_advice(data):
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(ValueError, match=r"nodes=np.arange\(len\(X\)\)"),
    ):
        cross_validate(
            GPCAClassifier(), data.X, data.y, params={"graph": data.graph}, error_score="raise"
        )


def test_cross_validation_with_a_sparse_matrix_as_graph_raises_with_advice(data):
    params = {"graph": data.graph.adjacency, "nodes": np.arange(len(data.y))}
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(ValueError, match="in cross-validation pass a Graph, because scikit-learn"),
    ):
        cross_validate(GPCAClassifier(), data.X, data.y, params=params, error_score="raise")


def test_pandas_output_keeps_index_and_has_feature_names(data):
    index = [f"node {i}" for i in range(len(data.y))]
    X = pd.DataFrame(data.X, index=index, columns=[f"f{j}" for j in range(data.X.shape[1])])
    model = GPCA(2).set_output(transform="pandas").fit(X, graph=data.graph)
    assert list(model.feature_names_in_) == list(X.columns)
    for Z in (model.fit_transform(X, graph=data.graph), model.transform(X, graph=data.graph)):
        assert list(Z.columns) == ["gpca0", "gpca1"]
        assert list(Z.index) == index


def test_clone_copies_parameters_and_no_learned_attributes(data):
    model = GPCAClassifier(4, alpha=[1.0, 2.0], beta=0.1).fit(data.X, data.y, graph=data.graph)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "classes_")


def test_the_setting_of_the_paper(data):
    model = GPCA(4, solver="fixed-point", n_iter=5).fit(data.X, graph=data.graph)
    assert model.n_iter_ == 5
    assert np.isnan(model.residual_)  # the residual of a truncated iteration is not computed
