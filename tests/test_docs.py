"""The documents name only what exists, and their examples run."""

import importlib
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from own_files import make_source, write_edges, write_features, write_labels
from sklearn.metrics import adjusted_rand_score, r2_score
from test_layers import LAYERS
from typer.testing import CliRunner

import gpcanet
from benchmarks.parts import PARTS
from gpcanet import Graph
from gpcanet.cli.app import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RECORDS = sorted((DOCS / "decisions").glob("0*.md"))

#: Written by hand. docs/performance.md and docs/evidence.md are generated.
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    DOCS / "decisions" / "README.md",
    *RECORDS,
]


def section(document, heading):
    """Text of a document below a heading, up to the next heading of the same level."""
    level = re.match("#+ ", heading)[0]
    return re.split(f"(?m)^{level}", document.read_text().split(f"{heading}\n", 1)[1])[0]


def resolve(name):
    """The module, or the attribute of a module, with this dotted name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        parent, _, attribute = name.rpartition(".")
        if not parent:
            raise
        return getattr(resolve(parent), attribute)


def named(pattern, *documents):
    """All that a pattern finds in documents, each once."""
    found = [re.findall(pattern, document.read_text()) for document in documents]
    return sorted({name for names in found for name in names})


# -- names --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", named(r"`(gpcanet(?:\.\w+)+)`", *DOCUMENTS))
def test_every_named_object_exists(name):
    assert resolve(name) is not None


@pytest.mark.parametrize(("file", "test"), named(r"`(tests/[\w/.]+)::(\w+)`", *DOCUMENTS))
def test_every_named_test_exists(file, test):
    assert f"def {test}(" in (ROOT / file).read_text()


@pytest.mark.parametrize(
    "path", named(r"((?:tests|benchmarks|reproduction|campaign|docs)/[\w/-]+\.\w+)", *DOCUMENTS)
)
def test_every_named_file_exists(path):
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_make_targets_exist(document):
    text = document.read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (document.parent / target).exists(), target
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?m)(?:^|`)make (\w+)", text):
        assert f"\n{target}:" in makefile, target


def test_theory_names_tests_and_objects():
    theory = DOCS / "theory.md"
    assert len(named(r"`tests/[\w/.]+::\w+`", theory)) >= 10
    assert len(named(r"`gpcanet(?:\.\w+)+`", theory)) >= 4


def test_citation_has_the_version_of_the_package():
    assert f"\nversion: {gpcanet.__version__}\n" in (ROOT / "CITATION.cff").read_text()


# -- architecture -------------------------------------------------------------------------

ARCHITECTURE = DOCS / "architecture.md"


def files_in_tree():
    """Paths of all Python files in the tree of docs/architecture.md."""
    folders, files = [], set()
    for line in section(ARCHITECTURE, "## The tree").split("```")[1].strip().splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        entry = re.split(r"\s{2,}", line.strip())[0]
        if entry.endswith("/"):
            folders = [*folders[:depth], entry]
        else:
            files |= {"".join([*folders[:depth], name]) for name in entry.split(", ")}
    return files


def test_architecture_names_every_module_and_no_other():
    package = ROOT / "src" / "gpcanet"
    modules = {
        str(file.relative_to(ROOT))
        for file in package.rglob("*.py")
        if file.name != "__init__.py" or file.parent == package
    }
    assert files_in_tree() == modules


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`(\w+(?:\.\w+)+)`", section(ARCHITECTURE, "## Data walks"))))
)
def test_every_name_in_the_data_walks_exists(name):
    is_public = name[0].isupper()  # such as GPCA.fit_transform
    prefix = "" if name.startswith("reproduction.") else "gpcanet."
    assert resolve("gpcanet.estimators." + name if is_public else prefix + name) is not None


def test_architecture_shows_the_layers_that_are_checked():
    shown = section(ARCHITECTURE, "## Layers").split("```")[1].strip().splitlines()
    checked = [
        [name.removeprefix("gpcanet.") for name in layer if "__" not in name] for layer in LAYERS
    ]
    assert [line.split() for line in shown] == checked


# -- decision records ---------------------------------------------------------------------

HEADINGS = ["Context", "Decision", "Consequences"]


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_record_has_its_headings_and_fits_on_half_a_page(record):
    text = record.read_text()
    assert text.startswith(f"# {int(record.name[:4])}. ")
    assert re.findall("(?m)^## (.*)", text) in (HEADINGS, [*HEADINGS, "Measured by"])
    assert len(text.splitlines()) <= 30


def test_index_lists_every_record_once_with_its_title():
    index = (DOCS / "decisions" / "README.md").read_text()
    titles = {record.name: record.read_text().split("\n")[0] for record in RECORDS}
    expected = [(name[:4], name, re.sub(r"# \d+\. ", "", title)) for name, title in titles.items()]
    assert sorted(re.findall(r"- \[(\d+)\]\((.*)\): (.*)", index)) == expected
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


# -- guides -------------------------------------------------------------------------------


def test_guide_to_alpha_runs():
    """Digits replace Cora, which would have to be fetched."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "guide-path.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    names = {}
    for block in blocks:
        exec(block.replace('"cora"', '"digits"'), names)
    assert names["Z"].shape == (1797, 32)
    assert max(names["scores"].values()) > 0.8
    assert names["model"].alpha == names["best"]


def test_guide_to_regression_runs(monkeypatch, tmp_path):
    """Digits replace Cora, which would have to be fetched."""
    text = (DOCS / "guide-regress.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        exec(block.replace('"cora"', '"digits"'), names)
    model, unknown = names["model"], names["unknown"]
    reached = r2_score(names["y"][unknown], model.fitted_values_[unknown])
    assert reached > 0.6
    assert abs(model.left_out_r2_ - reached) < 0.1
    assert names["Z"].shape == (1797, 16)
    monkeypatch.chdir(tmp_path)
    rows = [f"h{i},{i % 9},{'' if i % 3 == 0 else 2 * (i % 9)}" for i in range(30)]
    Path("houses.csv").write_text("\n".join(["id,size,price", *rows]))
    edges = [f"h{i},h{i + 1}" for i in range(29)]
    Path("streets.csv").write_text("\n".join(["source,target", *edges]))
    commands = re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].replace("\\\n", " ").splitlines()
    assert len(commands) == 2
    for command in commands:
        result = CliRunner().invoke(app, command.split()[1:], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert Path("predicted.csv").read_text().splitlines()[0] == '"id","predicted"'


def test_guide_to_new_nodes_runs(monkeypatch, tmp_path):
    """The commands run on the tables of the example."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "guide-new-nodes.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        exec(block, names)
    gpca, new_papers, new_cites = names["gpca"], names["new_papers"], names["new_cites"]
    whole, rows = names["whole"], names["rows"]
    expected = gpca.transform(rows, graph=whole)[-2:]
    np.testing.assert_allclose(gpca.transform(new_papers, graph=new_cites), expected, atol=1e-6)
    last = {"graph": Graph(whole.adjacency), "nodes": [6, 7]}
    by_position = names["plain"].transform(new_papers.to_numpy(), **last)
    np.testing.assert_allclose(by_position, expected, atol=1e-6)
    topics = names["model"].predict(new_papers, graph=new_cites)
    assert topics.tolist() == names["model"].predict(rows, graph=whole)[-2:].tolist()

    names["papers"].to_csv("papers.csv", index_label="id")
    labels = {"id": names["papers"].index, "label": names["topics"]}
    names["pd"].DataFrame(labels).to_csv("topics.csv", index=False)
    new_papers.to_csv("new-papers.csv", index_label="id")
    names["cites"].to_csv("edges.csv", index=False)
    links = {"source": ["g", "g", "h"], "target": ["a", "h", "d"]}
    names["pd"].DataFrame(links).to_csv("new-edges.csv", index=False)
    for command in re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].splitlines():
        result = CliRunner().invoke(app, command.split()[1:], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert Path("new-topics.csv").read_text().count("\n") == 3
    assert Path("new-rows.csv").read_text().count("\n") == 3


def test_guide_to_the_explorer_runs(monkeypatch, tmp_path):
    """Digits replace Cora, and components replace t-SNE, which takes a minute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    monkeypatch.setattr("gpcanet.explorer.layout.AUTO_TSNE_NODES", 100)
    text = (DOCS / "guide-explore.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(block.replace('"cora"', '"digits"'), names)
    assert Path("cora.html").stat().st_size > 100_000
    assert [score["alpha"] for score in names["page"].facts["scores"]] == [0, 2, 10, 50]
    source = make_source(np.array([f"paper {i}" for i in range(30)], object))
    write_edges(source, Path("edges.csv"))
    write_features(source, Path("papers.parquet"))
    write_labels(source, Path("topics.csv"))
    commands = re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].splitlines()
    assert len(commands) == 3
    for command in commands:
        words = command.replace("cora", "digits").split()[1:]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    for name in ("explore.html", "page.html", "components.html"):
        assert Path(name).stat().st_size > 10_000


def test_guide_to_initialisation_runs(monkeypatch, tmp_path):
    """Digits replace Cora, and a few epochs replace many."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "guide-init.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 5
    names = {}
    for block in blocks:
        exec(block.replace('"cora"', '"digits"').replace("epochs=100", "epochs=3"), names)
    assert names["report"].n_set == 15
    assert len(names["results"]) == 3
    assert names["result"].epochs == 3
    assert names["classes"].shape == (1797,)
    digits = names["load"]("digits")
    correct = names["classes"] == digits.class_names[digits.y]
    assert correct[digits.test].mean() == names["network"].notes["test"]
    commands = re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].splitlines()
    assert len(commands) == 5
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    for command in commands:
        words = command.replace("cora", "digits").replace("epochs 200", "epochs 2").split()[1:]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output


@pytest.mark.filterwarnings("ignore")
def test_guide_to_anndata_runs(monkeypatch, tmp_path):
    for package in ("anndata", "scanpy", "igraph"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = (DOCS / "guide-anndata.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        # umap's graph takes seconds to compile.
        exec(block.replace('use_rep="X_gpca")', 'use_rep="X_gpca", method="gauss")'), names)
    adata = names["adata"]
    assert adata.obsm["X_gpca"].shape == (900, 20)
    assert adjusted_rand_score(adata.obs["domain"], adata.obs["leiden"]) > 0.6
    assert names["both"].uns["X_gpca"]["dropped_edges"] == 0
    adata.obsm["X_pca"] = adata.obsm["X_gpca"]
    adata.write_h5ad("tissue.h5ad")
    commands = re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].splitlines()
    assert len(commands) == 2
    for command in commands:
        result = CliRunner().invoke(app, command.split()[1:], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    found = names["anndata"].read_h5ad("embedded.h5ad").obsm["X_gpca"]
    np.testing.assert_allclose(found, adata.obsm["X_gpca"], atol=1e-3)


def test_guide_to_pyg_runs():
    """Digits replace Cora, which would have to be fetched."""
    text = (DOCS / "guide-pyg.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        exec(block.replace('"cora"', '"digits"').replace("num_test=1000", "num_test=100"), names)
    assert names["data"].gpca.shape == (1797, 64)
    assert names["wide"].x.shape == (1797, 96)
    assert names["narrow"].x.shape == (1797, 32)
    assert names["supervised"].gpca.shape == (1797, 32)


def test_guide_to_clusters_runs(monkeypatch, tmp_path):
    """Digits replace Cora, and one worker replaces two."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "guide-cluster.md").read_text()
    [block] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    one_worker = block.replace("local_cluster(2", "local_cluster(1")
    exec(one_worker.replace('"cora"', '"digits"'), names)
    assert names["parts"].shape == (1797, 32)
    digits = names["load"]("digits")
    local = gpcanet.GPCA(32).fit_transform(digits.X, graph=digits.graph)
    np.testing.assert_allclose(names["parts"].read(), local, atol=1e-3 * np.abs(local).max())
    rows = [list(range(i, i + 40)) for i in range(60)]
    columns = {f"x{i}": [float(row[i] % 7) for row in rows] for i in range(40)}
    edges = {"source": list(range(59)), "target": list(range(1, 60))}
    tables = {"papers": {"id": list(range(60)), **columns}, "cites": edges}
    for name, table in tables.items():
        Path(name).mkdir()
        pq.write_table(pa.table(table), f"{name}/part0.parquet")
    for command in re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].splitlines():
        words = command.replace("-o embedding", "-o rows").replace("--workers 2", "--workers 1")
        result = CliRunner().invoke(app, words.split()[1:], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert len(pq.read_table("rows")) == 60


def test_every_named_part_of_the_benchmarks_exists():
    pages = [path.read_text() for path in DOCUMENTS]
    named = {
        part
        for page in pages
        for parts in re.findall(r"(?<!campaign )--parts ([\w,]+)", page)
        for part in parts.split(",")
    }
    assert len(named) > 5
    assert named <= set(PARTS)
