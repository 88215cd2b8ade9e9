"""The plan of a run: its tasks, and what they take in memory, reads, writes and time.

Blocks of columns and chunks of rows depend on the store, the parameters and the memory limit, but
not on the number of workers. Results therefore do not depend on it either.

Memory of a worker, in bytes, for n nodes and blocks of w columns:
``n * (36 + 8 [labels]) + n * w * (blocks * work + copy) + 300 MiB``. ``blocks`` is the number of
blocks that the solver holds, ``work`` the bytes of a number in them, and ``copy`` is not 0 if the
columns are not a whole block of the store or if the solver copies them.

Seconds of a solve: ``steps * (m * lines * 64 + 4 m + n * (16 + 3 w work)) / GATHER_RATE`` with m
entries of the adjacency and ``lines`` cache lines per row of a block. If the graph does not fit in
the free memory beside the workers, each step also reads it from the disk. Machines are assumed to
do nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, ParameterError
from ..estimators.memory_plan import BYTES_PER_NODE, format_bytes, parse_bytes
from ..estimators.problem import Parameters, default_tol
from ..graph.assembly import count_of
from ..linalg import column_blocks
from ..linalg.operators.blocks import CACHE_LINE_BYTES
from ..linalg.operators.propagation import MATERIALIZED_BYTES
from ..linalg.solvers.base import HALF_TOL
from ..linalg.solvers.chebyshev import chebyshev_steps
from ..linalg.solvers.fixed_point import fixed_point_steps
from ..utils.checks import check_number
from .store import Store

#: Memory of a worker that does not depend on the graph: code, chunks and their products.
FIXED_BYTES = 300 * 2**20

#: Bytes of a chunk of rows of F. A chunk of Z is a file.
CHUNK_BYTES = 2**28

#: Largest number of features: X^T F and its eigenvectors are computed on the client.
LARGEST_FEATURES = 6_000

#: Bytes per second that all workers of a machine together read from rows in random order.
#: A round number below that of 2 idle cores (docs/performance.md, a billion edges).
GATHER_RATE = 1e10

#: Bytes per second of an idle disk, round numbers. Reading includes checksums.
READ_RATE, WRITE_RATE = 1e9, 0.2e9


@dataclass(frozen=True)
class Plan:
    """Tasks of a run, and estimates.

    Attributes
    ----------
    blocks : tuple of (int, int)
        Columns of each solve.
    chunks : tuple of (int, int)
        Rows of each product and of each file of the result.
    steps : int
        Number of propagation steps per solve; for ``cg`` the largest.
    worker_bytes : int
        Private memory of a worker, without mapped files.
    read_bytes, written_bytes : int
        Bytes that all workers read and write, apart from reads of the graph in each step.
    graph_bytes : int
        Size of the graph, which is mapped.
    step_bytes : int
        Bytes that a step of a solve reads from memory.
    useful_workers : int
        Largest useful number of workers, each on its own machine. With more, blocks would be
        narrower than a cache line, or some workers would have no task.

    Examples
    --------
    >>> import tempfile
    >>> from gpcanet.datasets import block_model
    >>> from gpcanet.distributed import GPCA, write_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = write_dataset(block_model(100, 300, n_features=40), f"{folder}/store")
    ...     GPCA(2).plan(store).blocks
    ((0, 32), (32, 40))
    """

    blocks: tuple[tuple[int, int], ...]
    chunks: tuple[tuple[int, int], ...]
    steps: int
    worker_bytes: int
    read_bytes: int
    written_bytes: int
    graph_bytes: int
    step_bytes: int
    useful_workers: int

    def seconds(self, machines: int = 1, free_bytes: int | None = None) -> float:
        """Estimated duration on idle machines.

        ``free_bytes`` is the memory of each machine beside its workers. If the graph is larger, it
        is read in every step. None means that it fits.
        """
        rounds = -(-len(self.blocks) // machines)
        steps = rounds * self.steps
        total = steps * self.step_bytes / GATHER_RATE
        if not self._is_graph_cached(free_bytes):
            total += steps * self.graph_bytes / READ_RATE
        return total + self.read_bytes / READ_RATE + self.written_bytes / WRITE_RATE

    def _is_graph_cached(self, free_bytes: int | None) -> bool:
        return free_bytes is None or self.graph_bytes <= free_bytes

    def summary(self, workers: int, machines: int = 1, free_bytes: int | None = None) -> str:
        """The plan in a few lines; parameters are those of ``seconds``."""
        width = max(end - begin for begin, end in self.blocks)
        at_most = count_of(self.useful_workers, "machine")
        place = "in the file cache of each machine"
        if not self._is_graph_cached(free_bytes):
            place = "read from the disk in every step: it does not fit in the free memory"
        lines = (
            f"{count_of(len(self.blocks), 'solve')} of up to {count_of(width, 'column')} and "
            f"{count_of(self.steps, 'step')}, {count_of(len(self.chunks), 'chunk')} of rows\n"
            f"memory of a worker: {format_bytes(self.worker_bytes, up=True)}, and the graph "
            f"({format_bytes(self.graph_bytes, up=True)}) {place}\n"
            f"read: {format_bytes(self.read_bytes)}, written: {format_bytes(self.written_bytes)} "
            f"(in the scratch folder and the result)\n"
        )
        seconds = f"{self.seconds(machines, free_bytes):,.0f} s with {count_of(workers, 'worker')}"
        return (
            f"{lines}about {seconds}; beyond {at_most}, workers would solve for less than a cache "
            f"line of columns"
        )


def make_plan(
    store: Store,
    parameters: Parameters,
    *,
    n_components: int,
    is_transform: bool = False,
    exponent: int = 0,
    columns_per_task: int | None = None,
    writes: bool = True,
) -> Plan:
    """The plan of a run within ``parameters.memory_limit`` per worker.

    Raises
    ------
    ParameterError
        If the memory is too small; the message states the smallest that suffices.
    """
    check_supported(store, parameters)
    if columns_per_task is not None:
        advice = "None means the columns of a block of the store"
        check_number("columns_per_task", columns_per_task, 1, integer=True, advice=advice)
    n, d = store.n_nodes, store.n_features
    dtype_bytes = 4 if parameters.half else store.dtype.itemsize
    limit = parameters.memory_limit
    limit = None if limit is None else parse_bytes(limit)
    is_in_place = not (is_transform or exponent) and store.stored_dtype.itemsize <= dtype_bytes
    sources = [(0, n_components)] if is_transform else [(s.start, s.stop) for s in store.blocks]
    widest = max(end - begin for begin, end in sources)
    width = min(widest, columns_per_task or (store.blocks[0].stop if is_transform else widest))

    def needed(width: int) -> int:
        copies = not is_in_place or width < widest
        return _worker_bytes(store, parameters, dtype_bytes, width, copies=copies)

    while limit is not None and width > 0 and needed(width) > limit:
        width -= 1
    if width == 0:
        least = format_bytes(needed(1), up=True)
        assert limit is not None
        raise ParameterError(
            "memory_limit", format_bytes(limit), f"is too small for a worker; use at least {least}"
        )
    blocks = tuple(
        (begin + part.start, begin + part.stop)
        for begin, end in sources
        for part in column_blocks(end - begin, width)
    )
    width = max(end - begin for begin, end in blocks)
    n_columns = n_components if is_transform else d
    rows = max(1, CHUNK_BYTES // (n_columns * dtype_bytes))
    work = 2 if parameters.half else dtype_bytes
    lines = -(-width * work // CACHE_LINE_BYTES)
    m, F_bytes = store.n_entries, n * n_columns * dtype_bytes
    X_bytes = n * d * store.stored_dtype.itemsize
    Z_bytes = n * n_components * store.dtype.itemsize if writes else 0
    weight_bytes = store.dtype.itemsize if store.is_weighted else 0
    graph_bytes = 8 * (n + 1) + m * (4 + weight_bytes)
    reads = store.n_bytes + X_bytes + (F_bytes if writes else 0)  # verified and solved
    if not is_transform:
        reads += X_bytes + F_bytes  # X^T F
    return Plan(
        blocks=blocks,
        chunks=tuple((begin, min(n, begin + rows)) for begin in range(0, n, rows)),
        steps=_steps(parameters, store.dtype),
        worker_bytes=needed(width),
        read_bytes=reads,
        written_bytes=F_bytes + Z_bytes,
        graph_bytes=graph_bytes,
        step_bytes=m * (lines * CACHE_LINE_BYTES + 4 + weight_bytes) + n * (16 + 3 * width * work),
        useful_workers=max(1, -(-n_columns * work // CACHE_LINE_BYTES)),
    )


def check_supported(store: Store, parameters: Parameters) -> None:
    """Raise if W cannot be computed from the matrix X^T F."""
    d = store.n_features
    if d > LARGEST_FEATURES or parameters.eigen_solver == "lanczos":
        raise InputError(
            f"distributed runs compute the {d:,} x {d:,} matrix X^T F and its eigenvectors on one "
            f"machine, for at most {LARGEST_FEATURES:,} features, without eigen_solver='lanczos'; "
            f"reduce sparse features first (sklearn.decomposition.TruncatedSVD) or use gpcanet.GPCA"
        )
    if parameters.keep_training_nodes:
        raise InputError(
            "keep_training_nodes=True would copy the features; a distributed run keeps none"
        )


def _worker_bytes(
    store: Store, parameters: Parameters, item: int, width: int, *, copies: bool
) -> int:
    """Memory of a solve for a block of columns, which are copied unless they are read in place."""
    n, work = store.n_nodes, 2 if parameters.half else item
    per_number = parameters.n_blocks * work + (item if copies else 0)
    refines = parameters.solver in ("auto", "chebyshev") and work == 4
    limit = MATERIALIZED_BYTES * (2 if parameters.half else 1)
    if refines or n * width * item <= limit:
        per_number += work
    per_node = BYTES_PER_NODE + (8 if parameters.beta > 0 else 0)
    return FIXED_BYTES + n * per_node + n * width * per_number


def _steps(parameters: Parameters, dtype: Any) -> int:
    """Number of steps of a solve; an upper bound for ``cg``."""
    alpha, tol = float(parameters.alpha), parameters.tol or default_tol(dtype)
    if parameters.half:
        tol = max(tol, HALF_TOL)
    if parameters.n_iter is not None:
        return parameters.n_iter
    if alpha == 0 or parameters.solver == "direct":
        return 1
    count = fixed_point_steps if parameters.solver == "fixed-point" else chebyshev_steps
    return max(1, min(math.ceil(count(alpha, tol)), parameters.max_iter))
