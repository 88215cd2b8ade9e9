"""Scores and time of GPCAClassifier beside other node classifiers, with few labels.

The graphs are the citation graphs, and the npz files in the folder of the environment variable
``GPCANET_GRAPHS_DIR``: ``indptr`` and ``indices`` (symmetric CSR without self-loops), ``y``, and
features as ``x`` or as ``x_data``, ``x_indices``, ``x_indptr`` and ``x_shape``. A file with two
classes and official splits (``train_masks``, ``val_masks``, ``test_masks``) is scored by ROC AUC on
these. All others have random splits: 20 training and 30 validation nodes per class, or a third
each. Every run is kept in the work folder, so that an interrupted benchmark is resumed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpcanet.datasets import Dataset
from gpcanet.estimators.classifier import GPCAClassifier
from gpcanet.graph import Graph
from gpcanet.utils.atomic import atomic_file

from .config import Config
from .graphs import generate, published
from .peer_classifiers import PEERS, Result, make_result
from .timing import Outcome, reason_of

#: Environment variable with the folder of the graphs.
FOLDER_VARIABLE = "GPCANET_GRAPHS_DIR"

#: Training and validation nodes per class.
TRAINING_NODES, VALIDATION_NODES = 20, 30

#: Most random or official splits.
MOST_SPLITS = 5

#: Share of the nodes of the generated graph that are labelled, and held out of these.
LABELED_SHARE, HELD_OUT_SHARE = 0.54, 0.18


def run(config: Config) -> dict[str, Any]:
    graphs, skipped = published(config)
    results: dict[str, Any] = dict(skipped)
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        results["graphs in a folder"] = {"skipped": f"{FOLDER_VARIABLE} is not set"}
    files = [] if folder is None else sorted(Path(folder).glob("*.npz"))
    n_splits = min(MOST_SPLITS, config.size.random_splits)
    chosen = config.datasets
    sources: list[Dataset | Path] = [*graphs, *files]
    for source in sources:
        name = source.name if isinstance(source, Dataset) else source.stem
        if not chosen or name in chosen:
            results[name] = _compare(name, source, n_splits, config)
    if not chosen or "generated" in chosen:
        results["generated"] = _generated(config)
    return {"graphs": results}


def gpca_classifier(data: Dataset, metric: str) -> Result:
    """GPCAClassifier with its defaults."""
    start = time.perf_counter()
    model = GPCAClassifier().fit(
        data.X, data.visible_labels(), graph=data.graph, validation=data.validation
    )
    seconds = time.perf_counter() - start
    return make_result(data, metric, model.label_distributions_, seconds)


METHODS = {"GPCAClassifier": gpca_classifier, **PEERS}


def _compare(name: str, source: Dataset | Path, n_splits: int, config: Config) -> dict[str, Any]:
    data, splits = read(source)
    metric = "accuracy" if splits is None else "roc_auc"
    outcomes: dict[str, Outcome] = {method: {"scores": [], "seconds": []} for method in METHODS}
    for number in range(n_splits):
        split = _official(data, splits, number) if splits else few_labels(data, number)
        for method, predict in METHODS.items():
            kept = config.work_dir / "prediction" / f"{name}-{number}-{method}.json"
            found = json.loads(kept.read_bytes()) if kept.exists() else None
            if found is None:
                config.log(f"{name}, split {number + 1} of {n_splits}: {method}")
                try:
                    found = predict(split, metric)._asdict()
                except (ImportError, MemoryError) as error:
                    outcomes[method] = {"failed": reason_of(error)}
                    continue
                kept.parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(kept, overwrite=True) as file:
                    file.write(json.dumps(found).encode())
            if "scores" in outcomes[method]:
                outcomes[method]["scores"].append(round(found["test"], 4))
                outcomes[method]["seconds"].append(round(found["seconds"], 3))
    for outcome in outcomes.values():
        if "seconds" in outcome:
            outcome["seconds"] = float(np.median(outcome["seconds"]))
    return _sizes(data) | {"metric": metric, "methods": outcomes}


def _generated(config: Config) -> dict[str, Any]:
    """GPCAClassifier on a generated graph with many labels."""
    config.log("generated graph: GPCAClassifier with many labels")
    data = generate(config.size.arxiv_size)
    nodes = np.random.default_rng(0).permutation(data.graph.n_nodes)
    ends = np.array([LABELED_SHARE, LABELED_SHARE + HELD_OUT_SHARE]) * len(nodes)
    train, validation, test = np.split(nodes, ends.astype(int))
    result = gpca_classifier(_with_split(data, train, validation, test), "accuracy")
    outcome = {"scores": [round(result.test, 4)], "seconds": round(result.seconds, 3)}
    return _sizes(data) | {"metric": "accuracy", "methods": {"GPCAClassifier": outcome}}


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
