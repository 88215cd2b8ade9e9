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

CHECKOUT = PACKAGE.parents[1]

#: From the top down. A module may import from its own line and the lines below it.
LAYERS = [
    ("campaign",),
    ("benchmarks", "reproduction"),
    ("gpcanet.cli", "gpcanet.__main__"),
    ("gpcanet.integrations", "gpcanet.plotting", "gpcanet.explorer", "gpcanet.distributed"),
    ("gpcanet.nn",),
    ("gpcanet.estimators",),
    ("gpcanet.files",),
    ("gpcanet.datasets",),
    ("gpcanet.graph", "gpcanet.linalg"),
    ("gpcanet.utils", "gpcanet.errors"),
]

#: On one line, but separate.
SEPARATE = [
    ("benchmarks", "reproduction.__main__"),
    ("gpcanet.graph", "gpcanet.linalg"),
    ("gpcanet.estimators", "gpcanet.files"),
    ("gpcanet.estimators", "gpcanet.datasets"),
    ("gpcanet.nn", "gpcanet.files"),
    ("gpcanet.integrations", "gpcanet.plotting"),
    ("gpcanet.explorer", "gpcanet.nn"),
    ("gpcanet.distributed", "gpcanet.nn"),
]

#: Packages that only some modules may import.
RESERVED = {
    ("typer", "rich"): (
        "gpcanet.cli", "benchmarks.__main__", "reproduction.__main__", "campaign.__main__",
    ),
    ("matplotlib",): ("gpcanet.cli", "gpcanet.plotting", "benchmarks", "reproduction"),
    ("jinja2", "markupsafe"): ("reproduction.rendering", "benchmarks.page"),
    ("anndata",): ("gpcanet.files", "benchmarks", "campaign"),
    ("pyarrow",): (
        "gpcanet.files", "gpcanet.datasets", "gpcanet.distributed", "benchmarks", "campaign",
    ),
    ("dask", "distributed"): (
        "gpcanet.distributed", "benchmarks.distributed", "benchmarks.id_mapping",
        "campaign.distributed",
    ),
    ("safetensors",): ("gpcanet.utils.tensor_file",),
    ("torch", "torch_geometric"): (
        "gpcanet.nn", "gpcanet.integrations.pyg", "benchmarks", "reproduction",
    ),
    ("pymetis",): ("gpcanet.nn",),
    ("sknetwork", "GraphPCA", "bokeh"): ("benchmarks",),
    ("selenium",): ("benchmarks.browser",),
}  # fmt: skip


def is_within(name, package):
    return name == package or name.startswith(package + ".")


def layer_of(module):
    """Number of the one layer a module belongs to; the package itself is public to all."""
    found = [n for n, layer in enumerate(LAYERS) if any(is_within(module, part) for part in layer)]
    assert len(found) == 1, f"{module} must belong to exactly one layer; it is in {found}"
    return found[0]


def imports_of(tree, module, *, is_package=False):
    """Full names of all that a module imports, at its top or inside its functions."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{origin}.{alias.name}" for alias in node.names}
    return found


#: Names of the package itself, and where they are defined.
PUBLIC = {f"gpcanet.{name}": f"gpcanet.{home}" for name, home in gpcanet._HOME.items()}


def broken_rules(module, imported):
    """Which imports of a module go against the layers."""
    broken, own = set(), layer_of(module)
    for name in imported:
        home = PUBLIC.get(name, name)
        if name.split(".")[0] in ("gpcanet", "benchmarks", "reproduction", "campaign"):
            if name != "gpcanet.__version__" and layer_of(home) < own:
                broken.add(name)
            for pair in SEPARATE:
                for one, other in (pair, pair[::-1]):
                    if is_within(module, one) and is_within(home, other):
                        broken.add(name)
        for packages, users in RESERVED.items():
            if any(is_within(name, package) for package in packages):
                broken |= set() if any(is_within(module, user) for user in users) else {name}
    return broken


def foreign_underscores(tree, own):
    """Names with one leading underscore that a module reads of other objects or modules.

    A name counts as its own if it defines it: by a function, a class, an assignment, or as an
    attribute that it assigns.
    """
    defined, read = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
            else:
                read[node.attr] = node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            inside = node.level == 1 or (node.module or "").startswith(own)
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            for name in names if not inside else ():
                read[name] = node.lineno
    private = {name for name in read if name.startswith("_") and not name.startswith("__")}
    return {name: read[name] for name in private - defined - ALLOWED_UNDERSCORES}


#: Underscore names of other libraries without a public counterpart.
ALLOWED_UNDERSCORES = {
    "_Unpickler",  # the unpickler of pickle that is written in Python
    "_baseline_prediction", "_predictors",  # trees of scikit-learn's gradient boosting
    "_exit",  # of os
    "_linear_pointwise",  # matrix product of oneDNN in torch
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",  # of torch
    "_internal",  # of pip, where its default index is
    "_index_key",  # numba's cache key of a compiled function
    "_n_features_out",  # scikit-learn's ClassNamePrefixFeaturesOutMixin
    "_replace", "_asdict", "_fields", "_make",  # of named tuples, public in spite of their name
}  # fmt: skip

FOLDERS = ("benchmarks", "reproduction", "campaign")
SOURCES = [*FILES, *(file for name in FOLDERS for file in CHECKOUT.glob(f"{name}/*.py"))]
SOURCES.remove(PACKAGE / "__init__.py")


def module_name(file):
    base = PACKAGE.parent if file.is_relative_to(PACKAGE) else CHECKOUT
    parts = file.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("file", SOURCES, ids=module_name)
def test_modules_import_only_from_the_layers_below(file):
    module, tree = module_name(file), ast.parse(file.read_text())
    imported = imports_of(tree, module, is_package=file.name == "__init__.py")
    assert broken_rules(module, imported) == set()
    assert foreign_underscores(tree, module.rpartition(".")[0]) == {}


def test_underscores_mark_the_modules_that_only_the_estimators_import():
    own = {file for file in FILES if file.parent.name == "estimators"}
    imported = set()
    for file in set(SOURCES) - own:
        imported |= imports_of(ast.parse(file.read_text()), module_name(file))
    modules = {file.stem for file in own} - {"__init__"}
    used = {module for module in modules if f"gpcanet.estimators.{module}." in " ".join(imported)}
    assert {module for module in modules if module.startswith("_")} == modules - used


@pytest.mark.parametrize(
    ("module", "source", "broken"),
    [
        ("gpcanet.linalg.eigen", "from ..graph import Graph", {"gpcanet.graph.Graph"}),
        ("gpcanet.linalg.eigen", "from .. import graph", {"gpcanet.graph"}),
        ("gpcanet.linalg.eigen", "from . import parallel", set()),
        ("gpcanet.graph.graph", "def f():\n    from .. import linalg", {"gpcanet.linalg"}),
        ("gpcanet.graph.graph", "def f():\n    import torch.sparse as t", {"torch.sparse"}),
        ("gpcanet.utils.checks", "from ..graph import Graph", {"gpcanet.graph.Graph"}),
        ("gpcanet.nn.models", "import torch", set()),
        ("gpcanet.nn.models", "from ..files import load_files", {"gpcanet.files.load_files"}),
        ("gpcanet.estimators.gpca", "from ..nn import GCN", {"gpcanet.nn.GCN"}),
        ("gpcanet.estimators.gpca", "from ..datasets import load", {"gpcanet.datasets.load"}),
        ("gpcanet.estimators.gpca", "import rich.table", {"rich.table"}),
        ("gpcanet.datasets.ogb", "from gpcanet import GPCA", {"gpcanet.GPCA"}),
        ("gpcanet.datasets.ogb", "from gpcanet import Graph", set()),
        ("gpcanet.files.loading", "from ..datasets import Dataset", set()),
        ("gpcanet.files.loading", "from .. import cli", {"gpcanet.cli"}),
        ("gpcanet.cli.embed", "from ..estimators import GPCA", set()),
        ("gpcanet.cli.embed", "import reproduction.cells", {"reproduction.cells"}),
        ("reproduction.heads", "from gpcanet.nn import train", set()),
    ],
)  # fmt: skip
def test_the_walk_sees_what_breaks_the_layers(module, source, broken):
    assert broken_rules(module, imports_of(ast.parse(source), module)) == broken


def test_a_module_without_a_layer_is_noticed():
    with pytest.raises(AssertionError, match=r"gpcanet\.helpers must belong to exactly one layer"):
        layer_of("gpcanet.helpers")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("model._fit(X)", {"_fit": 1}),
        ("from ..linalg.eigen import _gap", {"_gap": 1}),
        ("from ..estimators._fit import Fit", {"_fit": 1}),
        ("def _fit(): ...\nself._fit()", {}),
        ("self._seen = 1\nother._seen", {}),
        ("from .eigen import _gap", {}),
        ("x.__class__", {}),
    ],
)
def test_reading_the_underscore_names_of_others_is_noticed(source, found):
    assert foreign_underscores(ast.parse(source), "gpcanet.estimators") == found
