"""Signals that end a command: SIGINT and SIGTERM become an exception that removes part files."""

from __future__ import annotations

import atexit
import signal
from typing import Any

INTERRUPTED = 128 + signal.SIGINT

INTERRUPTED_MESSAGE = "interrupted; no incomplete file was left"

#: Message of commands with a scratch folder, whose files are kept.
RESUMABLE_MESSAGE = "interrupted; the same command with --resume continues it"

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_received: list[int] = []

#: The handlers that a command replaced.
_replaced: dict[int, Any] = {}


class Interrupt(KeyboardInterrupt):
    """The command was interrupted or terminated.

    After a plain KeyboardInterrupt inside of ``exec``, Python ends with the signal even if the
    exception was caught.
    """


def catch_signals() -> None:
    """Raise an Interrupt for each signal, unless the command was started to ignore it."""
    _received.clear()
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if handler in (signal.SIG_DFL, signal.default_int_handler):
            _replaced[number] = handler
            signal.signal(number, _raise_interrupt)


def was_interrupted() -> bool:
    """Whether a signal was received. Python may have turned its exception into another one."""
    return bool(_received)


def ignore_signals() -> None:
    """Let the command end with its exit code: everything is written."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def restore_signals() -> None:
    """Restore the handlers, for a process that goes on; while Python ends, signals are ignored."""
    atexit.unregister(ignore_signals)
    atexit.register(ignore_signals)  # as the last function, which is called first
    while _replaced:
        signal.signal(*_replaced.popitem())


def _raise_interrupt(number: int, _: Any) -> None:
    _received.append(number)
    raise Interrupt
