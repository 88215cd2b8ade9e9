"""Helpers of tests that start worker processes."""

import contextlib
import multiprocessing
from pathlib import Path

import pytest

import reproduction.runner
from reproduction.runner import THREAD_VARIABLES

on_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


def reproducible_part(outcome):
    """The part of a record that is the same in every run."""
    return {
        name: value
        for name, value in outcome.items()
        if name not in ("seconds", "when", "versions", "machine", "jobs")
    }


def children_since(others):
    """Worker processes of this process that are not among others, which started earlier."""
    return [child for child in multiprocessing.active_children() if child not in others]


@contextlib.contextmanager
def quick_workers(folder):
    """Workers that start without torch, and a progress report after every cell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(reproduction.runner, "PROGRESS_SECONDS", 0.01)
        for name in THREAD_VARIABLES:
            patch.delenv(name, raising=False)
        yield patch
