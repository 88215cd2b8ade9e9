"""BLAS on one thread, for work too small to share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Many small products in a row: waking the threads costs more than they save.

    On a busy machine it costs far more, since each product waits for the last thread to be
    given a core.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the libraries takes longer than their use
