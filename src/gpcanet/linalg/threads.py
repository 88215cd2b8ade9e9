"""BLAS on one thread, for work too small to share, and several such works at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

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


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The function of every item, as many at a time as there are cores, BLAS on one thread each.

    Since no item is shared between threads, their number does not change a bit of the results.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    with one_blas_thread(), ThreadPoolExecutor(cores) as pool:
        return list(pool.map(function, items))


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the libraries takes longer than their use
