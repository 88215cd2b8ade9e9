"""Seconds and peak memory of generating a graph of ogbn-products' size.

Run with ``make bench``, or alone: ``python benchmarks/generate.py``.
"""

from __future__ import annotations

import resource
import time

from measure import arguments, save

from gpcanet.datasets import block_model


def main() -> None:
    options = arguments(__doc__)
    start = time.perf_counter()
    data = block_model(2_449_029, 61_859_140, n_features=100, n_classes=47)
    results = {
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "seconds": time.perf_counter() - start,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print("   ".join(f"{what} {value:,.6g}" for what, value in results.items()))
    if options.save:
        save("generate", results)


if __name__ == "__main__":
    main()
