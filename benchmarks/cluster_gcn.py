"""Training in parts (ClusterGCN) beside training on the whole graph: accuracy, seconds, memory.

python benchmarks/cluster_gcn.py [--nodes 500000] [--out FILE]

Each in a process of its own, on the same generated graph, from the same weights.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

EDGES_PER_NODE, N_FEATURES, N_CLASSES = 8, 64, 16
WAYS: dict[str, dict[str, Any]] = {
    "whole": {"parts": 1},
    "parts": {"parts": 100, "parts_per_batch": 5},
}
EPOCHS = {"whole": 60, "parts": 6}  # 20 steps an epoch in parts


def measure(way: str, n_nodes: int) -> dict[str, Any]:
    from gpcanet.datasets import block_model
    from gpcanet.nn import NodeData, Settings, train
    from gpcanet.nn.training.zoo import build_initialized_model

    data = NodeData.of(
        block_model(
            n_nodes, EDGES_PER_NODE * n_nodes, n_features=N_FEATURES, n_classes=N_CLASSES,
            homophily=0.5, feature_noise=6.0,
        )
    )  # fmt: skip
    model, _ = build_initialized_model("gcn", data, init="gpca", layers=3, hidden=128, dropout=0.2)
    settings = Settings(epochs=EPOCHS[way], lr=0.01, weight_decay=0.0, eval_every=2, **WAYS[way])
    result = train(model, data, settings)
    return {
        "way": way,
        "test": result.accuracy["test"],
        "first": result.curve[0]["test"],
        "epochs": result.epochs,
        "seconds": round(result.seconds, 1),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=500_000)
    parser.add_argument("--out")
    parser.add_argument("--way", choices=WAYS, help="measure one way in this process")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.nodes)))
        return
    rows = []
    for way in WAYS:
        command = [sys.executable, __file__, "--nodes", str(options.nodes), "--way", way]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{way}: {(done.stderr.strip().splitlines() or ['killed'])[-1]}")
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{rows[0]['nodes']:,} nodes, {rows[0]['edges']:,} edges\n")
    print("| | test % | epochs | seconds | peak of the process |\n|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['way']} | {100 * row['test']:.1f} | {row['epochs']} | {row['seconds']:.0f} "
            f"| {row['peak_bytes'] / 2**30:.2f} GiB |"
        )
    if options.out:
        Path(options.out).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
