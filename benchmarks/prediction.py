"""Scores and time of GPCAClassifier and other node classifiers, with few labels.

The graphs are the citation graphs, and the npz files in the folder of the environment variable
``GPCANET_GRAPHS_DIR``: ``indptr`` and ``indices`` (symmetric CSR without self-loops), ``y``, and
features as ``x`` or as ``x_data``, ``x_indices``, ``x_indptr`` and ``x_shape``. A file with two
classes and official splits (``train_masks``, ``val_masks``, ``test_masks``) is scored by ROC AUC on
these. All others have random splits: 20 training and 30 validation nodes per class, or a third
each.

There are two stages: scores, which do not depend on the load of the machine, and seconds, which
need a quiet one. Both continue the results of an earlier run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpcanet.datasets import Dataset
from gpcanet.estimators.classifier import GPCAClassifier
from gpcanet.graph import Graph

from . import child
from .config import Config, GraphShape
from .graphs import generate, published
from .peer_classifiers import PEERS, Result, make_result
from .timing import Outcome, reason_of

#: Environment variable with the folder of the graphs.
FOLDER_VARIABLE = "GPCANET_GRAPHS_DIR"

#: Training and validation nodes per class.
TRAINING_NODES, VALIDATION_NODES = 20, 30

#: Most random or official splits.
MOST_SPLITS = 5

#: Nodes from which networks have one split: their training takes minutes.
MANY_NODES = 100_000

#: Shares of the nodes of the generated graphs that are labelled for training and validation, those
#: of ogbn-arxiv and ogbn-products.
SHARES = {"arxiv size": (0.54, 0.18), "products size": (0.08, 0.016)}

#: Seconds from which a training is timed once.
LONG = 20.0

#: Graphs on which a fit is timed while another process computes.
BUSY_GRAPHS = ("cora", "citeseer", "blogcatalog")

#: Program of that process.
BUSY_PROGRAM = "while True: sum(range(100_000))"


def run(config: Config) -> dict[str, Any]:
    graphs, skipped = published(config)
    results: dict[str, Any] = {"graphs": {}, "generated": {}, "busy": {}, **config.earlier}
    results["graphs"].update(skipped)
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None and not results["graphs"]:
        results["graphs"]["graphs in a folder"] = {"skipped": f"{FOLDER_VARIABLE} is not set"}
    files = [] if folder is None else sorted(Path(folder).glob("*.npz"))
    sources: list[Dataset | Path] = [*graphs, *files]
    for source in sources:
        name = source.name if isinstance(source, Dataset) else source.stem
        if not config.datasets or name in config.datasets:
            _compare(name, source, results, config)
    if "seconds" in config.stages:
        for name, shape in (
            ("arxiv size", config.size.arxiv_size),
            ("products size", config.size.products_size),
        ):
            known = results["generated"].get(name, {})
            chosen = not config.datasets or name in config.datasets
            chosen &= not config.methods or "GPCAClassifier" in config.methods
            if chosen and (config.again or "seconds" not in known):
                config.log(f"{name}: GPCAClassifier with many labels")
                shares = SHARES[name]
                results["generated"][name] = child.run_in_process(
                    "prediction.measure_generated", shape=asdict(shape), shares=shares
                )
                config.save(results)
    return results


def gpca_classifier(data: Dataset, metric: str, *, tuned: bool = True) -> Result:
    """GPCAClassifier with its defaults."""
    start = time.perf_counter()
    model = GPCAClassifier().fit(
        data.X, data.visible_labels(), graph=data.graph, validation=data.validation
    )
    seconds = time.perf_counter() - start
    return make_result(data, metric, model.label_distributions_, seconds)


METHODS: dict[str, Callable[..., Result]] = {"GPCAClassifier": gpca_classifier, **PEERS}


def _compare(name: str, source: Dataset | Path, results: dict[str, Any], config: Config) -> None:
    """Add what is missing of the wanted methods and stages on one graph to the results."""
    data, masks = read(source)
    metric = "accuracy" if masks is None else "roc_auc"

    def split(number: int) -> Dataset:
        return few_labels(data, number) if masks is None else _official(data, masks, number)

    entry = results["graphs"].setdefault(name, {})
    entry.update(_sizes(data), metric=metric)
    outcomes = entry.setdefault("methods", {})
    for method, predict in METHODS.items():
        if config.methods and method not in config.methods:
            continue
        if config.again or "failed" in outcomes.get(method, {}):
            outcomes.pop(method, None)
        outcome = outcomes.setdefault(method, {"scores": [], "calibration_errors": []})
        n_splits = min(MOST_SPLITS, config.size.random_splits)
        if method in ("GCN", "APPNP") and data.graph.n_nodes >= MANY_NODES:
            n_splits = 1
        try:
            if "scores" in config.stages:
                for number in range(len(outcome["scores"]), n_splits):
                    config.log(f"{name}, split {number + 1} of {n_splits}: {method}")
                    found = predict(split(number), metric)
                    outcome["scores"].append(round(found.test, 4))
                    outcome["calibration_errors"].append(round(found.calibration_error, 4))
                    config.save(results)
            if "seconds" in config.stages and "seconds" not in outcome:
                config.log(f"{name}, seconds: {method}")
                outcome["seconds"] = _seconds(predict, split(0), metric)
                config.save(results)
        except (ImportError, MemoryError) as error:
            outcomes[method] = {"failed": reason_of(error)}
    wanted = "seconds" in config.stages and name in BUSY_GRAPHS
    if wanted and (config.again or name not in results["busy"]):
        quiet = _seconds(gpca_classifier, split(0), metric)
        with busy_process():
            busy = _seconds(gpca_classifier, split(0), metric)
        results["busy"][name] = {"quiet": quiet, "busy": busy}
        config.save(results)


def _seconds(predict: Callable[..., Result], data: Dataset, metric: str) -> float:
    """The smallest time of three trainings, or of one that takes long."""
    seconds = predict(data, metric, tuned=False).seconds
    if seconds < LONG:
        seconds = min(seconds, *(predict(data, metric, tuned=False).seconds for _ in range(2)))
    return round(seconds, 3)


@contextmanager
def busy_process() -> Iterator[None]:
    """Another process that uses one core."""
    process = subprocess.Popen([sys.executable, "-c", BUSY_PROGRAM])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure_generated(shape: dict[str, int], shares: tuple[float, float]) -> Outcome:
    """Score, seconds and memory of GPCAClassifier on a generated graph with many labels."""
    data = generate(GraphShape(**shape))
    nodes = np.random.default_rng(0).permutation(data.graph.n_nodes)
    train, validation, test = np.split(nodes, (np.cumsum(shares) * len(nodes)).astype(int))
    split = _with_split(data, train, validation, test)
    with child.Memory() as memory:
        processor = time.process_time()
        result = gpca_classifier(split, "accuracy")
        processor = time.process_time() - processor
    return _sizes(data) | {
        "labels": len(train),
        "score": round(result.test, 4),
        "calibration_error": round(result.calibration_error, 4),
        "seconds": round(result.seconds, 2),
        "processor_seconds": round(processor, 2),
        "peak_bytes": memory.peak,
        "before_bytes": memory.before,
    }


def read(source: Dataset | Path) -> tuple[Dataset, tuple[np.ndarray, ...] | None]:
    """A graph, and its official splits if it is to be scored on them."""
    if isinstance(source, Dataset):
        return source, None
    with np.load(source) as file:
        if "x" in file:
            X: Any = sp.csr_array(file["x"]) if _is_sparse(file["x"]) else file["x"]
        else:
            parts = (file["x_data"], file["x_indices"], file["x_indptr"])
            X = sp.csr_array(parts, shape=tuple(file["x_shape"]))
        y = np.unique(file["y"], return_inverse=True)[1]
        graph = Graph.from_csr(file["indptr"], file["indices"])
        masks = None
        if "train_masks" in file and y.max() == 1:
            masks = tuple(file[f"{part}_masks"] for part in ("train", "val", "test"))
    return Dataset(source.stem, graph, X.astype(np.float32), y), masks


def few_labels(data: Dataset, seed: int) -> Dataset:
    """A random split with few nodes per class."""
    rng, train, validation = np.random.default_rng(seed), [], []
    for members in _by_class(data.y):
        nodes = rng.permutation(members)
        sizes = [TRAINING_NODES, VALIDATION_NODES]
        if len(nodes) < sum(sizes) + 10:
            sizes = [len(nodes) // 3] * 2
        first, second, _ = np.split(nodes, np.cumsum(sizes))
        train.append(first)
        validation.append(second)
    used = np.concatenate(train + validation)
    test = np.setdiff1d(np.flatnonzero(data.y >= 0), used)
    return _with_split(data, np.concatenate(train), np.concatenate(validation), test)


def _by_class(y: np.ndarray) -> Iterator[np.ndarray]:
    for label in np.unique(y[y >= 0]):
        yield np.flatnonzero(y == label)


def _official(data: Dataset, masks: tuple[np.ndarray, ...], number: int) -> Dataset:
    train, validation, test = (np.flatnonzero(mask[number]) for mask in masks)
    return _with_split(data, train, validation, test)


def _with_split(
    data: Dataset, train: np.ndarray, validation: np.ndarray, test: np.ndarray
) -> Dataset:
    return replace(data, train=train, validation=validation, test=test)


def _is_sparse(X: np.ndarray) -> bool:
    return bool(X.shape[1] > 1000 and np.count_nonzero(X) < 0.1 * X.size)


def _sizes(data: Dataset) -> dict[str, int]:
    return {
        "nodes": data.graph.n_nodes,
        "edges": data.graph.n_edges,
        "features": data.X.shape[1],
        "classes": data.n_classes,
    }
