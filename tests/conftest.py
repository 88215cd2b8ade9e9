"""Fixtures shared by all tests. The functions that create the data are in truth.py."""

import pytest
from threadpoolctl import threadpool_limits
from truth import KINDS, random_features, random_graph, random_labels

import gpcanet.linalg.operators.propagation


@pytest.fixture(autouse=True, scope="session")
def _one_blas_thread():
    """Limit BLAS to one thread: two wait for each other in the small matrices of the tests."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(params=list(KINDS))
def any_graph(request):
    """Graphs with 40 nodes: plain, weighted, disconnected, and with isolated nodes."""
    return random_graph(**KINDS[request.param])


@pytest.fixture
def graph():
    """A weighted graph with 40 nodes: two connected parts and four isolated nodes."""
    return random_graph(**KINDS["isolated"])


@pytest.fixture
def X():
    return random_features()


@pytest.fixture
def labels():
    return random_labels()


@pytest.fixture
def compiled(monkeypatch):
    """Use the compiled kernels for blocks of any size."""
    monkeypatch.setattr(gpcanet.linalg.operators.propagation, "FUSED_WORK", 0)


@pytest.fixture(params=["scipy", "compiled"])
def either_path(request, monkeypatch):
    """Run the test with both implementations of the propagation step."""
    work = 0 if request.param == "compiled" else float("inf")
    monkeypatch.setattr(gpcanet.linalg.operators.propagation, "FUSED_WORK", work)
