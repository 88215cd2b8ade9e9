"""GPCA against the four lines a practitioner would write, on Cora, CiteSeer and PubMed.

The four lines: a truncated SVD of X, two propagation steps, another truncated SVD, a logistic
head. Both ways end in the same head with the same choices, decided on validation nodes: those
of the public split, then of random splits with 20 training labels a class. GPCAClassifier, which
decides more for itself, is shown beside them on the public split.

Needs the Planetoid files (see gpcanet.datasets.load). Run with ``make bench``, or
alone: ``python benchmarks/script.py --save``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from measure import arguments, interleaved, real_graphs, save
from sklearn.decomposition import TruncatedSVD

from gpcanet import GPCA, GPCAClassifier
from gpcanet.datasets import Dataset
from gpcanet.head import Head

WIDTH = 64
RANDOM_SPLITS = 10


def script_embedding(data: Dataset) -> np.ndarray:
    A = data.graph.adjacency.astype(np.float32) + sp.eye_array(data.graph.n_nodes, dtype=np.float32)
    scale = sp.diags_array(A.sum(axis=1) ** -0.5)
    P = scale @ A @ scale
    reduced = TruncatedSVD(256, random_state=0).fit_transform(data.X)
    return np.asarray(TruncatedSVD(WIDTH, random_state=0).fit_transform(P @ (P @ reduced)))


def gpca_embedding(data: Dataset) -> np.ndarray:
    return GPCA(WIDTH).fit_transform(data.X, graph=data.graph)


def head_accuracy(data: Dataset, Z: np.ndarray) -> float:
    """Test accuracy of the head that does best on the validation nodes."""
    best = (-1.0, -1.0)
    for unit_rows in (False, True):
        for C in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0):
            head = Head(C, unit_rows=unit_rows).fit(Z[data.train], data.y[data.train])
            accuracies = [
                float(np.mean(head.predict_proba(Z[part]).argmax(axis=1) == data.y[part]))
                for part in (data.validation, data.test)
            ]
            if accuracies[0] > best[0]:
                best = (accuracies[0], accuracies[1])
    return best[1]


def whole(data: Dataset, embedding: Any) -> float:
    return head_accuracy(data, embedding(data))


def classifier_accuracy(data: Dataset) -> float:
    model = GPCAClassifier().fit(
        data.X, data.visible_labels(), graph=data.graph, validation=data.validation
    )
    return float(np.mean(model.transduction_[data.test] == data.y[data.test]))


def random_split(data: Dataset, seed: int) -> Dataset:
    order = np.random.default_rng(seed).permutation(np.flatnonzero(data.y >= 0))
    train = np.concatenate([order[data.y[order] == c][:20] for c in range(data.y.max() + 1)])
    rest = order[~np.isin(order, train)]
    return replace(data, train=train, validation=rest[:500], test=rest[500:1500])


def compare(data: Dataset, repeats: int) -> dict[str, Any]:
    embeddings = {"four lines": script_embedding, "GPCA": gpca_embedding}
    ways = {way: partial(whole, data, embedding) for way, embedding in embeddings.items()}
    ways["GPCAClassifier"] = partial(classifier_accuracy, data)
    results: dict[str, Any] = {
        "public_accuracy": {way: run() for way, run in ways.items()},
        "seconds_embedding": interleaved(
            {way: partial(embedding, data) for way, embedding in embeddings.items()}, repeats
        ),
        "seconds_whole": interleaved(ways, repeats),
    }
    splits = [random_split(data, seed) for seed in range(RANDOM_SPLITS)]
    results["random_accuracies"] = {}
    for way, embedding in embeddings.items():
        Z = embedding(data)
        results["random_accuracies"][way] = [head_accuracy(split, Z) for split in splits]
    return results


def main() -> None:
    options = arguments(__doc__)
    results = {}
    for data in real_graphs():
        result = results[data.name] = compare(data, options.repeats)
        print(f"\n{data.name:16s}  public split  random splits   embedding   end to end")
        for way, accuracy in result["public_accuracy"].items():
            row = f"  {way:14s} {100 * accuracy:11.1f}"
            if way in result["random_accuracies"]:
                row += f" {100 * np.mean(result['random_accuracies'][way]):13.1f}"
                row += f" {result['seconds_embedding'][way]:12.2f} s"
            print(f"{row:51s} {result['seconds_whole'][way]:8.2f} s")
        ours, theirs = (np.array(result["random_accuracies"][w]) for w in ("GPCA", "four lines"))
        gain = 100 * (ours - theirs)
        error = gain.std(ddof=1) / len(gain) ** 0.5
        print(f"  GPCA ahead by {gain.mean():+.1f} points on random splits (s.e. {error:.1f})")
    if options.save:
        save("script", results)


if __name__ == "__main__":
    main()
