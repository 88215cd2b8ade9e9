"""How a command line starts and ends: streams, signals, exit codes, one line for an error."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Any

import typer

from ..errors import UserError
from .console import escaped

BAD_INPUT, INTERRUPTED = 2, 128 + signal.SIGINT

#: Any complaint of typer's about the command line; some versions bring a click of their own.
UsageError: Any = typer.BadParameter.__base__

#: How errors of the library name what is an option here.
OPTION_WORDS = {
    "allow it to be replaced": "use --force to replace it",
    "have unknown nodes dropped": "use --drop-unknown",
    "a file of them, or a number of neighbors": "--edges or --neighbors",
    "n_components=": "--components ",
    "memory_limit=": "--memory-limit ",
    "id_column and": "--id and",
    "label_column": "--label",
    "split_column": "--split",
    "data_dir names": "--data-dir names",
    "n_iter is for": "--iterations is for",
}


def run_app(app: typer.Typer, program: str) -> None:
    """Run a command line and exit. 0: done, 2: bad input, 130: interrupted, 1: internal error."""
    # A terminated process cleans up behind itself like an interrupted one.
    signal.signal(signal.SIGTERM, _raise_interrupt)
    _mend_streams()
    try:
        if app(standalone_mode=False) == INTERRUPTED:  # typer has caught it
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        _end(program, "interrupted; nothing was left half-written", INTERRUPTED)
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else program
        sentence = f"{error.format_message().rstrip('.?')}; see {command} --help"
        _end(program, sentence, BAD_INPUT)
    except (UserError, OSError) as error:
        if "GPCANET_DEBUG" in os.environ:
            raise
        _end(program, describe(error), BAD_INPUT)
    except MemoryError:
        _end(
            program,
            "not enough memory for this graph; --memory-limit makes do with less",
            BAD_INPUT,
        )


def describe(error: Exception) -> str:
    """One sentence for a person at a terminal."""
    if isinstance(error, OSError) and error.strerror:
        named = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{named}"
    sentence = str(error)
    for words, option in OPTION_WORDS.items():
        sentence = sentence.replace(words, option)
    return sentence


def _mend_streams() -> None:
    """A closed stream swallows what is printed; a letter it cannot show is no error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _raise_interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _end(program: str, sentence: str, code: int) -> None:
    print(f"{program}: {escaped(' '.join(sentence.split()))}", file=sys.stderr)
    sys.exit(code)
