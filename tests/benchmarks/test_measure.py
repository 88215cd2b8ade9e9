"""Timing in turns: the order of calls, what counts, and what a failure or absence becomes."""

import warnings

import numpy as np
import pytest

from benchmarks import measure
from benchmarks.measure import Way, in_order, interleaved, prepare, reason_of, smallest_cosine
from gpcanet.datasets import block_model


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on only when a task says so."""

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
    monkeypatch.setattr(measure, "time", clock)
    return clock


def test_tasks_take_turns(clock):
    calls = []
    tasks = {name: clock.task(1, 1, 1, done=lambda name=name: calls.append(name)) for name in "abc"}
    interleaved(tasks, 2)
    assert "".join(calls) == "abcabcabc"


def test_the_least_of_the_repeats_counts_and_the_first_call_is_apart(clock):
    found = interleaved({"a": clock.task(0.5, 3, 2, 4), "b": clock.task(9, 1, 2, 3)}, 3)
    assert found["a"] == {"seconds": 2, "first": 0.5, "repeats": 3}
    assert found["b"] == {"seconds": 1, "first": 9, "repeats": 3}


def test_a_slow_task_is_left_at_the_calls_it_has_had(clock):
    tasks = {"slow": clock.task(40), "slower": clock.task(8, 7), "quick": clock.task(1, 1, 1)}
    found = interleaved(tasks, 2, patience=10)
    assert found["slow"] == {"seconds": 40, "first": 40, "repeats": 1}
    assert found["slower"] == {"seconds": 7, "first": 8, "repeats": 1}
    assert found["quick"]["repeats"] == 2


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_task_that_raises_is_failed_and_stops_nobody(clock, fails_at):
    calls = []

    def wrong():
        calls.append(len(calls))
        if calls[-1] == fails_at:
            raise ValueError("bad luck\nand more of it")

    found = interleaved({"wrong": wrong, "right": clock.task(1, 1, 1)}, 2)
    assert found["wrong"] == {"failed": "ValueError: bad luck"}
    assert found["right"]["repeats"] == 2
    assert len(calls) == fails_at + 1


def test_an_interrupt_is_no_failure():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interleaved({"a": interrupted}, 1)


def test_reasons_are_one_line_of_limited_length():
    assert reason_of(ValueError("a\nb")) == "ValueError: a"
    assert reason_of(MemoryError()) == "MemoryError"
    assert len(reason_of(ValueError("long " * 100))) == measure.REASON_LETTERS


# -- ways ---------------------------------------------------------------------------------------


def needs_absent(data):
    import no_such_package.part  # noqa: F401


def broken(data):
    raise AttributeError("numpy has no attribute 'float'")


def warns(data):
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    return lambda: warnings.warn("older", DeprecationWarning, stacklevel=1)


def test_missing_broken_and_slow_peers_are_told_by_name():
    ways = (
        Way("ours", lambda data: lambda: data.graph.n_nodes),
        Way("absent", needs_absent, needs=("no_such_package",)),
        Way("broken", broken, needs=("broken",)),
        Way("too slow", warns, most_nodes=50),
        Way("noisy", warns, needs=("noisy",)),
    )
    tasks, left_out = prepare(ways, block_model(100, 200))
    assert list(tasks) == ["ours", "noisy"]
    assert left_out == {
        "absent": {"skipped": "no_such_package is not installed"},
        "broken": {"failed": "AttributeError: numpy has no attribute 'float'"},
        "too slow": {"skipped": "takes minutes on more than 50 nodes"},
    }
    assert tasks["ours"]() == 100
    found = in_order(ways, left_out, interleaved(tasks, 1))
    assert list(found) == [way.name for way in ways]
    assert "seconds" in found["noisy"]  # warnings of a peer are nobody's errors


def test_warnings_of_our_own_are_not_hidden():
    _, left_out = prepare([Way("ours", warns)], block_model(10, 20))
    assert left_out == {"ours": {"failed": "DeprecationWarning: old"}}  # an error in tests


def test_smallest_cosine_is_that_of_the_largest_angle():
    angle = 0.3
    V = np.eye(2, 4)
    W = np.array([[1, 0, 0, 0], [0, np.cos(angle), np.sin(angle), 0]])
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    assert smallest_cosine(V, turn @ W) == pytest.approx(np.cos(angle))
    assert smallest_cosine(V, turn @ V) == pytest.approx(1)
