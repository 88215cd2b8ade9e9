"""BLAS on one thread, for work too small to share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

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
