"""How much memory a fit will take, told before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .classifier import GPCAClassifier
from .gpca import GPCA
from .graph import Graph

#: What loading compiled code takes.
BYTES_OF_CODE = 64 * 2**20

#: From here on a limit of cgroups stands for none.
UNLIMITED = 2**60

#: Estimates below this are not worth a word.
WORTH_TELLING = 2**30


def fit_bytes(model: GPCA | GPCAClassifier, graph: Graph, X: Any, n_labelled: int = 0) -> int:
    """About the most that ``model.fit(X, y, graph=graph)`` holds beyond the graph and X.

    ``n_labelled`` is the number of labels in y, which only a classifier heeds.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((1_000_000, 100), np.float32)
    >>> f"{fit_bytes(GPCA(16), Graph.without_edges(1_000_000), X) / 2**30:.1f} GiB"
    '1.4 GiB'
    """
    if isinstance(model, GPCAClassifier):
        return _classifier_bytes(model, graph, X, n_labelled)
    k = model._width(X)
    use_lanczos = model._use_lanczos(X, k)
    inside = np.float64 if use_lanczos else model._inner_dtype(X.dtype)
    return model._plan(graph, X, k, inside, lanczos=use_lanczos).n_bytes + BYTES_OF_CODE


def _classifier_bytes(model: GPCAClassifier, graph: Graph, X: Any, n_labelled: int) -> int:
    """A fit of GPCA, the scaled X it is given, and the embeddings that are kept meanwhile."""
    candidates = model._candidates(X)
    embeddings = {(c.feature_scaling, alpha) for c in candidates for alpha in c.alphas}
    scalings = {scaling for scaling, _ in embeddings}
    gpca, item, scaled = model._gpca(candidates[0].alphas[0]), X.dtype.itemsize, 0
    if scalings != {"none"}:
        scaled = X.nnz * (item + 4) if sp.issparse(X) else X.size * item
    if "tfidf" in scalings and not sp.issparse(X):  # made sparse, and dense again in the fit
        scaled += int(np.count_nonzero(X)) * (item + 4)
    # Whole embeddings of what was chosen, the labelled rows of all that were tried; with ghost
    # edges these are made anew for every part held out.
    n_parts = model.cv + 1 if model.beta > 0 else 1
    n_rows = max(len(c.alphas) for c in candidates) * X.shape[0]
    n_rows += n_parts * len(embeddings) * n_labelled
    return fit_bytes(gpca, graph, X) + scaled + n_rows * gpca._width(X) * item


def available_bytes(root: Path = Path("/")) -> int | None:
    """Free memory of the system or of the container, whichever is less; None if not stated.

    ``root`` is the folder that holds ``proc`` and ``sys``.
    """
    known = [free for free in (_system_free(root), *_cgroups_free(root)) if free is not None]
    return min(known, default=None)


def _system_free(root: Path) -> int | None:
    free = _entry(root / "proc/meminfo", "MemAvailable:")
    return None if free is None else free * 1024


def _cgroups_free(root: Path) -> Iterator[int | None]:
    """What is left of each memory limit on this process: of its cgroups and their ancestors."""
    for line in ["0::/", "0:memory:/", *_text(root / "proc/self/cgroup").splitlines()]:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for version in CGROUP_VERSIONS:
            if version.controller in controllers.split(","):
                # A container may see its own cgroup at the mount, whatever the path.
                parts = [part for part in path.split("/") if part not in ("", "..")]
                for depth in range(len(parts) + 1):
                    yield version.free(root.joinpath(version.mount, *parts[:depth]))


@dataclass(frozen=True)
class CgroupVersion:
    """Where a version of cgroups keeps the memory limit, the use, and the cache within it."""

    controller: str
    mount: str
    limit: str
    used: str
    reclaimable: str  # cache of files, which the kernel gives up before the limit is reached

    def free(self, folder: Path) -> int | None:
        limit, used = _integer(folder / self.limit), _integer(folder / self.used)
        if limit is None or used is None or limit >= UNLIMITED:
            return None
        cache = _entry(folder / "memory.stat", self.reclaimable) or 0
        return max(0, limit - max(0, used - cache))


CGROUP_VERSIONS = (
    CgroupVersion("", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    CgroupVersion(
        "memory",
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _integer(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None  # "max" stands for no limit


def _entry(path: Path, name: str) -> int | None:
    """The number after a name at the beginning of a line."""
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == name and words[1].isdecimal():
            return int(words[1])
    return None


def tell_memory(
    model: GPCA | GPCAClassifier, graph: Graph, X: Any, n_labelled: int = 0
) -> str | None:
    """A sentence about the memory of a big fit; None for a small one."""
    needed, free = fit_bytes(model, graph, X, n_labelled), available_bytes()
    if needed < WORTH_TELLING:
        return None
    sentence = f"this will take about {needed / 2**30:.1f} GiB of memory"
    if free is None:
        return sentence
    sentence += f" of {free / 2**30:.1f} GiB free"
    if needed > free:
        sentence += ": it may fail, or swap; a memory limit or float32 needs less"
    return sentence
