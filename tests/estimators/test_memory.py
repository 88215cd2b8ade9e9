"""Estimates of the memory of a fit, against measurements."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import gpcanet.estimators.memory_estimate
from gpcanet import GPCA, GPCAClassifier, GPCARegressor, Graph
from gpcanet.estimators.memory_estimate import fit_bytes, memory_note
from gpcanet.utils.available_memory import available_bytes

# Peak memory of a fit beyond that before it, as python -m benchmarks measures it.
MEASURE = """
import numpy as np
from gpcanet import GPCA, GPCAClassifier, Graph
from benchmarks.child import Memory
from gpcanet.estimators.memory_estimate import fit_bytes

rng = np.random.default_rng(0)
if MODEL == "GPCA":
    N_NODES, WIDTH, N_EDGES = 300_000, 128, 1_000_000
    X = rng.standard_normal((N_NODES, WIDTH), dtype=np.float32)
    y, n_labelled = None, 0
    model = GPCA(16, alpha=1.0, tol=1e-2)
else:
    N_NODES, WIDTH, N_EDGES = 30_000, 256, 100_000
    X = rng.random((N_NODES, WIDTH), dtype=np.float32)
    y, n_labelled = rng.integers(2, size=N_NODES), N_NODES
    model = GPCAClassifier(normalize_embedding=False, C=0.3, features=False, correct=False,
                           smooth=False, cv=2)
graph = Graph.from_edge_index(rng.integers(0, N_NODES, (2, N_EDGES)), n_nodes=N_NODES,
                              each_once=True)
with Memory() as memory:
    model.fit(X, y, graph=graph)
print(X.nbytes, memory.peak - memory.before, fit_bytes(model, graph, X, n_labelled))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("model", "smallest", "factor"), [("GPCA", 150e6, 1.5), ("GPCAClassifier", 30e6, 1.6)]
)
def test_estimate_is_close_to_the_measured_peak(model, smallest, factor):
    output = subprocess.run(
        [sys.executable, "-c", f"MODEL = {model!r}\n{MEASURE}"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    block, measured, estimated = map(int, output.split())
    assert block > smallest
    assert measured > block
    assert measured / factor < estimated < measured * factor, f"{estimated:,} for {measured:,}"


def small():
    X = np.random.default_rng(0).normal(size=(10, 4))
    return GPCA(2), Graph.without_edges(10), X


def test_no_note_for_a_small_fit(monkeypatch):
    monkeypatch.setattr(gpcanet.estimators.memory_estimate, "available_bytes", lambda: 1)
    assert memory_note(*small()) is None


@pytest.fixture
def large(monkeypatch):
    """A fit of 3 GiB."""
    monkeypatch.setattr(gpcanet.estimators.memory_estimate, "fit_bytes", lambda *args: 3 * 2**30)
    return small()


def test_note_for_a_large_fit(large, monkeypatch):
    monkeypatch.setattr(gpcanet.estimators.memory_estimate, "available_bytes", lambda: 8 * 2**30)
    assert memory_note(*large) == "this will take about 3.0 GiB of memory of 8.0 GiB free"


def test_note_for_a_fit_larger_than_free_memory(large, monkeypatch):
    monkeypatch.setattr(gpcanet.estimators.memory_estimate, "available_bytes", lambda: 2 * 2**30)
    sentence = memory_note(*large)
    assert sentence.startswith(
        "this will take about 3.0 GiB of memory of 2.0 GiB free: it may fail"
    )


def test_note_without_free_memory_if_the_system_does_not_report_it(large, monkeypatch):
    monkeypatch.setattr(gpcanet.estimators.memory_estimate, "available_bytes", lambda: None)
    assert memory_note(*large) == "this will take about 3.0 GiB of memory"


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="needs /proc")
def test_available_memory_is_at_most_that_of_the_system():
    text = Path("/proc/meminfo").read_text()
    total = int(text.split("MemTotal:")[1].split()[0]) * 1024
    assert 0 < available_bytes() <= total


@pytest.mark.parametrize("content", [None, "", "MemTotal: 5 kB\n"])
def test_available_memory_is_none_if_the_system_does_not_report_it(monkeypatch, content):
    def read_text(self):
        if content is None:
            raise FileNotFoundError(self)
        return content

    monkeypatch.setattr(gpcanet.utils.available_memory.Path, "read_text", read_text)
    assert available_bytes() is None


# -- containers ---------------------------------------------------------------------------------

MIB = 2**20
V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"


def write_system(root, free=1000, cgroup=None):
    files = {"proc/meminfo": f"MemTotal: 9999999 kB\nMemAvailable: {free * 1024} kB\n"}
    if cgroup is not None:
        files["proc/self/cgroup"] = cgroup
    write_tree(root, files)


def write_tree(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(content))


def v2(folder, limit, used, cache=0):
    limit = limit if isinstance(limit, str) else limit * MIB
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{used * MIB}\n",
        f"{folder}/memory.stat": f"anon 7\ninactive_file {cache * MIB}\nactive_file 5\n",
    }


def v1(folder, limit, used, cache=0):
    return {
        f"{folder}/memory.limit_in_bytes": f"{limit * MIB}\n",
        f"{folder}/memory.usage_in_bytes": f"{used * MIB}\n",
        f"{folder}/memory.stat": f"inactive_file 1\ntotal_inactive_file {cache * MIB}\n",
    }


UNLIMITED_V1 = 9223372036854771712 // MIB
CGROUPS = {
    "no container": (None, {}, 1000),
    "the container is the root": ("0::/\n", v2(V2, 500, 100), 400),
    "no limit": ("0::/\n", v2(V2, "max", 100), 1000),
    "a limit above free memory": ("0::/\n", v2(V2, 5000, 100), 1000),
    "cached files can be released": ("0::/\n", v2(V2, 500, 400, cache=300), 400),
    "a nested cgroup": (
        "0::/user/job\n",
        v2(V2, "max", 0) | v2(f"{V2}/user", 700, 100) | v2(f"{V2}/user/job", 300, 100),
        200,
    ),
    "a parent has a smaller limit": (
        "0::/user/job\n", v2(f"{V2}/user", 700, 650) | v2(f"{V2}/user/job", 300, 100), 50
    ),
    "over the limit": ("0::/\n", v2(V2, 100, 150), 0),
    "the path is that of the host": ("0::/../../docker/abc\n", v2(V2, 500, 100), 400),
    "no list of cgroups": (None, v2(V2, 500, 100), 400),
    "version 1": ("5:cpu,memory:/docker/abc\n0::/\n", v1(f"{V1}/docker/abc", 500, 100), 400),
    "version 1, the path is that of the host": ("4:memory:/docker/abc\n", v1(V1, 500, 100), 400),
    "version 1, no limit": ("4:memory:/\n", v1(V1, UNLIMITED_V1, 100), 1000),
    "version 1, cached files": ("4:memory:/\n", v1(V1, 500, 400, cache=300), 400),
    "another controller": ("4:cpu:/a\n", v1(f"{V1}/a", 500, 100), 1000),
    "invalid content": ("a\n:\n4:memory\n\n", {f"{V2}/memory.max": "many"}, 1000),
}  # fmt: skip


@pytest.mark.parametrize("case", CGROUPS)
def test_limit_of_a_container_is_respected(tmp_path, case):
    cgroup, files, expected = CGROUPS[case]
    write_system(tmp_path, cgroup=cgroup)
    write_tree(tmp_path, files)
    assert available_bytes(tmp_path) == expected * MIB


def test_limit_of_a_container_without_meminfo(tmp_path):
    write_tree(tmp_path, v2(V2, 500, 100))
    assert available_bytes(tmp_path) == 400 * MIB


@given(
    free=st.integers(1, 2000),
    limits=st.lists(
        st.tuples(st.none() | st.integers(1, 2000), st.integers(0, 2000)), min_size=1, max_size=5
    ),
    version=st.sampled_from([v1, v2]),
)
@examples(50)
def test_smallest_of_nested_limits_is_used(free, limits, version):
    with tempfile.TemporaryDirectory() as name:
        folder = {v1: V1, v2: V2}[version]
        path, expected = "", free
        for depth, (limit, used) in enumerate(limits):
            if limit is not None:
                write_tree(Path(name), version(folder + path, limit, used))
                expected = min(expected, max(0, limit - used))
            path += f"/g{depth}"
        write_system(Path(name), free, {v1: f"3:memory:{path}\n", v2: f"0::{path}\n"}[version])
        assert available_bytes(Path(name)) == expected * MIB


# -- estimates ----------------------------------------------------------------------------------


def bytes_of(X, **parameters):
    return fit_bytes(GPCA(4, **parameters), Graph.without_edges(X.shape[0]), X)


def test_estimate_counts_the_blocks_in_memory():
    X = np.zeros((1000, 300), np.float32)
    code = gpcanet.estimators.memory_estimate.BYTES_OF_CODE

    def blocks(X, item, **parameters):  # without arrays per node, chunks, and d x d matrices
        fixed = 1000 * 36 + 5 * 2**23 + (32 + 10 * item) * 300**2
        return bytes_of(X, eigen_solver="formed", **parameters) - code - fixed

    single, double = blocks(X, 4), blocks(X.astype(float), 8)
    assert single == 4 * X.nbytes  # centred, in the internal variable, and two blocks
    assert double == 2 * single
    assert blocks(X, 4, precision="half") == 2.5 * X.nbytes
    few = bytes_of(sp.csr_array(X), eigen_solver="lanczos") - code
    assert few - 5 * 2**23 < single / 6


def bytes_beyond_gpca(X, n_labeled=0, **parameters):
    """Memory of a classifier beyond a fit of GPCA."""
    graph = Graph.without_edges(X.shape[0])
    classifier = GPCAClassifier(40, **parameters)  # so many that the matrix is formed
    return fit_bytes(classifier, graph, X, n_labeled) - fit_bytes(GPCA(40), graph, X)


def test_estimate_of_a_classifier_counts_its_copies_and_embeddings():
    X = np.zeros((1000, 300), np.float32)
    X[:, :100] = 1
    whole, row = 1000 * 40 * 4, 40 * 4
    copies = X.nbytes + 100_000 * 8
    # Ten members; 21 embeddings of labelled rows; solutions in a subspace of twice their width.
    assert bytes_beyond_gpca(X) == copies + 10 * whole
    assert bytes_beyond_gpca(X, 50) == copies + 10 * whole + (21 + 2 * 7) * 50 * row
    assert bytes_beyond_gpca(X, 50, alpha=1) == copies + 3 * whole + (3 + 2) * 50 * row
    assert bytes_beyond_gpca(X, 50, n_members=1) == copies + whole + (21 + 2 * 7) * 50 * row
    ghosts = 2 * X.nbytes  # at most all nodes are labelled
    expected = copies + ghosts + 10 * whole + (4 * 21 + 2 * 7) * 50 * row
    assert bytes_beyond_gpca(X, 50, beta=0.1, cv=3) == expected
    assert bytes_beyond_gpca(-X, 50) == X.nbytes + 10 * whole + (14 + 14) * 50 * row  # no tf-idf
    assert bytes_beyond_gpca(X, 50, feature_scaling="none") == 7 * whole + (7 + 14) * 50 * row
    assert bytes_beyond_gpca(sp.csr_array(X)) == 100_000 * 8 + 10 * whole


def test_estimate_for_a_share_of_the_trace_is_that_of_all_components():
    X, graph = np.zeros((1000, 300), np.float32), Graph.without_edges(1000)
    for kind in (GPCAClassifier, GPCARegressor):
        share, every = (fit_bytes(kind(k), graph, X, 50) for k in (0.9, 300))
        assert share == every


def test_note_for_a_classifier_depends_on_the_number_of_labels(monkeypatch):
    monkeypatch.setattr(gpcanet.estimators.memory_estimate, "available_bytes", lambda: None)
    _, graph, X = small()
    X = np.abs(X)
    assert memory_note(GPCAClassifier(4), graph, X) is None
    sentence = memory_note(GPCAClassifier(4), graph, X, 10**7)
    assert sentence == "this will take about 10.5 GiB of memory"
