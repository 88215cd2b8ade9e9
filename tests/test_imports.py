"""What importing gpcanet loads, and which part of it may import which."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpcanet

PACKAGE = Path(gpcanet.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

#: Optional, or needed late; numba only by the compiled kernels.
NOT_ON_IMPORT = ("torch", "dask", "plotly", "matplotlib", "pandas", "networkx", "numba")


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_loads_no_optional_package():
    # scikit-learn itself loads pandas where it is installed, hence "more than it".
    code = f"""
import sys, sklearn.base, sklearn.utils.validation
before = set(sys.modules)
import gpcanet
print(*(set(sys.modules) - before) & set({NOT_ON_IMPORT!r}))
"""
    assert run(code) == []


def test_import_and_fit_work_where_no_optional_package_is_installed():
    code = f"""
import sys
class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in {[name for name in NOT_ON_IMPORT if name != "numba"]!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent)
import numpy as np
from gpcanet import GPCA, Graph
graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 2]])
print(*GPCA(1).fit_transform(np.eye(4), graph=graph).shape)
"""
    assert run(code) == ["4", "1"]


# -- layers ---------------------------------------------------------------------------------


def imports_of(source, module, *, is_package=False):
    """Full names of all that a module imports, at its top or inside its functions."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{origin}.{alias.name}" for alias in node.names}
    return found


def is_within(name, *packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


def broken_rules(module, imported):
    """Which imports of a module go against the layers."""
    ours = {name for name in imported if is_within(name, "gpcanet")}
    broken = set()
    if is_within(module, "gpcanet.linalg"):
        broken |= {name for name in ours if not is_within(name, "gpcanet.linalg")}
    if is_within(module, "gpcanet.graph", "gpcanet.sources", "gpcanet.entries"):
        broken |= {name for name in ours if is_within(name, "gpcanet.linalg")}
    if is_within(module, "gpcanet.datasets"):
        above = ("gpcanet.gpca", "gpcanet.classifier", "gpcanet.GPCA", "gpcanet.GPCAClassifier")
        broken |= {name for name in ours if is_within(name, *above)}
    if not is_within(module, "gpcanet.nn"):
        broken |= {name for name in imported if is_within(name, "torch", "torch_geometric")}
    return broken


def module_name(file):
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_modules_import_only_from_the_layers_below(file):
    module = module_name(file)
    imported = imports_of(file.read_text(), module, is_package=file.name == "__init__.py")
    assert broken_rules(module, imported) == set()


@pytest.mark.parametrize(
    ("module", "source", "broken"),
    [
        ("gpcanet.linalg.solve", "from ..graph import Graph", {"gpcanet.graph.Graph"}),
        ("gpcanet.linalg.solve", "from .. import graph", {"gpcanet.graph"}),
        ("gpcanet.linalg.solve", "from . import kernels", set()),
        ("gpcanet.graph", "def f():\n    from .linalg import Solver", {"gpcanet.linalg.Solver"}),
        ("gpcanet.entries", "import gpcanet.linalg.solve", {"gpcanet.linalg.solve"}),
        ("gpcanet.graph", "def f():\n    import torch.sparse as t", {"torch.sparse"}),
        ("gpcanet.nn.model", "import torch", set()),
        ("gpcanet.datasets.files", "from ..gpca import GPCA", {"gpcanet.gpca.GPCA"}),
        ("gpcanet.datasets.files", "from gpcanet import GPCA", {"gpcanet.GPCA"}),
        ("gpcanet.datasets.files", "from ..graph import Graph", set()),
    ],
)
def test_the_walk_sees_what_breaks_the_layers(module, source, broken):
    assert broken_rules(module, imports_of(source, module)) == broken
