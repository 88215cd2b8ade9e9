"""Spots of a generated tissue with known domains: GPCA next to PCA and st-graphpca.

Each method runs in a new process with a time limit. Agreement is the adjusted Rand index of the
domains and k-means on the embedding.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph
from threadpoolctl import threadpool_limits

from gpcanet.datasets import Dataset
from gpcanet.graph import Graph

from . import child
from .baselines import ALPHA
from .config import Config
from .peers import st_graphpca
from .timing import Outcome, summarize_times

N_GENES, N_DOMAINS, COMPONENTS = 1_000, 8, 20

#: Share of the genes that differ between domains, and the standard deviation of their log rates.
MARKER_SHARE, MARKER_STRENGTH = 0.1, 0.6

#: Expected number of counts in a spot.
COUNTS = 60.0

#: Neighbours of a spot in the hexagonal array.
N_NEIGHBORS = 6

#: Seconds after which a method is stopped.
TIME_LIMIT = 900.0

#: A method that takes longer than this is run only once.
LONG_SECONDS = 60.0


def generate(n_spots: int) -> Dataset:
    """Log counts of spots on a hexagonal array, whose rates depend on their domain."""
    rng = np.random.default_rng(0)
    side = int(np.ceil(np.sqrt(n_spots)))
    row, column = np.divmod(np.arange(n_spots), side)
    place = np.column_stack([(column + 0.5 * (row % 2)) / side, row * np.sqrt(0.75) / side])
    seeds = rng.random((3 * N_DOMAINS, 2)) * [1, np.sqrt(0.75)]
    distances = ((place[:, None, :] - seeds) ** 2).sum(axis=2)
    domains = distances.argmin(axis=1) % N_DOMAINS
    rates = rng.gamma(0.5, size=N_GENES) * np.ones((N_DOMAINS, 1))
    is_marker = rng.random(N_GENES) < MARKER_SHARE
    rates *= np.exp(MARKER_STRENGTH * is_marker * rng.standard_normal((N_DOMAINS, N_GENES)))
    rates *= COUNTS / rates.sum(axis=1, keepdims=True)
    blocks = []
    for begin in range(0, n_spots, 10_000):  # a dense block at a time
        part = domains[begin : begin + 10_000]
        depth = rng.lognormal(0.0, 0.3, (len(part), 1))
        counts = sp.csr_array(rng.poisson(depth * rates[part]).astype(np.float32))
        totals = np.maximum(counts.sum(axis=1), 1)
        scaled = sp.csr_array(sp.diags_array((COUNTS / totals).astype(np.float32)) @ counts)
        blocks.append(scaled.log1p())
    near = kneighbors_graph(place, N_NEIGHBORS)
    graph = Graph(near.maximum(near.T))
    return Dataset("tissue", graph, sp.csr_array(sp.vstack(blocks)), domains)


def _gpca(data: Dataset) -> Callable[[], np.ndarray]:
    from anndata import AnnData

    from gpcanet.integrations.anndata import gpca

    adata = AnnData(sp.csr_matrix(data.X))
    adata.obsp["spatial_connectivities"] = sp.csr_matrix(data.graph.adjacency)

    def run() -> np.ndarray:
        gpca(adata, COMPONENTS, alpha=ALPHA, neighbors_key="spatial_connectivities")
        return np.asarray(adata.obsm["X_gpca"])

    return run


def _pca(data: Dataset) -> Callable[[], np.ndarray]:
    model = PCA(COMPONENTS, svd_solver="arpack", random_state=0)  # as scanpy.pp.pca
    return lambda: np.asarray(model.fit_transform(sp.csr_matrix(data.X)))


#: Functions that convert the data, which is not timed, and return the function to be timed.
METHODS: dict[str, Callable[[Dataset], Callable[[], np.ndarray]]] = {
    "gpca(adata)": _gpca,
    "PCA": _pca,
    "st-graphpca": partial(st_graphpca, is_corrected=False, n_components=COMPONENTS),
    "st-graphpca, corrected": partial(st_graphpca, is_corrected=True, n_components=COMPONENTS),
    # Its Laplacian is not normalised: this lambda has the strength of ALPHA on six neighbours.
    "st-graphpca, corrected, lambda 1.67": partial(
        st_graphpca, is_corrected=True, n_components=COMPONENTS, _lambda=ALPHA / N_NEIGHBORS
    ),
    "st-graphpca, exact": partial(
        st_graphpca, is_corrected=False, n_components=COMPONENTS, mode="exact"
    ),
}

#: The largest tissue for st-graphpca's exact mode, which inverts a dense matrix.
EXACT_SPOTS = 12_000


def measure(method: str, n_spots: int) -> Outcome:
    """Seconds, peak memory and agreement of a method in this process."""
    data = generate(n_spots)
    run = METHODS[method](data)
    times: list[float] = []
    cpu_times: list[float] = []
    peaks: list[int] = []
    Z = np.empty(0)
    while not times or (len(times) < 3 and times[0] < LONG_SECONDS):
        start, cpu_start = time.perf_counter(), time.process_time()
        with threadpool_limits(1, user_api="blas"), child.Memory() as memory:
            Z = run()
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu_start)
        peaks.append(memory.peak - memory.before)
    clusters = KMeans(N_DOMAINS, n_init=5, random_state=0).fit_predict(Z)
    return {
        **summarize_times(times),
        "cpu_seconds": min(cpu_times),
        "extra_bytes": max(peaks),
        "agreement": float(adjusted_rand_score(data.y, clusters)),
        "edges": data.graph.n_edges,
    }


def run(config: Config) -> dict[str, Any]:
    tissues = []
    for n_spots in config.size.tissue_spots:
        config.log(f"tissue of {n_spots:,} spots: {len(METHODS)} methods")
        methods: dict[str, Outcome] = {}
        for method in METHODS:
            if method.endswith("exact") and n_spots > EXACT_SPOTS:
                size = 8 * n_spots**2 / 2**30
                methods[method] = {"skipped": f"inverts a dense matrix of {size:,.0f} GiB"}
                continue
            methods[method] = child.run_in_process(
                "tissue.measure", timeout=TIME_LIMIT, method=method, n_spots=n_spots
            )
        tissues.append({"spots": n_spots, "methods": methods})
    return {
        "genes": N_GENES,
        "domains": N_DOMAINS,
        "components": COMPONENTS,
        "alpha": ALPHA,
        "time_limit": TIME_LIMIT,
        "tissues": tissues,
    }
