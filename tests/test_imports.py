"""What importing gpcanet loads, and which part of it may import which."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpcanet

PACKAGE = Path(gpcanet.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

#: Not loaded by the estimators: optional, or needed for files, the command line or large graphs.
NOT_ON_USE = (
    "torch", "dask", "plotly", "matplotlib", "pandas", "networkx", "numba",
    "pyarrow", "typer", "rich", "safetensors", "filelock", "truststore", "anndata",
)  # fmt: skip

#: Not loaded before a name of the package is used.
NOT_ON_IMPORT = ("numpy", "scipy", "sklearn", "threadpoolctl", *NOT_ON_USE)

#: Of those, not installed everywhere.
OPTIONAL = ("torch", "dask", "plotly", "matplotlib", "pandas", "networkx", "anndata")


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_loads_nothing_before_a_name_is_used():
    code = f"""
import sys
import gpcanet
gpcanet.__version__, dir(gpcanet)
print(*set(sys.modules) & set({NOT_ON_IMPORT!r}))
import gpcanet.cli
print(*set(sys.modules) & {{"numpy", "scipy", "sklearn"}})
"""
    assert run(code) == []


def test_estimators_load_no_optional_package():
    # scikit-learn itself loads pandas where it is installed, hence "more than it".
    code = f"""
import sys, sklearn.base, sklearn.linear_model, sklearn.utils.validation
before = set(sys.modules)
from gpcanet import GPCA, GPCAClassifier, Graph
print(*(set(sys.modules) - before) & set({NOT_ON_USE!r}))
"""
    assert run(code) == []


@pytest.mark.parametrize("name", gpcanet.__all__)
def test_every_public_name_is_there(name):
    assert getattr(gpcanet, name) is not None
    assert name in dir(gpcanet)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'gpcanet' has no attribute 'GPCNet'"):
        gpcanet.GPCNet  # noqa: B018
    assert not hasattr(gpcanet, "gpca_")


def test_import_and_fit_work_where_no_optional_package_is_installed():
    code = f"""
import sys
class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in {OPTIONAL!r}:
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


#: Modules by the part of the package they belong to; others are of no part.
GRAPH = ("gpcanet.graph", "gpcanet.sources", "gpcanet.entries")
ESTIMATORS = tuple(
    f"gpcanet.{name}"
    for name in (
        "gpca", "path", "classifier", "head", "judge", "selection", "seen", "validation",
        "memory", "persistence", "GPCA", "GPCAPath", "GPCAClassifier", "load_model", "save_model",
    )
)  # fmt: skip

#: What the modules of a part must not import.
FORBIDDEN = {
    GRAPH: ("gpcanet.linalg", "gpcanet.datasets", "gpcanet.files", *ESTIMATORS),
    ("gpcanet.datasets",): ("gpcanet.files", "gpcanet.linalg", *ESTIMATORS),
    ("gpcanet.files",): ("gpcanet.linalg", *ESTIMATORS),
    ESTIMATORS: ("gpcanet.datasets", "gpcanet.files"),
    ("gpcanet.nn",): ("gpcanet.files",),
}

#: Who alone may import something.
RESERVED = {
    ("gpcanet.cli",): ("gpcanet.cli", "gpcanet.__main__"),
    ("gpcanet.bench",): ("gpcanet.bench", "gpcanet.cli"),
    ("gpcanet.paper",): ("gpcanet.paper", "gpcanet.cli"),
    ("typer", "rich"): ("gpcanet.cli",),
    ("matplotlib",): ("gpcanet.cli", "gpcanet.bench", "gpcanet.paper.figures"),
    ("jinja2", "markupsafe"): ("gpcanet.paper.render",),
    ("pyarrow", "anndata"): ("gpcanet.files", "gpcanet.datasets", "gpcanet.bench"),
    ("safetensors",): ("gpcanet.tensor_file",),
    ("torch", "torch_geometric"): (
        "gpcanet.nn", "gpcanet.bench", "gpcanet.paper.networks", "gpcanet.paper.runner",
        "gpcanet.paper.torch_draws",
    ),
    ("pymetis",): ("gpcanet.nn",),
    ("gpcanet.nn",): ("gpcanet.nn", "gpcanet.cli", "gpcanet.paper.networks"),
    ("sknetwork", "GraphPCA"): ("gpcanet.bench",),
}  # fmt: skip


def broken_rules(module, imported):
    """Which imports of a module go against the layers."""
    broken = set()
    if is_within(module, "gpcanet.linalg"):
        ours = {name for name in imported if is_within(name, "gpcanet")}
        below = ("gpcanet.linalg", "gpcanet.errors")
        broken |= {name for name in ours if not is_within(name, *below)}
    for part, forbidden in FORBIDDEN.items():
        if is_within(module, *part):
            broken |= {name for name in imported if is_within(name, *forbidden)}
    for reserved, users in RESERVED.items():
        if not is_within(module, *users):
            broken |= {name for name in imported if is_within(name, *reserved)}
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
        ("gpcanet.nn.model", "from ..files import load_files", {"gpcanet.files.load_files"}),
        ("gpcanet.gpca", "from .nn import GCN", {"gpcanet.nn.GCN"}),
        ("gpcanet.datasets.files", "from ..gpca import GPCA", {"gpcanet.gpca.GPCA"}),
        ("gpcanet.datasets.files", "from gpcanet import GPCA", {"gpcanet.GPCA"}),
        ("gpcanet.datasets.files", "from ..graph import Graph", set()),
        ("gpcanet.datasets.ogb", "from ..files import load_files", {"gpcanet.files.load_files"}),
        ("gpcanet.files.join", "from ..datasets.dataset import Dataset", set()),
        ("gpcanet.files.join", "from ..graph import Graph", set()),
        ("gpcanet.files.join", "from .. import GPCA", {"gpcanet.GPCA"}),
        ("gpcanet.files.output", "def f():\n    from ..gpca import GPCA", {"gpcanet.gpca.GPCA"}),
        ("gpcanet.files.ids", "from ..persistence import x", {"gpcanet.persistence.x"}),
        ("gpcanet.gpca", "from .cli import main", {"gpcanet.cli.main"}),
        ("gpcanet.gpca", "from .datasets import load", {"gpcanet.datasets.load"}),
        ("gpcanet.files.join", "from .. import cli", {"gpcanet.cli"}),
        ("gpcanet.__main__", "from .cli import main", set()),
        ("gpcanet.cli.app", "from .console import Console\nfrom ..gpca import GPCA", set()),
        ("gpcanet.gpca", "from .bench import fits", {"gpcanet.bench.fits"}),
        ("gpcanet.cli.bench", "from ..bench.results import PARTS", set()),
        ("gpcanet.bench.peers", "import torch, sknetwork.embedding", set()),
        ("gpcanet.bench.peers", "import rich", {"rich"}),
        ("gpcanet.paper.heads", "from ..nn import train", {"gpcanet.nn.train"}),
        ("gpcanet.nn.training", "from ..paper import cells", {"gpcanet.paper.cells"}),
        ("gpcanet.gpca", "import rich.table", {"rich.table"}),
        ("gpcanet.gpca", "import pyarrow as pa", {"pyarrow"}),
    ],
)
def test_the_walk_sees_what_breaks_the_layers(module, source, broken):
    assert broken_rules(module, imports_of(source, module)) == broken
