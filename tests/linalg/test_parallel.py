"""Parallel functions, and the number of BLAS threads during and after them."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from threadpoolctl import threadpool_info, threadpool_limits

from gpcanet.linalg import (
    one_blas_thread,
    parallel,
    parallel_map,
    parallel_rows,
    parallel_sum,
)
from gpcanet.utils.progress import progress_to, report_progress


def blas_threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def test_overlapping_limits_restore_the_number_of_threads():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}  # the second limit is still active
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_a_limit_set_by_one_thread_is_restored_by_another():
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as pool:
        before = blas_threads()
        limit = one_blas_thread()
        pool.submit(limit.__enter__).result()
        assert blas_threads() == {1}
        limit.__exit__(None, None, None)
        assert blas_threads() == before


@pytest.mark.parametrize(
    ("variable", "cores"),
    [("", 4), ("0", 4), ("many", 4), ("4,2", 4), ("-1", 4), ("1", 1), ("3", 3), ("64", 4)],
)
def test_usable_cores_are_the_available_ones_up_to_omp_num_threads(monkeypatch, variable, cores):
    monkeypatch.setattr(parallel, "available_cores", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert parallel.usable_cores() == cores


# -- parallel_map --------------------------------------------------------------------------


def test_one_core_needs_no_threads(monkeypatch):
    monkeypatch.setattr(parallel, "available_cores", lambda: 1)
    seen = parallel_map(lambda _: (threading.get_ident(), blas_threads()), range(3))
    assert seen == [(threading.get_ident(), {1})] * 3


def test_parallel_map_returns_results_in_order():
    def work(item):
        time.sleep(0.01 * (item % 3))
        return item**2

    assert parallel_map(work, range(20)) == [item**2 for item in range(20)]
    assert parallel_map(work, []) == []


def test_parallel_sum_adds_in_order_and_in_place():
    start = np.zeros(3)
    total = parallel_sum(lambda item: np.full(3, 10.0**item), range(-20, 1), start)
    assert total is start
    expected = 0.0
    for item in range(-20, 1):
        expected += 10.0**item
    assert total.tolist() == [expected] * 3
    assert parallel_sum(float, range(4)) == 6.0


@pytest.mark.parametrize("function", [parallel_map, parallel_sum])
def test_an_exception_propagates_and_the_number_of_blas_threads_is_restored(function):
    def work(item):
        assert blas_threads() == {1}
        if item == 3:
            raise RuntimeError("no")
        return 1.0

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        # The result is complete: an iterator could be abandoned while the limit is active.
        assert isinstance(function(lambda item: 1.0, range(9)), list | float)
        assert blas_threads() == before
        with pytest.raises(RuntimeError, match="no"):
            function(work, range(9))
        assert blas_threads() == before


def test_threads_have_the_context_variables_of_the_caller(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 3)
    number = ContextVar("number", default=0)
    number.set(7)

    def work(item):
        value = number.get()
        number.set(item)  # in a copy of the context
        return value

    assert parallel_map(work, range(9)) == [7] * 9
    assert number.get() == 7


def test_progress_reports_of_threads_are_serialized():
    reports, inside = [], threading.Lock()

    def listen(what, done, total):
        assert inside.acquire(blocking=False)
        time.sleep(0.001)
        reports.append((what, done, total))
        inside.release()

    with progress_to(listen):
        parallel_map(lambda item: report_progress("working", item, 20), range(20))
    assert sorted(reports) == [("working", item, 20) for item in range(20)]


# -- parallel_rows -------------------------------------------------------------------------


@examples(60)
@given(
    n_rows=st.integers(0, 5000),
    n_threads=st.integers(1, 9),
    min_rows=st.integers(1, 300),
)
def test_every_row_is_computed_exactly_once(n_rows, n_threads, min_rows):
    counts, chunks = np.zeros(n_rows, np.int64), []

    def kernel(begin, end, counts, amount):
        chunks.append(end - begin)
        counts[begin:end] += amount

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "usable_cores", lambda: n_threads)
        parallel_rows(kernel, n_rows, counts, 3, min_rows=min_rows)
    np.testing.assert_array_equal(counts, 3)
    assert len(chunks) == 1 or min(chunks) >= min_rows


@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("row", [0, 5000, 9999])
def test_an_exception_in_a_kernel_propagates(monkeypatch, n_threads, row):
    monkeypatch.setattr(parallel, "usable_cores", lambda: n_threads)

    def kernel(begin, end):
        if begin <= row < end:
            raise RuntimeError(f"row {row}")

    with pytest.raises(RuntimeError, match=f"row {row}"):
        parallel_rows(kernel, 10_000)


def test_several_threads_compute_rows(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 3)
    barrier = threading.Barrier(3)

    def kernel(begin, end):
        if begin == 0 or not barrier.broken:
            barrier.wait(timeout=30)  # raises unless three threads arrive

    parallel_rows(kernel, 3, min_rows=1)


def _sum_of_rows(n_rows):
    """Sum of the numbers below n_rows, computed by parallel_rows."""
    result = np.zeros(n_rows, np.int64)
    parallel_rows(lambda begin, end: result.__setitem__(slice(begin, end), 1), n_rows)
    return int(result @ np.arange(n_rows))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_parallel_rows_works_in_a_forked_process(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    expected = 10_000 * 9_999 // 2
    assert _sum_of_rows(10_000) == expected  # the parent has used threads
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_sum_of_rows, [10_000] * 4).get(timeout=60) == [expected] * 4
