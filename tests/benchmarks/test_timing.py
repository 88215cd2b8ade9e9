"""Timing: order of calls, minimum over repeats, failures and missing packages."""

import warnings

import numpy as np
import pytest

from benchmarks import timing
from benchmarks.timing import (
    Method,
    in_order,
    prepare,
    reason_of,
    smallest_cosine,
    time_interleaved,
)
from gpcanet.datasets import block_model


@pytest.fixture
def clock(monkeypatch):
    """A clock that is advanced only by tasks."""

    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

        def task(self, *durations, done=None):
            left = list(durations)

            def run():
                if done is not None:
                    done()
                self.now += left.pop(0)

            return run

    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


def test_calls_are_interleaved(clock):
    calls = []
    tasks = {name: clock.task(1, 1, 1, done=lambda name=name: calls.append(name)) for name in "abc"}
    time_interleaved(tasks, 2)
    assert "".join(calls) == "abcabcabc"


def test_minimum_of_repeats_without_the_first_call(clock):
    found = time_interleaved({"a": clock.task(0.5, 3, 2, 4), "b": clock.task(9, 1, 2, 3)}, 3)
    assert found["a"] == {"seconds": 2, "first": 0.5, "repeats": 3}
    assert found["b"] == {"seconds": 1, "first": 9, "repeats": 3}


def test_slow_task_is_not_repeated(clock):
    tasks = {"slow": clock.task(40), "slower": clock.task(8, 7), "quick": clock.task(1, 1, 1)}
    found = time_interleaved(tasks, 2, patience=10)
    assert found["slow"] == {"seconds": 40, "first": 40, "repeats": 1}
    assert found["slower"] == {"seconds": 7, "first": 8, "repeats": 1}
    assert found["quick"]["repeats"] == 2


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_task_that_raises_does_not_stop_others(clock, fails_at):
    calls = []

    def wrong():
        calls.append(len(calls))
        if calls[-1] == fails_at:
            raise ValueError("bad luck\nand more of it")

    found = time_interleaved({"wrong": wrong, "right": clock.task(1, 1, 1)}, 2)
    assert found["wrong"] == {"failed": "ValueError: bad luck"}
    assert found["right"]["repeats"] == 2
    assert len(calls) == fails_at + 1


def test_interrupt_is_not_a_failure():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_interleaved({"a": interrupted}, 1)


def test_reasons_have_one_line_of_limited_length():
    assert reason_of(ValueError("a\nb")) == "ValueError: a"
    assert reason_of(MemoryError()) == "MemoryError"
    assert len(reason_of(ValueError("long " * 100))) == timing.REASON_LENGTH


# -- methods ------------------------------------------------------------------------------------


def needs_absent(data):
    import no_such_package.part  # noqa: F401


def broken(data):
    raise AttributeError("numpy has no attribute 'float'")


def warns(data):
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    return lambda: warnings.warn("older", DeprecationWarning, stacklevel=1)


def test_missing_broken_and_slow_methods_are_omitted_with_a_reason():
    methods = (
        Method("ours", lambda data: lambda: data.graph.n_nodes),
        Method("absent", needs_absent, needs=("no_such_package",)),
        Method("broken", broken, needs=("broken",)),
        Method("too slow", warns, max_nodes=50),
        Method("noisy", warns, needs=("noisy",)),
    )
    tasks, omitted = prepare(methods, block_model(100, 200))
    assert list(tasks) == ["ours", "noisy"]
    assert omitted == {
        "absent": {"skipped": "no_such_package is not installed"},
        "broken": {"failed": "AttributeError: numpy has no attribute 'float'"},
        "too slow": {"skipped": "takes minutes on more than 50 nodes"},
    }
    assert tasks["ours"]() == 100
    found = in_order(methods, omitted, time_interleaved(tasks, 1))
    assert list(found) == [method.name for method in methods]
    assert "seconds" in found["noisy"]  # warnings of other libraries are ignored


def test_own_warnings_are_not_hidden():
    _, omitted = prepare([Method("ours", warns)], block_model(10, 20))
    assert omitted == {"ours": {"failed": "DeprecationWarning: old"}}  # an error in tests


def test_smallest_cosine_belongs_to_the_largest_angle():
    angle = 0.3
    V = np.eye(2, 4)
    W = np.array([[1, 0, 0, 0], [0, np.cos(angle), np.sin(angle), 0]])
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    assert smallest_cosine(V, turn @ W) == pytest.approx(np.cos(angle))
    assert smallest_cosine(V, turn @ V) == pytest.approx(1)
