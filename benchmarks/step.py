"""One propagation step on a graph of ogbn-arxiv's size: ours, scipy's and torch's.

Run with ``make bench``, or alone: ``python benchmarks/step.py --save``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from measure import arguments, interleaved, save

from gpcanet.datasets import block_model
from gpcanet.linalg import HalfPropagation, Propagation
from gpcanet.linalg.reorder import locality_order

N_NODES, N_EDGES, N_FEATURES = 169_343, 1_166_243, 128
ALPHA = 10.0


def main() -> None:
    options = arguments(__doc__)
    data = block_model(N_NODES, N_EDGES, n_features=N_FEATURES, n_classes=40)
    graph, X = data.graph, np.asarray(data.X)
    c = ALPHA / (1 + ALPHA)
    F = np.random.default_rng(0).standard_normal(X.shape, dtype=np.float32)

    ours = Propagation(graph.indptr, graph.indices, dtype=np.float32, reorder=True)
    as_given = Propagation(graph.indptr, graph.indices, dtype=np.float32)
    blocks = [(P.scaled(P.enter(F), 1.0), P.enter(X), np.zeros_like(F)) for P in (ours, as_given)]

    degrees = np.diff(graph.indptr) + 1.0
    scale = sp.diags_array((degrees**-0.5).astype(np.float32))
    loops = sp.eye_array(graph.n_nodes, dtype=np.float32)
    P_scipy = (scale @ (graph.adjacency.astype(np.float32) + loops) @ scale).tocsr()

    half = HalfPropagation(ours)
    X16 = half.enter(X)
    F16, out16 = half.scaled(half.enter(F), 1.0), half.scaled(X16, 0.0)

    tasks: dict[str, Callable[[], Any]] = {
        "gpcanet": lambda: ours.step(*blocks[0], c, 1 - c, 0.0),
        "  half precision": lambda: half.step(F16, X16, out16, c, 1 - c, 0.0),
        "  nodes as given": lambda: as_given.step(*blocks[1], c, 1 - c, 0.0),
        "scipy": lambda: np.float32(c) * (P_scipy @ F) + np.float32(1 - c) * X,
    }
    try:
        import torch
    except ImportError:
        print("torch is not installed: skipped")
    else:
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        P_torch = torch.sparse_csr_tensor(
            torch.from_numpy(P_scipy.indptr),
            torch.from_numpy(P_scipy.indices), torch.from_numpy(P_scipy.data),
            size=P_scipy.shape, check_invariants=False,
        )  # fmt: skip
        F_torch, X_torch = torch.from_numpy(F), torch.from_numpy(X)
        tasks["torch sparse CSR"] = lambda: c * (P_torch @ F_torch) + (1 - c) * X_torch

    error = np.abs(ours.leave(tasks["gpcanet"]().copy(), blocks[0][1]) - tasks["scipy"]()).max()
    seconds = interleaved(tasks, options.repeats)
    print(f"{graph.n_nodes:,} nodes, {graph.n_edges:,} edges, {N_FEATURES} columns, float32")
    for name, value in seconds.items():
        ratio = value / seconds["gpcanet"]
        print(f"{name:18s} {1000 * value:7.1f} ms   {ratio:4.1f} x gpcanet")
    ordering = interleaved({"order": lambda: locality_order(graph.indptr, graph.indices)}, 3)
    print(f"finding the order, once a graph: {1000 * ordering['order']:.0f} ms")
    print(f"largest difference to scipy: {error:.1e}")
    if options.save:
        save("step", {"seconds": seconds | ordering, "largest_difference": float(error)})


if __name__ == "__main__":
    main()
