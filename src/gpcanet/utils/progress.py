"""Long work tells how far it is, to whoever listens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Called with what is being done, how much of it is done, and how much there is if known.
Listener = Callable[[str, int, int | None], None]

#: Reports come from several threads; listeners are called by one at a time.
_lock = threading.RLock()

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def progress_to(listener: Listener) -> Iterator[None]:
    """Have everything inside the block report to this listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(what: str, done: int, total: int | None = None) -> None:
    """Tell the listener, if there is one."""
    if (listener := _listener.get()) is not None:
        with _lock:
            listener(what, done, total)
