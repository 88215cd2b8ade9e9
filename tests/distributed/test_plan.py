"""The plan: memory that is enough, and the numbers of the guide."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from gpcanet.distributed import Store
from gpcanet.distributed.plan import READ_RATE, make_plan
from gpcanet.errors import InputError, ParameterError
from gpcanet.estimators.problem import Parameters

GUIDE = Path(__file__).parents[2] / "docs" / "guide-cluster.md"


def planned_store(n, n_edges, d, *, width=32, dtype="<f2", weighted=False):
    """A store that consists of its manifest."""

    def entry(*shape, dtype):
        size = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
        return {"file": "", "dtype": dtype, "shape": list(shape), "bytes": size, "crc32": []}

    arrays = {
        "indptr": entry(n + 1, dtype="<i8"),
        "indices": entry(2 * n_edges, dtype="<i4"),
    }
    if weighted:
        arrays["weights"] = entry(2 * n_edges, dtype="<f4")
    for number, begin in enumerate(range(0, d, width)):
        arrays[f"X{number}"] = entry(n, min(width, d - begin), dtype=dtype)
    manifest = {"arrays": arrays, "mean": [0.0] * d, "largest": 1.0, "feature_names": None}
    return Store(Path("store"), manifest)


PAPERS = {"n": 111_059_956, "n_edges": 1_615_685_872, "d": 128}
FIVE_STEPS = {"solver": "fixed-point", "n_iter": 5, "precision": "half"}


@pytest.mark.parametrize(
    ("heading", "machines"), [("1 machine of 64 GB", 1), ("4 machines of 64 GB", 4)]
)
def test_the_guide_shows_what_the_plan_says(heading, machines):
    store = planned_store(**PAPERS)
    plan = make_plan(store, Parameters(**FIVE_STEPS, memory_limit="40GiB"), n_components=64)
    shown = re.search(rf"{heading}:\n\n```\n(.*?)\n```", GUIDE.read_text(), re.DOTALL)[1]
    assert shown.replace("\n", " ") == plan.summary(machines, machines).replace("\n", " ")


@pytest.mark.parametrize("number", [0, -1])
def test_columns_per_task_is_checked(number):
    with pytest.raises(InputError, match=f"columns_per_task={number} must be at least 1"):
        make_plan(planned_store(100, 200, 8), Parameters(), n_components=2, columns_per_task=number)


@pytest.mark.parametrize(
    ("d", "steps", "shown"),
    [
        (1, 1, "1 solve of up to 1 column and 1 step, 1 chunk of rows"),
        (40, 5, "2 solves of up to 32 columns and 5 steps, 1 chunk of rows"),
    ],
)
def test_one_of_a_kind_is_in_the_singular(d, steps, shown):
    parameters = Parameters(solver="fixed-point", n_iter=steps)
    summary = make_plan(planned_store(10, 20, d), parameters, n_components=1).summary(1)
    assert summary.startswith(f"{shown}\n")


@examples(100)
@given(
    n=st.integers(10, 10**8),
    d=st.integers(1, 300),
    width=st.integers(1, 64),
    dtype=st.sampled_from(["<f2", "<f4", "<f8"]),
    limit=st.integers(2**28, 2**36),
    solver=st.sampled_from([FIVE_STEPS, {}, {"solver": "cg"}, {"normalization": "rw"}]),
    n_columns=st.none() | st.integers(1, 40),
    is_transform=st.booleans(),
)
def test_blocks_cover_all_columns_within_the_limit(
    n, d, width, dtype, limit, solver, n_columns, is_transform
):
    store = planned_store(n, 10 * n, d, width=width, dtype=dtype)
    k = max(1, d // 2)
    options = {"n_components": k, "columns_per_task": n_columns, "is_transform": is_transform}
    try:
        plan = make_plan(store, Parameters(**solver, memory_limit=limit), **options)
    except ParameterError as error:
        least = re.search(r"at least ([\d.]+ \w+)", str(error))[1]
        plan = make_plan(store, Parameters(**solver, memory_limit=least), **options)
        assert plan.worker_bytes > limit
    else:
        assert plan.worker_bytes <= limit
    columns = [c for begin, end in plan.blocks for c in range(begin, end)]
    assert columns == list(range(k if is_transform else d))
    if n_columns is not None:
        assert max(end - begin for begin, end in plan.blocks) <= n_columns
    assert plan.chunks[0][0] == 0
    assert plan.chunks[-1][1] == n
    assert all(a[1] == b[0] for a, b in zip(plan.chunks, plan.chunks[1:], strict=False))
    assert plan.seconds(4) <= plan.seconds(1) <= plan.seconds(1, free_bytes=0)


def test_a_graph_that_does_not_fit_is_read_in_every_step():
    store = planned_store(**PAPERS)
    plan = make_plan(store, Parameters(**FIVE_STEPS, memory_limit="40GiB"), n_components=64)
    assert plan.seconds(1, plan.graph_bytes) == plan.seconds(1)
    too_little = plan.graph_bytes - 1
    for machines, n_solves in ((1, 4), (3, 2), (4, 1)):
        expected = n_solves * 5 * plan.graph_bytes / READ_RATE
        more = plan.seconds(machines, too_little) - plan.seconds(machines)
        assert more == pytest.approx(expected)
    assert "read from the disk in every step" in plan.summary(1, 1, too_little)
    assert "in the file cache of each machine" in plan.summary(1, 1, plan.graph_bytes)


def test_wide_features_are_refused():
    store = planned_store(1_000, 5_000, 6_001)
    with pytest.raises(InputError, match=r"for at most 6,000 features, .*TruncatedSVD"):
        make_plan(store, Parameters(), n_components=2)
