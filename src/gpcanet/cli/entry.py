"""Start and end of a command: streams, signals, exit codes, one line per error."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from typing import Any

import typer

from ..errors import InputError, MissingFeatureError, OutputExistsError, UnknownNodeError, UserError
from .console import escaped, logger, print_result
from .log_file import stop_logging
from .signals import (
    INTERRUPTED,
    INTERRUPTED_MESSAGE,
    RESUMABLE_MESSAGE,
    catch_signals,
    restore_signals,
    was_interrupted,
)

INTERNAL_ERROR, BAD_INPUT = 1, 2

#: Smallest address space in which numerical libraries can be loaded. With less, they hang or crash.
SMALLEST_ADDRESS_SPACE = 1 << 30

#: Options that take files.
FILE_OPTIONS = {"-f", "--features", "-e", "--edges", "-l", "--labels"}

#: Base class of errors in the command line's syntax; typer contains its own copy of click.
UsageError: Any = typer.BadParameter.__base__


def make_app(name: str, **settings: Any) -> typer.Typer:
    """A command line with plain help and errors."""
    return typer.Typer(
        name=name,
        **{"add_completion": False, **settings},
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
    )


def run_app(app: typer.Typer, program: str) -> None:
    """Run a command and exit. 0: success, 2: bad input, 130: interrupted, 1: internal error."""
    catch_signals()
    _prepare_streams()
    try:
        _check_address_space()
        if app(standalone_mode=False) == INTERRUPTED:  # typer caught the KeyboardInterrupt
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        _exit_interrupted(program)
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else program
        message = f"{error.format_message().rstrip('.?')}; see {command} --help"
        if "extra argument" in message and FILE_OPTIONS & set(sys.argv):  # an expanded pattern
            message += ", and put a pattern of files in quotes"
        _exit(program, message, BAD_INPUT, "UsageError")
    except (UserError, OSError) as error:
        if was_interrupted():  # a library turned the Interrupt into an OSError
            _exit_interrupted(program)
        if "GPCANET_DEBUG" in os.environ:
            raise
        _exit(program, describe(error), BAD_INPUT, type(error).__name__)
    except MemoryError:
        message = "not enough memory for this graph; use --memory-limit or float32"
        _exit(program, message, BAD_INPUT, "MemoryError")
    except Exception as error:
        if was_interrupted():
            _exit_interrupted(program)
        # Python has no type of its own for these.
        if str(error) == "can't start new thread" or "failed to map segment" in str(error):
            message = "the system allows no more threads or memory; raise its limits"
            _exit(program, message, BAD_INPUT, "MemoryError")
        logger.exception("internal error")
        _print_json_error(f"internal error: {error}", INTERNAL_ERROR, type(error).__name__)
        raise
    finally:
        stop_logging()
        restore_signals()


def describe(error: Exception) -> str:
    """The message of an error in one sentence, with the options of the command."""
    if isinstance(error, OutputExistsError) and error.is_replaceable:
        return f"{error.path} exists; choose another name or use --force to replace it"
    if isinstance(error, UnknownNodeError):
        return f"{error.problem}; add it there or use --drop-unknown{error.hint}"
    if isinstance(error, MissingFeatureError):
        return f"{error.problem}; fill it in, or use --impute"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


def _prepare_streams() -> None:
    """Discard output to closed streams; replace characters that a stream cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _check_address_space() -> None:
    """Raise if ``ulimit -v`` leaves too little."""
    with suppress(ImportError):  # not on Windows
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY and limit < SMALLEST_ADDRESS_SPACE:
            raise InputError(
                f"the limit of {limit >> 20} MiB on address space is too small to load numerical "
                f"libraries; raise it to {SMALLEST_ADDRESS_SPACE >> 20} MiB or more (ulimit -v)"
            )


def _exit_interrupted(program: str) -> None:
    is_resumable = any(argument.split("=")[0] == "--scratch" for argument in sys.argv)
    message = RESUMABLE_MESSAGE if is_resumable else INTERRUPTED_MESSAGE
    _exit(program, message, INTERRUPTED, "Interrupted")


def _exit(program: str, message: str, code: int, kind: str) -> None:
    message = " ".join(message.split())
    logger.error("%s", message)
    print(f"{program}: {escaped(message)}", file=sys.stderr)
    _print_json_error(message, code, kind)
    sys.exit(code)


def _print_json_error(message: str, code: int, kind: str) -> None:
    """Print an error where a script expects the results."""
    # The arguments may not have been understood.
    if "--json" in sys.argv[1:]:
        error = {"type": kind, "message": message, "exit_code": code}
        print_result(json.dumps({"error": error}))
