"""Threads: BLAS on one for work too small to share, several for many pieces of work."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

#: Most pieces of work at a time: each holds chunks of memory.
WORKERS = 4

T = TypeVar("T")
R = TypeVar("R")

_lock = threading.Lock()
_limits: list[Any] = []  # one for everybody inside; the first in makes it, the last out undoes it
_inside = 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Many small products in a row: waking the threads costs more than they save.

    On a busy machine it costs far more, since each product waits for the last thread to be
    given a core. The limit holds for the whole process, hence the counting.
    """
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            _limits.append(_controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limits.pop().restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the libraries takes longer than their use


def given_cores() -> int:
    """Cores that the system lets this process run on, a container's share of them counted, too."""
    return int(joblib.cpu_count())


def usable_cores() -> int:
    """Cores this process may use: those it was given, and no more than OMP_NUM_THREADS says."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return min(given_cores(), int(said)) if said.isdigit() and int(said) > 0 else given_cores()


def parallel_map(work: Callable[[T], R], pieces: Iterable[T]) -> list[R]:
    """The result of each piece, in their order, several being worked on at a time.

    Each has BLAS on one thread: whole products in parallel wait for nobody, where the threads
    inside one wait for each other, for long if other processes want the cores too. Workers see
    the context variables of the caller, such as the listener to progress.
    """
    return list(_results(work, pieces))


def parallel_sum(work: Callable[[T], Any], pieces: Iterable[T], start: Any = 0.0) -> Any:
    """``start`` plus the results of ``parallel_map``, added in their order.

    An array ``start`` is added to in place. No more results are in memory at a time than there
    are workers, plus one.
    """
    total = start
    for result in _results(work, pieces):
        total += result
    return total


def _results(work: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
    """Callers must exhaust it: until then BLAS is limited to one thread in the whole process."""
    n_workers = min(WORKERS, usable_cores())
    waiting: deque[Future[R]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(n_workers) as pool:
        for piece in pieces:
            waiting.append(pool.submit(copy_context().run, work, piece))
            if len(waiting) > n_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
