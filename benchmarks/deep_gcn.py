"""Accuracy of GCNs on Cora, public split, by depth and by the weights that training starts from.

python benchmarks/deep_gcn.py --out benchmarks/networks/deep_gcn.json --picture docs/images/deep.png

Adam, lr 1e-3, hidden 128; the epoch is chosen by validation accuracy, and the test accuracy is
that of this epoch. Dropout and weight decay are one pair for all weights of a depth: 0 and 5e-4
for deep networks, 0.5 and 5e-3 for 2 layers (of the paper's pool, best by validation).
GPCANET_DATA_DIR says where the files of Cora are, if not in the cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

INITS = ("gpca", "xavier", "he", "orthogonal")
EPOCHS = {2: 300, 10: 500, 15: 500}

#: Epochs between two points of a learning curve.
CURVE_EVERY = 5

#: Dropout and weight decay.
SHALLOW, DEEP = (0.5, 5e-3), (0.0, 5e-4)


def run(cell: tuple[int, str, int]) -> dict[str, Any]:
    import torch

    from gpcanet.datasets import load
    from gpcanet.nn import NodeData, Settings, train
    from gpcanet.nn.training.zoo import build_initialized_model

    layers, init, seed = cell
    torch.set_num_threads(1)
    data = NodeData.of(load("cora"))
    dropout, decay = SHALLOW if layers == 2 else DEEP
    model, _ = build_initialized_model(
        "gcn", data, init=init, seed=seed, layers=layers, hidden=128, dropout=dropout
    )
    result = train(model, data, Settings(epochs=EPOCHS[layers], weight_decay=decay, seed=seed))
    return {
        "layers": layers,
        "init": init,
        "seed": seed,
        "test": result.accuracy["test"],
        "validation": result.accuracy["validation"],
        "best_epoch": result.best_epoch,
        "epochs": result.epochs,
        "seconds": round(result.seconds, 1),
        "curve": [round(look["test"], 4) for look in result.curve[::CURVE_EVERY]],
    }


def table(runs: list[dict[str, Any]]) -> str:
    lines = ["| layers | weights | test % (sd) | best epoch |", "|---|---|---:|---:|"]
    for layers, init in product(sorted({run["layers"] for run in runs}), INITS):
        chosen = [run for run in runs if (run["layers"], run["init"]) == (layers, init)]
        if chosen:
            test = [100 * run["test"] for run in chosen]
            spread = statistics.stdev(test) if len(test) > 1 else 0.0
            epoch = statistics.median(run["best_epoch"] for run in chosen)
            mean = statistics.mean(test)
            lines.append(f"| {layers} | {init} | {mean:.1f} ({spread:.1f}) | {epoch:.0f} |")
    return "\n".join(lines)


def draw(runs: list[dict[str, Any]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    colours = {"gpca": "#c0392b", "xavier": "#2c3e50", "he": "#2980b9", "orthogonal": "#27ae60"}
    names = {"gpca": "gpca_init_", "xavier": "Xavier", "he": "He", "orthogonal": "orthogonal"}
    depths = [layers for layers in (10, 15) if any(run["layers"] == layers for run in runs)]
    figure, axes = plt.subplots(
        1, len(depths), figsize=(4.6 * len(depths), 3.4), sharey=True, squeeze=False
    )
    for axis, layers in zip(axes[0], depths, strict=True):
        for init in INITS:
            curves = [r["curve"] for r in runs if (r["layers"], r["init"]) == (layers, init)]
            if not curves:
                continue
            values = 100 * np.array(curves)
            epochs = CURVE_EVERY * np.arange(values.shape[1])
            axis.plot(epochs, values.mean(axis=0), color=colours[init], label=names[init], lw=1.6)
            axis.fill_between(
                epochs,
                values.min(axis=0),
                values.max(axis=0),
                color=colours[init],
                alpha=0.12,
                lw=0,
            )
        axis.set(title=f"GCN of {layers} layers on Cora", xlabel="epoch", ylim=(0, 90))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("test accuracy, %")
    axes[0][-1].legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=list(EPOCHS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out")
    parser.add_argument("--picture")
    parser.add_argument("--from-json", nargs="+", help="draw and tell what was run before")
    options = parser.parse_args()
    if options.from_json:
        runs = [run for path in options.from_json for run in json.loads(Path(path).read_text())]
    else:
        cells = list(product(options.layers, INITS, range(options.seeds)))
        runs = []
        with ProcessPoolExecutor(options.workers) as pool:
            for done in pool.map(run, cells):
                runs.append(done)
                told = {name: value for name, value in done.items() if name != "curve"}
                print(json.dumps(told), flush=True)
    if options.out:
        lines = ",\n".join(json.dumps(run) for run in runs)
        Path(options.out).write_text(f"[\n{lines}\n]\n")
    if options.picture:
        draw(runs, options.picture)
    print(table(runs))


if __name__ == "__main__":
    main()
