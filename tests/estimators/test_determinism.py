"""Results are identical between processes and equal up to rounding between thread counts."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import sys
import numpy as np, scipy.sparse as sp
import gpcanet.linalg.operators.propagation as propagation
from gpcanet import GPCA, Graph

rng = np.random.default_rng(0)
# 60 components of 12 nodes each (rings with a chord), and 30 isolated nodes.
ring = [(i, (i + 1) % 12) for i in range(12)] + [(0, 6)]
edges = np.vstack([np.array(ring) + 12 * part for part in range(60)]).T
graph = Graph.from_edge_index(np.hstack([edges, edges[::-1]]), n_nodes=750)
assert graph.n_connected_components == 90
X = rng.standard_normal((750, 20)) * np.linspace(3, 1, 20)
labels = np.where(rng.random(750) < 0.3, rng.integers(0, 4, 750), -1)
results = {}
for path, work in (("scipy", float("inf")), ("compiled", 0)):
    propagation.FUSED_WORK = work
    for method in ("direct-lanczos", "direct-formed", "chebyshev-formed", "cg-formed"):
        solver, eigen_solver = method.split("-")
        model = GPCA(4, beta=0.2, solver=solver, eigen_solver=eigen_solver, tol=1e-10)
        results[f"{path}-{method}"] = model.fit_transform(X, labels, graph=graph)
np.savez(sys.argv[1], **results)
"""

CASES = [
    f"{path}-{method}"
    for path in ("scipy", "compiled")
    for method in ("direct-lanczos", "direct-formed", "chebyshev-formed", "cg-formed")
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Embeddings of two processes on one thread and two on two threads."""
    folder = tmp_path_factory.mktemp("runs")
    results = {}
    for threads in (1, 2):
        limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        for attempt in (1, 2):
            file = folder / f"{threads}-{attempt}.npz"
            # A new hash seed each time: results must not depend on the order of a set.
            environment = {**os.environ, **limits, "PYTHONHASHSEED": str(attempt)}
            subprocess.run([sys.executable, "-c", SCRIPT, file], env=environment, check=True)
            with np.load(file) as arrays:
                results[threads, attempt] = dict(arrays)
    return results


def digest(Z) -> str:
    return hashlib.sha256(Z.tobytes()).hexdigest()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_two_processes_give_identical_results(runs, threads, case):
    assert digest(runs[threads, 1][case]) == digest(runs[threads, 2][case])


@pytest.mark.parametrize("case", CASES)
def test_thread_counts_agree_up_to_rounding(runs, case):
    """BLAS splits its sums by threads, so the last digits may differ."""
    np.testing.assert_allclose(runs[1, 1][case], runs[2, 1][case], rtol=0, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_all_solvers_find_the_same_embedding_on_a_disconnected_graph(runs, case):
    expected = runs[1, 1]["scipy-direct-formed"]
    assert np.abs(expected).max() > 1
    # A residual of 1e-10 divided by the relative eigenvalue gap of about 1e-2.
    np.testing.assert_allclose(runs[1, 1][case], expected, rtol=0, atol=1e-6)
