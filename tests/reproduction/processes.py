"""What tests share that start processes to run cells in."""

import contextlib
from pathlib import Path

import pytest

import reproduction.runner
from reproduction.runner import THREAD_VARIABLES

on_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="has no /proc")


def essence(outcome):
    """Of a record, what must be the same every time."""
    return {
        name: value
        for name, value in outcome.items()
        if name not in ("seconds", "when", "versions", "machine", "jobs")
    }


@contextlib.contextmanager
def quick_processes(folder):
    """Workers start in two seconds, with threads by the number of cores; every cell is told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(reproduction.runner, "TELL_SECONDS", 0.01)
        for name in THREAD_VARIABLES:
            patch.delenv(name, raising=False)
        yield patch
