"""The log file of a command: notes, warnings, times and errors, each in one line."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from pathlib import Path

from ..errors import InputError
from .console import escaped, logger

#: Suffixes that no other file of a command has, so that appending to a log damages none of them.
LOG_SUFFIXES = (".log", ".txt")


class _OneLine(logging.Formatter):
    """Control characters of messages are escaped; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = escaped(record.message)
        return super().formatMessage(record)


def log_to_file(path: Path) -> None:
    """Append all that this process logs to a file."""
    if path.suffix.lower() not in LOG_SUFFIXES:
        raise InputError(f"--log-file {path} must be a {' or '.join(LOG_SUFFIXES)} file")
    if path.is_dir():
        raise InputError(f"--log-file {path} is a folder; give the name of a file")
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(_OneLine("%(asctime)s %(process)d %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.info("%s", shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]))


def stop_logging() -> None:
    """Close log files."""
    for handler in [h for h in logger.handlers if isinstance(h, logging.FileHandler)]:
        logger.removeHandler(handler)
        handler.close()
