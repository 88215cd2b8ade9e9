"""Parallel work in threads, and the number of BLAS threads."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

#: Largest number of tasks that run at a time; each holds a chunk of memory.
WORKERS = 4

#: Chunks of rows per thread. Several per thread balance rows of different length.
CHUNKS_PER_THREAD = 32

#: Smallest number of rows in a chunk; fewer would not pay for the call of a kernel.
ROWS_PER_CHUNK = 128

T = TypeVar("T")
R = TypeVar("R")

_lock = threading.Lock()
_limits: list[Any] = []  # holds the active limit of BLAS threads
_n_active = 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread.

    In small products and eigenproblems the threads of BLAS mostly wait for each other, even more
    so if other processes use the cores. The limit holds for the whole process until the last
    block of this kind is left.
    """
    global _n_active
    with _lock:
        _n_active += 1
        if _n_active == 1:
            _take_control()
            _limits.append(_controller().limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            _n_active -= 1
            if _n_active == 0:
                _take_control()
                _limits.pop().restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    # Searching the loaded libraries takes milliseconds.
    return ThreadpoolController().select(user_api="blas")


def _take_control() -> None:
    """Let this thread set the number of BLAS threads.

    threadpoolctl ignores all threads but the one that set it first, from version 3.8.
    """
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@cache
def available_cores() -> int:
    """Number of cores that the system and a container grant to this process."""
    return int(joblib.cpu_count())


def usable_cores() -> int:
    """Number of cores to use: the available ones, at most OMP_NUM_THREADS."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    cores = available_cores()
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


def parallel_map(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Results of the function for all items, in their order, computed in threads.

    BLAS uses one thread during the call. The threads see the context variables of the caller,
    for example the listener to progress reports.
    """
    return list(_results(function, items))


def parallel_sum(function: Callable[[T], Any], items: Iterable[T], start: Any = 0.0) -> Any:
    """``start`` plus the results of ``parallel_map``, added in their order.

    An array ``start`` is modified in place. At most one result per thread, and one more, is in
    memory at a time.
    """
    total = start
    for result in _results(function, items):
        total += result
    return total


def _results(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Must be exhausted by the caller: until then BLAS is limited in the whole process."""
    n_workers = min(WORKERS, usable_cores())
    if n_workers == 1:
        with one_blas_thread():
            yield from map(function, items)
        return
    pending: deque[Future[R]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(n_workers) as pool:
        for item in items:
            pending.append(pool.submit(copy_context().run, function, item))
            if len(pending) > n_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def parallel_rows(
    kernel: Callable[..., None], n_rows: int, *arguments: Any, min_rows: int = ROWS_PER_CHUNK
) -> None:
    """Call ``kernel(begin, end, *arguments)`` for chunks of at least ``min_rows`` rows.

    The kernel must release the GIL. Threads take the next chunk when they are ready, so that a
    chunk with many entries does not delay the others.
    """
    n_threads = usable_cores()
    n_chunks = max(1, min(CHUNKS_PER_THREAD * n_threads, n_rows // min_rows))
    edges = [n_rows * i // n_chunks for i in range(n_chunks + 1)]
    chunks = iter(range(n_chunks))

    def work() -> None:
        for i in chunks:  # next() on a range iterator is atomic
            kernel(edges[i], edges[i + 1], *arguments)

    pool = _threads(os.getpid(), n_threads)
    others = [pool.submit(work) for _ in range(min(n_threads, n_chunks) - 1)]
    try:
        work()
    finally:  # no thread may use the arguments any more
        wait(others)
    for other in others:
        other.result()


@cache
def _threads(pid: int, n_threads: int) -> ThreadPoolExecutor:
    """Threads that wait for chunks of rows; a forked process has none and needs its own."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="gpcanet")
