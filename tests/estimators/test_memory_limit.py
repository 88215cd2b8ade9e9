"""Fits with a memory limit: the same result, within the limit."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from truth import random_labels

import gpcanet.estimators.memory_estimate
import gpcanet.estimators.memory_plan
from gpcanet import GPCA, GPCAClassifier
from gpcanet.datasets import block_model
from gpcanet.estimators.fit import unnamed_array
from gpcanet.estimators.memory_plan import FitSize, format_bytes, parse_bytes, plan_memory
from gpcanet.estimators.problem import Parameters, Problem
from gpcanet.linalg import column_blocks

SIZE = FitSize(10**6, 100, 16, 10**7, 4, 4, 4, reorders=True)
SIZES = [
    SIZE,
    SIZE._replace(work_item=2),
    SIZE._replace(n_features=3, n_components=3),
    SIZE._replace(sparse_entries=10**7, n_features=5000),
    SIZE._replace(sparse_entries=10**7, n_features=5000, strategy="lanczos", item=8, work_item=8),
    SIZE._replace(x_copy=4 * 10**8, reorders=False),
    SIZE._replace(refines=True),
]


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("1.5GiB", 3 * 2**29),
        ("800MB", 8 * 10**8),
        (" 2 kib ", 2048),
        ("7B", 7),
        (".5 GB", 5 * 10**8),
    ],
)
def test_amounts_of_memory_are_parsed(text, n_bytes):
    assert parse_bytes(text) == parse_bytes(n_bytes) == parse_bytes(np.int64(n_bytes)) == n_bytes


@pytest.mark.parametrize("bad", ["", "lots", "1.5", "3 XB", "1,5GiB", "-1GiB", "GiB", "1e3MB"])
def test_other_text_is_rejected(bad):
    with pytest.raises(ValueError, match=r"use '1\.5GiB'"):
        GPCA(memory_limit=bad).fit(np.eye(4))


@pytest.mark.parametrize("bad", [True, [1], float("nan"), float("inf")])
def test_other_types_are_rejected(bad):
    with pytest.raises(TypeError, match="must be a number of bytes"):
        GPCA(memory_limit=bad).fit(np.eye(4))


@pytest.mark.parametrize("bad", [0, -5, "0GiB"])
def test_a_limit_of_zero_or_less_is_rejected(bad):
    with pytest.raises(ValueError, match="must be positive"):
        GPCA(memory_limit=bad).fit(np.eye(4))


def test_amounts_of_memory_are_formatted():
    assert format_bytes(1.5 * 2**30) == "1.5 GiB"
    assert format_bytes(2**20 + 1) == "1 MiB"
    assert format_bytes(2**20 + 1, up=True) == "2 MiB"
    assert format_bytes(2**30 + 1, up=True) == "1.01 GiB"


# -- the plan ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_a_sufficient_limit_changes_nothing(size):
    free = plan_memory(size)
    assert plan_memory(size, free.n_bytes) == free
    assert not free.on_disk


@pytest.mark.parametrize("size", SIZES)
def test_a_plan_stays_within_every_limit_down_to_the_smallest_stated(size):
    with pytest.raises(ValueError, match="use at least") as raised:
        plan_memory(size, 1)
    least = parse_bytes(str(raised.value).rpartition("at least ")[2])
    widths = []
    for limit in np.geomspace(least, plan_memory(size).n_bytes - 1, 20).astype(int):
        plan = plan_memory(size, int(limit))
        assert plan.on_disk
        assert plan.n_bytes <= limit
        widths.append(plan.columns_per_block)
    assert widths[0] >= 1
    with pytest.raises(ValueError, match="use at least"):
        plan_memory(size, least - 2 * 2**20 if least < 2**30 else int(0.98 * least))


def test_narrow_blocks_are_widened_by_giving_up_the_node_ordering():
    plans = [plan_memory(SIZE, limit * 2**20) for limit in (300, 600)]
    assert [plan.reorder for plan in plans] == [False, True]


@pytest.mark.parametrize(("n_columns", "most"), [(10, 3), (7, 7), (7, 100), (100, 1), (64, 63)])
def test_blocks_cover_columns_once_and_evenly(n_columns, most):
    blocks = column_blocks(n_columns, most)
    covered = [column for block in blocks for column in range(block.start, block.stop)]
    assert covered == list(range(n_columns))
    widths = [block.stop - block.start for block in blocks]
    assert max(widths) <= most
    assert max(widths) - min(widths) <= 1


# -- the fit -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return block_model(400, 2000, n_features=24, n_classes=4, seed=3)


@pytest.fixture
def tight(monkeypatch):
    """Function that returns the limit for a number of columns per block, without row chunks."""
    monkeypatch.setattr(gpcanet.estimators.memory_plan, "CHUNKS", 0)
    monkeypatch.setattr(gpcanet.linalg.features, "CHUNK_BYTES", 24 * 8 * 50)

    def limit(X, n_columns, **parameters):
        size = Problem(Parameters(**parameters), data_graph(), X, n_components=5).sizes()
        fixed = gpcanet.estimators.memory_plan._fixed(size, reorder=False)
        return fixed + n_columns * gpcanet.estimators.memory_plan._per_column(size)

    def data_graph():
        return block_model(400, 2000, n_features=24, n_classes=4, seed=3).graph

    return limit


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"normalization": "rw"},
        {"normalization": "rw", "ghost": "paper", "beta": 0.3, "solver": "chebyshev"},
        {"beta": 0.3},
        {"solver": "fixed-point", "n_iter": 5},
        {"eigen_solver": "lanczos"},
    ],
)
@pytest.mark.parametrize("kind", ["dense", "sparse", "float32"])
@pytest.mark.usefixtures("either_path")
def test_result_equals_a_fit_without_limit(data, tight, settings, kind):
    X = data.X.astype(np.float32 if kind == "float32" else float)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.04) if kind == "sparse" else X
    X = sp.csr_array(X) if kind == "sparse" else X
    y = random_labels(400)
    settings = {"solver": "chebyshev", "tol": 1e-6 if kind == "float32" else 1e-11} | settings
    n_columns = 4 if kind == "dense" else 1
    limit = tight(X, n_columns, **settings)
    free = GPCA(5, **settings)
    within = GPCA(5, **settings, memory_limit=limit)
    Z, Z_within = (
        free.fit_transform(X, y, graph=data.graph),
        within.fit_transform(X, y, graph=data.graph),
    )
    assert isinstance(Z_within, np.memmap)
    assert Z_within.dtype == Z.dtype
    accuracy = 2e-4 if kind == "float32" else 1e-7
    scale = np.abs(Z).max()
    np.testing.assert_allclose(Z_within, Z, atol=accuracy * scale)
    np.testing.assert_allclose(within.components_, free.components_, atol=accuracy)
    assert within.objective_ == pytest.approx(free.objective_, rel=accuracy, nan_ok=True)
    assert np.isnan(within.objective_) == ("n_iter" in settings)
    again = within.transform(X, graph=data.graph)
    np.testing.assert_allclose(again, Z, atol=accuracy * scale)


def test_result_in_half_precision_equals_a_fit_without_limit(data, tight):
    settings = {"precision": "half", "alpha": 5.0}
    Z = GPCA(5, **settings).fit_transform(data.X, graph=data.graph)
    limit = tight(data.X, 4, **settings)
    within = GPCA(5, **settings, memory_limit=limit).fit_transform(data.X, graph=data.graph)
    assert np.linalg.norm(within - Z) < 1e-3 * np.linalg.norm(Z)


def test_memory_mapped_features_give_the_same_result(data, tight, tmp_path):
    np.save(tmp_path / "X.npy", data.X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    limit = tight(data.X, 3)
    on_disk = GPCA(5, memory_limit=limit).fit_transform(mapped, graph=data.graph)
    expected = GPCA(5, memory_limit=limit).fit_transform(data.X, graph=data.graph)
    np.testing.assert_array_equal(on_disk, expected)


def test_fortran_order_gives_the_same_result(data, tight):
    expected = GPCA(5).fit_transform(data.X, graph=data.graph)
    fortran = np.asfortranarray(data.X)
    np.testing.assert_array_equal(GPCA(5).fit_transform(fortran, graph=data.graph), expected)
    within = GPCA(5, memory_limit=tight(fortran, 3)).fit_transform(fortran, graph=data.graph)
    np.testing.assert_allclose(within, expected, atol=1e-4 * np.abs(expected).max())


def test_a_limit_that_is_too_small_raises_with_the_smallest_one(data):
    with pytest.raises(ValueError, match=r"memory_limit=1 MiB is too small .* at least 4\d MiB"):
        GPCA(5, memory_limit="1MiB").fit(data.X, graph=data.graph)


def test_a_classifier_passes_its_limit_to_gpca(data):
    y = np.where(np.arange(400) < 60, data.y, -1)
    model = GPCAClassifier(5, memory_limit="1GiB").fit(data.X, y, graph=data.graph)
    assert {gpca.memory_limit for gpca in model.gpca_} == {"1GiB"}
    with pytest.raises(ValueError, match="at least"):
        GPCAClassifier(5, memory_limit="1MiB").fit(data.X, y, graph=data.graph)


def test_a_full_disk_raises_an_error(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    with pytest.raises(OSError, match=r"no room for 1 MiB .*No space left.* TMPDIR"):
        unnamed_array((10, 10), np.float32)


def test_a_memory_mapped_result_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Z = unnamed_array((100, 10), np.float32)
    Z[:] = 3
    del Z
    assert list(tmp_path.iterdir()) == []


# Peak memory beyond the graph, X and memory-mapped files.
MEASURE = """
import numpy as np
from gpcanet import GPCA, Graph
from benchmarks.child import Memory

rng = np.random.default_rng(0)
n = 600_000
X = rng.standard_normal((n, 64), dtype=np.float32)
graph = Graph.from_edge_index(rng.integers(0, n, (2, 2_000_000)), n_nodes=n, each_once=True)
with Memory() as memory:
    GPCA(48, alpha=2.0, tol=TOL, memory_limit=LIMIT, precision=PRECISION).fit(X, graph=graph)
print(memory.peak - memory.before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("limit", "precision", "tol"),
    [
        pytest.param(250 * 2**20, "full", 1e-2, marks=pytest.mark.slow),
        (250 * 2**20, "full", 1e-5),  # in mixed precision
        (180 * 2**20, "half", 1e-2),
    ],
)
def test_measured_peak_is_within_the_limit(limit, precision, tol):
    settings = f"LIMIT, PRECISION, TOL = {limit}, {precision!r}, {tol}"
    output = subprocess.run(
        [sys.executable, "-c", f"{settings}\n{MEASURE}"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    assert limit / 2 < int(output) < limit + gpcanet.estimators.memory_estimate.BYTES_OF_CODE
