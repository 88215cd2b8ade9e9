"""Seconds and memory of an epoch of a 3-layer, 256-wide GCN on a graph of ogbn-arxiv's size.

python benchmarks/gcn_epoch.py [--edges 1166243] [--rounds 3] [--out FILE]

The ways take turns, each round in a process of its own; the least seconds count. All train the
same weights on the same graph, and the losses after the last epoch are compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

N_FEATURES, N_CLASSES, HIDDEN, LAYERS = 128, 40, 256, 3
EDGES_PER_NODE = 1_166_243 / 169_343


def inputs(way: str, data: Any) -> tuple[Any, tuple[Any, ...]]:
    """The model and what it takes besides x."""
    import numpy as np
    import torch
    import torch_geometric.nn as pyg
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    from gpcanet.nn import GCN, GraphPropagation

    torch.manual_seed(0)
    model = GCN(N_FEATURES, HIDDEN, LAYERS, N_CLASSES)
    if way == "gpcanet":
        return model, (GraphPropagation(data.graph),)
    theirs = pyg.GCN(N_FEATURES, HIDDEN, LAYERS, N_CLASSES, cached=True)
    if way == "PyG, sparse CSR":  # normalised beforehand, which is the quickest way to use it
        theirs = pyg.GCN(N_FEATURES, HIDDEN, LAYERS, N_CLASSES, normalize=False)
    theirs.load_state_dict(model.state_dict())
    rows = np.repeat(np.arange(data.graph.n_nodes), np.diff(data.graph.indptr))
    edge_index = torch.from_numpy(np.stack([data.graph.indices.astype(np.int64), rows]))
    if way == "PyG, edge_index":
        return theirs, (edge_index,)
    n = data.graph.n_nodes
    edge_index, weights = gcn_norm(edge_index, num_nodes=n)
    adjacency = torch.sparse_coo_tensor(edge_index.flip(0), weights, (n, n)).to_sparse_csr()
    return theirs, (adjacency,)


WAYS = ("gpcanet", "PyG, sparse CSR", "PyG, edge_index")


def measure(way: str, n_edges: int, epochs: int) -> dict[str, Any]:
    """In this process: seconds of each epoch after the first, and the most memory beyond data."""
    import numpy as np
    import torch

    from benchmarks.child import Memory
    from gpcanet.datasets import block_model

    data = block_model(
        round(n_edges / EDGES_PER_NODE), n_edges, n_features=N_FEATURES, n_classes=N_CLASSES
    )
    x, y = torch.from_numpy(np.asarray(data.X)), torch.from_numpy(data.y)
    train = torch.from_numpy(data.train)
    model, edges = inputs(way, data)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    times, loss = [], torch.tensor(0.0)
    with Memory() as memory:
        for _ in range(epochs + 1):
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x, *edges)[train], y[train])
            loss.backward()
            optimizer.step()
            times.append(time.perf_counter() - start)
    return {
        "way": way,
        "seconds": min(times[1:]),
        "peak_bytes": memory.peak - memory.before,
        "loss": loss.item(),
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
    }


def compare(n_edges: int, rounds: int, epochs: int) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            command = [sys.executable, __file__, "--edges", str(n_edges), "--epochs", str(epochs)]
            done = subprocess.run(
                [*command, "--way", way], capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"{way}: {done.stderr.strip().splitlines()[-1]}")
            found[way].append(json.loads(done.stdout.splitlines()[-1]))
    return [
        {
            **runs[0],
            "seconds": min(run["seconds"] for run in runs),
            "peak_bytes": min(run["peak_bytes"] for run in runs),
        }
        for runs in found.values()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=1_166_243)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--out")
    parser.add_argument("--way", choices=WAYS, help="measure one way in this process")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.edges, options.epochs)))
        return
    rows = compare(options.edges, options.rounds, options.epochs)
    print(f"{rows[0]['nodes']:,} nodes, {rows[0]['edges']:,} edges\n")
    print("| | seconds an epoch | times ours | peak beyond data | loss |\n|---|---|---|---|---|")
    for row in rows:
        ratio, peak = row["seconds"] / rows[0]["seconds"], row["peak_bytes"] / 2**30
        print(
            f"| {row['way']} | {row['seconds']:.2f} | {ratio:.1f} | {peak:.2f} GiB "
            f"| {row['loss']:.5f} |"
        )
    if options.out:
        told = {"layers": LAYERS, "hidden": HIDDEN, "ways": rows}
        Path(options.out).write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
