"""GPCA against the four lines a practitioner would write, on Cora, CiteSeer and PubMed.

The four lines: a truncated SVD of X, two propagation steps, another truncated SVD, a logistic
head. Both ways end in the same head with the same choices, decided on the validation nodes of
the public split. GPCAClassifier, which decides more for itself, is shown beside them.

Needs the Planetoid files (see gpcanet.datasets.load_planetoid). Run with ``make bench``, or
alone: ``python benchmarks/script.py --save``.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from measure import arguments, interleaved, save
from sklearn.decomposition import TruncatedSVD

from gpcanet import GPCA, GPCAClassifier
from gpcanet.datasets import Dataset, load_planetoid
from gpcanet.head import Head

WIDTH = 64


def script_embedding(data: Dataset) -> np.ndarray:
    A = data.graph.adjacency.astype(np.float32) + sp.eye_array(data.graph.n_nodes, dtype=np.float32)
    scale = sp.diags_array(A.sum(axis=1) ** -0.5)
    P = scale @ A @ scale
    reduced = TruncatedSVD(256, random_state=0).fit_transform(data.X)
    return TruncatedSVD(WIDTH, random_state=0).fit_transform(P @ (P @ reduced))


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


def classifier_accuracy(data: Dataset) -> float:
    model = GPCAClassifier().fit(
        data.X, data.visible_labels(), graph=data.graph, validation=data.validation
    )
    return float(np.mean(model.transduction_[data.test] == data.y[data.test]))


def main() -> None:
    options = arguments(__doc__)
    results = {}
    for name in ("cora", "citeseer", "pubmed"):
        data = load_planetoid(name)
        ways = {
            "four lines": lambda data=data: head_accuracy(data, script_embedding(data)),
            "GPCA": lambda data=data: head_accuracy(data, gpca_embedding(data)),
            "GPCAClassifier": lambda data=data: classifier_accuracy(data),
        }
        accuracy = {way: run() for way, run in ways.items()}
        embedding = interleaved(
            {
                "four lines": lambda data=data: script_embedding(data),
                "GPCA": lambda data=data: gpca_embedding(data),
            },
            options.repeats,
        )
        whole = interleaved(ways, options.repeats)
        print(f"\n{name:16s} accuracy   embedding   end to end")
        for way in ways:
            alone = f"{embedding[way]:8.2f} s" if way in embedding else " " * 10
            print(f"  {way:14s} {100 * accuracy[way]:8.1f}  {alone}  {whole[way]:9.2f} s")
        results[name] = {"accuracy": accuracy, "embedding": embedding, "end_to_end": whole}
    if options.save:
        save("script", results)


if __name__ == "__main__":
    main()
