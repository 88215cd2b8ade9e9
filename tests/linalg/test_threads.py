"""One BLAS thread inside, as many as before outside."""

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gpcanet.linalg import one_blas_thread, threads


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
