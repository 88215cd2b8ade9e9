"""Output of a command: notes and progress on standard error, results on standard output."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import DataWarning

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

logger = logging.getLogger("gpcanet")
logger.addHandler(logging.NullHandler())  # without it, logging prints errors a second time

#: Without a progress bar, the time of a phase is printed if it is at least this long.
LONG_SECONDS = 2.0

#: Width of piped tables, large enough that no line is wrapped.
PIPE_WIDTH = 1000

#: Control characters, line separators and bidirectional marks: in file contents they could move
#: the cursor of a terminal or disguise a line.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    r"""Replace control characters by escape sequences.

    >>> print(escaped("a\x1b[2Jb\n"))
    a\x1b[2Jb\n
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def print_result(text: str) -> None:
    """Print to standard output and flush, so that a full disk is an error; ignore a closed pipe."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Otherwise the text left in the buffer fails again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise


class Console:
    """Prints notes, progress and results.

    Parameters
    ----------
    quiet : bool
        Whether to print only results and warnings about the data.
    as_json : bool
        Whether to print results as JSON.

    Attributes
    ----------
    seconds : dict
        Duration of every finished phase.
    warned : set
        Data warnings that were printed.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.seconds: dict[str, float] = {}
        self.warned: set[str] = set()
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        warnings.showwarning = self._show_warning

    def note(self, text: str | None) -> None:
        """Print a sentence to standard error, unless quiet; it is logged in any case."""
        if text:
            logger.info("%s", text)
        if text and not self.quiet:
            self._print_above_bars(text)

    def result(self, values: dict[str, Any], *shown: RenderableType) -> None:
        """Print the values as JSON, or else the text and tables ``shown``."""
        if self.as_json:
            print_result(json.dumps(values, allow_nan=False))
        else:
            self._print_tables(shown)

    def _print_tables(self, shown: tuple[RenderableType, ...]) -> None:
        from rich.console import Console as Terminal
        from rich.segment import Segment, Segments

        # Names of classes and files may contain what looks like markup.
        width = None if sys.stdout.isatty() else PIPE_WIDTH
        terminal = Terminal(width=width, highlight=False, markup=False, emoji=False)
        with terminal.capture() as captured:
            for item in shown:
                item = terminal.render_str(item) if isinstance(item, str) else item
                # Segments separate the text, which is escaped, from the styles, which are not.
                segments = [
                    Segment("\n".join(map(escaped, text.split("\n"))), style, control)
                    for text, style, control in terminal.render(item)
                ]
                terminal.print(Segments(segments))
        print_result("\n".join(line.rstrip() for line in captured.get().splitlines()))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the time of a block and show its progress."""
        from ..utils.progress import progress_to

        start = time.perf_counter()
        try:
            if self.quiet or not _can_draw():
                yield
            else:
                with self._bar(name), progress_to(self.progress):
                    yield
        finally:
            self.seconds[name] = seconds = time.perf_counter() - start
        if seconds >= LONG_SECONDS and not _can_draw():
            self.note(f"{name}: {seconds:.1f} s")
        else:
            logger.info("%s: %.1f s", name, seconds)

    @property
    def draws(self) -> bool:
        """Whether a progress bar is shown."""
        return self._bars is not None

    @contextmanager
    def counting(self, unit: str) -> Iterator[None]:
        """Show the progress of a block as a count, such as "epoch 3 of 100"."""
        from ..utils.progress import progress_to

        def show(what: str, done: int, total: int | None) -> None:
            self.progress(what, done, total, f"{unit} {done:,} of {total:,}", has_estimate=False)

        with progress_to(show):
            yield

    def progress(
        self,
        what: str,
        done: int,
        total: int | None,
        text: str | None = None,
        *,
        has_estimate: bool = True,
    ) -> None:
        """Update the bar of a task; ``text`` replaces its name.

        The remaining time is shown unless the text has an estimate of its own.
        """
        if self._bars is None:
            return
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(escaped(what), total=total)
        self._bars.update(
            self._tasks[what],
            completed=done,
            total=total,
            description=escaped(text or what),
            has_own_estimate=text is not None and has_estimate,
        )

    @contextmanager
    def _bar(self, name: str) -> Iterator[None]:
        from rich.console import Console as Terminal
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class Remaining(TimeRemainingColumn):
            """Remaining time, unless the description of the task contains an estimate."""

            def render(self, task: Task) -> Text:
                return Text("") if task.fields.get("has_own_estimate") else super().render(task)

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            Remaining(),
        )
        with Progress(*columns, console=Terminal(stderr=True), transient=True) as self._bars:
            self._tasks = {}
            self._bars.add_task(escaped(name), total=None)
            try:
                yield
            finally:
                self._bars.refresh()
                self._bars = None

    def _print_above_bars(self, text: str) -> None:
        text = escaped(text)
        if self._bars is not None:
            self._bars.console.print(text, highlight=False, markup=False, emoji=False)
        else:
            print(text, file=sys.stderr)

    def _show_warning(
        self, message: Warning | str, category: type[Warning], *_: Any, **__: Any
    ) -> None:
        if issubclass(category, DataWarning):  # printed even with --quiet
            self.warned.add(str(message))
            logger.warning("%s", message)
            self._print_above_bars(f"warning: {message}")
        else:
            self.note(f"note: {' '.join(str(message).split())}")


def _can_draw() -> bool:
    """Whether standard error is a terminal that can move its cursor."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
