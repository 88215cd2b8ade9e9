"""The cache of compiled code on disk notices constants that change."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpcanet
from gpcanet.linalg import factor_kernels
from gpcanet.linalg.operators import compilation as compiled_module
from gpcanet.linalg.operators import kernels
from gpcanet.linalg.operators import ordering as reorder

PROBE = """
from .compiled import compiled
from .propagation import CACHE_LINE_BYTES

OWN = 1

@compiled()
def constants():
    return OWN, CACHE_LINE_BYTES
"""

RUN = """
from gpcanet.linalg import probe

print(*probe.constants(), sum(probe.constants.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package with a kernel more."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(gpcanet.__file__).parent, tmp_path / "gpcanet", ignore=ignored)
    (tmp_path / "gpcanet" / "linalg" / "probe.py").write_text(PROBE)
    return tmp_path


def run(package):
    environment = os.environ | {
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",  # Python's own cache goes by time and size
        "NUMBA_CACHE_DIR": str(package / "cache"),
    }
    output = subprocess.check_output([sys.executable, "-c", RUN], env=environment, text=True)
    return [int(number) for number in output.split()]


def change(path, before, after):
    """Replace text by text of the same length, and keep the time of the file."""
    text, status = path.read_text(), path.stat()
    assert before in text
    path.write_text(text.replace(before, after))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size


def test_a_changed_constant_acts_though_compiled_code_is_cached(package):
    folder = package / "gpcanet" / "linalg"
    assert run(package) == [1, 64, 0]
    assert run(package) == [1, 64, 1]  # from the cache
    change(folder / "probe.py", "OWN = 1", "OWN = 2")
    change(folder / "propagation.py", "CACHE_LINE_BYTES = 64", "CACHE_LINE_BYTES = 32")
    assert run(package) == [2, 32, 0]


def test_a_constant_of_another_module_acts_by_itself(package):
    assert run(package) == [1, 64, 0]
    imported = package / "gpcanet" / "linalg" / "propagation.py"
    change(imported, "CACHE_LINE_BYTES = 64", "CACHE_LINE_BYTES = 32")
    assert run(package) == [1, 32, 0]


@pytest.mark.parametrize("module", [kernels, factor_kernels, reorder])
def test_all_kernels_have_that_cache(module):
    caches = [
        type(value._cache)
        for value in vars(module).values()
        if hasattr(value, "py_func") and hasattr(value._cache, "_py_func")
    ]
    assert caches
    assert set(caches) == {compiled_module.PackageCache}
