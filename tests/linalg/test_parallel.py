"""One BLAS thread inside, as many as before outside."""

import threading
import time
from contextvars import ContextVar

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gpcanet.linalg import one_blas_thread, parallel_map, parallel_sum
from gpcanet.linalg import parallel as threads
from gpcanet.utils.progress import progress_to, report


def blas_threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def test_overlapping_users_leave_the_threads_as_they_were():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}  # somebody is still inside
        second.__exit__(None, None, None)
        assert blas_threads() == before


@pytest.mark.parametrize(
    ("said", "cores"),
    [("", 4), ("0", 4), ("many", 4), ("4,2", 4), ("-1", 4), ("1", 1), ("3", 3), ("64", 4)],
)
def test_usable_cores_are_those_given_and_no_more_than_said(monkeypatch, said, cores):
    monkeypatch.setattr(threads, "given_cores", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert threads.usable_cores() == cores


# -- parallel_map --------------------------------------------------------------------------


def test_parallel_map_keeps_the_order():
    def work(piece):
        time.sleep(0.01 * (piece % 3))
        return piece**2

    assert parallel_map(work, range(20)) == [piece**2 for piece in range(20)]
    assert parallel_map(work, []) == []


def test_parallel_sum_adds_in_order_and_in_place():
    start = np.zeros(3)
    total = parallel_sum(lambda piece: np.full(3, 10.0**piece), range(-20, 1), start)
    assert total is start
    expected = 0.0
    for piece in range(-20, 1):
        expected += 10.0**piece
    assert total.tolist() == [expected] * 3
    assert parallel_sum(float, range(4)) == 6.0


@pytest.mark.parametrize("parallel", [parallel_map, parallel_sum])
def test_an_error_of_a_worker_arrives_and_blas_has_its_threads_back(parallel):
    def work(piece):
        assert blas_threads() == {1}
        if piece == 3:
            raise RuntimeError("no")
        return 1.0

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        # Nothing that is returned can be left half used.
        assert isinstance(parallel(lambda piece: 1.0, range(9)), list | float)
        assert blas_threads() == before
        with pytest.raises(RuntimeError, match="no"):
            parallel(work, range(9))
        assert blas_threads() == before


def test_workers_see_the_context_of_the_caller(monkeypatch):
    monkeypatch.setattr(threads, "usable_cores", lambda: 3)
    number = ContextVar("number", default=0)
    number.set(7)

    def work(piece):
        seen = number.get()
        number.set(piece)  # in a copy of the context
        return seen

    assert parallel_map(work, range(9)) == [7] * 9
    assert number.get() == 7


def test_progress_inside_parallel_work_is_reported_one_at_a_time():
    reports, inside = [], threading.Lock()

    def listen(what, done, total):
        assert inside.acquire(blocking=False)
        time.sleep(0.001)
        reports.append((what, done, total))
        inside.release()

    with progress_to(listen):
        parallel_map(lambda piece: report("working", piece, 20), range(20))
    assert sorted(reports) == [("working", piece, 20) for piece in range(20)]
