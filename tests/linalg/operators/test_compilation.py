"""The cache of compiled code on disk depends on the sources of the whole package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpcanet
from gpcanet.linalg.operators import kernels, ordering
from gpcanet.linalg.operators.compilation import PackageCache

PROBE = """
from .compilation import compiled
from .blocks import CACHE_LINE_BYTES

OWN = 1

@compiled()
def constants():
    return OWN, CACHE_LINE_BYTES
"""

RUN = """
from gpcanet.linalg.operators import probe

print(*probe.constants(), sum(probe.constants.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package with one more kernel."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(gpcanet.__file__).parent, tmp_path / "gpcanet", ignore=ignored)
    (tmp_path / "gpcanet" / "linalg" / "operators" / "probe.py").write_text(PROBE)
    return tmp_path


def run(package, program=RUN):
    environment = os.environ | {
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",  # Python's own cache compares time and size only
        "NUMBA_CACHE_DIR": str(package / "cache"),
    }
    output = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    return [int(number) for number in output.split()]


def change(path, before, after):
    """Replace text by text of the same length and restore the time of the file."""
    text, status = path.read_text(), path.stat()
    assert before in text
    path.write_text(text.replace(before, after))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size


def test_changed_constants_recompile_a_cached_kernel(package):
    folder = package / "gpcanet" / "linalg" / "operators"
    assert run(package) == [1, 64, 0]
    assert run(package) == [1, 64, 1]  # from the cache
    change(folder / "probe.py", "OWN = 1", "OWN = 2")
    change(folder / "blocks.py", "CACHE_LINE_BYTES = 64", "CACHE_LINE_BYTES = 32")
    assert run(package) == [2, 32, 0]


def test_a_changed_constant_of_another_module_recompiles_a_cached_kernel(package):
    assert run(package) == [1, 64, 0]
    imported = package / "gpcanet" / "linalg" / "operators" / "blocks.py"
    change(imported, "CACHE_LINE_BYTES = 64", "CACHE_LINE_BYTES = 32")
    assert run(package) == [1, 32, 0]


LIMITED = """
import resource, signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_full_disk_does_not_keep_a_kernel_from_running(package):
    assert run(package, LIMITED + RUN) == [1, 64, 0]
    assert run(package) == [1, 64, 0]  # the index without its data counts as no cache
    assert run(package) == [1, 64, 1]


@pytest.mark.parametrize("module", [kernels, ordering])
def test_all_kernels_use_the_cache_of_the_package(module):
    caches = [
        type(value._cache)
        for value in vars(module).values()
        if hasattr(value, "py_func") and hasattr(value._cache, "_py_func")
    ]
    assert caches
    assert set(caches) == {PackageCache}
