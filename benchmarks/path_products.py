"""What makes a path on wide sparse features quick, part by part and on one core.

python benchmarks/path_products.py [cora | citeseer] [--components 64]

Products with X^T (I + alpha L)^-1 X and the factorisation behind them, compiled and by scipy; the
space that Lanczos takes with the matrix and with its square; a few eigenvectors of a dense matrix
by Lanczos and by LAPACK. The least of several times counts, and the ways take turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from unittest import mock

import numpy as np
import scipy.sparse as sp

from gpcanet.datasets import load
from gpcanet.gpca import default_tol
from gpcanet.linalg import (
    CenteredFeatures,
    FactoredProducts,
    Propagation,
    Solver,
    leading_eigenpairs_by_blocks,
    one_blas_thread,
    whole_eigenpairs,
)
from gpcanet.linalg.factored import COLUMNS
from gpcanet.linalg.lanczos import KrylovSpace

ALPHA, REPEATS = 10.0, 20
ANGLE = default_tol(np.float32)


def least(ways: dict[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, float]:
    """Seconds of each way, by turns."""
    seconds = dict.fromkeys(ways, np.inf)
    for _ in range(repeats):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            seconds[name] = min(seconds[name], time.perf_counter() - begin)
    return seconds


def space_size(find: Callable[[], object]) -> int:
    """Dimensions of the Krylov space in which the vectors were found."""
    sizes, vectors = [], KrylovSpace.vectors

    def noted(space: KrylovSpace, U: np.ndarray) -> np.ndarray:
        sizes.append(space.size)
        return vectors(space, U)

    with mock.patch.object(KrylovSpace, "vectors", noted):
        find()
    return sizes[-1]


def compare_products(name: str, k: int) -> None:
    data = load(name)
    X = CenteredFeatures(sp.csr_array(data.X, dtype=np.float64))
    P = Propagation(data.graph.indptr, data.graph.indices, data.graph.weights)
    products, solver = FactoredProducts(X, P), Solver(P, ALPHA, method="direct")
    M, d = products.matrix(P, ALPHA), X.shape[1]
    V = np.random.default_rng(0).standard_normal((d, COLUMNS))

    def by_scipy() -> np.ndarray:
        return X.transposed_dot(solver.apply(X @ V))

    np.testing.assert_allclose(M(V), by_scipy(), rtol=1e-9, atol=1e-9 * np.abs(M(V)).max())
    for name, seconds in least({"compiled": lambda: M(V), "scipy": by_scipy}).items():
        print(f"a product, {name}: {1e6 * seconds / COLUMNS:.0f} microseconds a vector")
    ways = {
        "compiled": lambda: products.matrix(P, ALPHA),
        "SuperLU": lambda: Solver(P, ALPHA, method="direct"),
    }
    for name, seconds in least(ways).items():
        print(f"a factorisation, {name}: {1e3 * seconds:.1f} ms")
    for name, options in {"the matrix": {}, "its square": {"squared": M.squared}}.items():

        def find(options: dict[str, object] = options) -> object:
            return leading_eigenpairs_by_blocks(M, d, k, angle=ANGLE, **options)

        seconds = least({name: find}, 5)[name]
        print(f"{k} components from {name}: {space_size(find)} dimensions, {1e3 * seconds:.0f} ms")


def compare_eigenpairs(d: int, k: int) -> None:
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))[0]
    M = (Q * np.arange(1, d + 1.0) ** -0.8) @ Q.T
    ways = {
        "Lanczos": lambda: leading_eigenpairs_by_blocks(lambda V: M @ V, d, k, angle=ANGLE),
        "LAPACK": lambda: whole_eigenpairs(M, k),
    }
    for name, seconds in least(ways, 5).items():
        print(f"{k} eigenvectors of {d} rows, {name}: {1e3 * seconds:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", nargs="?", default="cora", choices=("cora", "citeseer"))
    parser.add_argument("--components", type=int, default=64)
    given = parser.parse_args()
    with one_blas_thread():
        compare_products(given.dataset, given.components)
        for d, k in ((500, 64), (1000, 100)):
            compare_eigenpairs(d, k)


if __name__ == "__main__":
    main()
