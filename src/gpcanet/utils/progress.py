"""Progress of downloads and long computations, reported to a listener."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Called with the name of a task, the amount done, and the total amount if known.
Listener = Callable[[str, int, int | None], None]

#: Several threads report; only one at a time calls the listener.
_lock = threading.RLock()

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def progress_to(listener: Listener) -> Iterator[None]:
    """Send the reports of a block to this listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report_progress(what: str, done: int, total: int | None = None) -> None:
    """Call the listener, if there is one."""
    if (listener := _listener.get()) is not None:
        with _lock:
            listener(what, done, total)
