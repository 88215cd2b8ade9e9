"""gpcanet embed with --store, --workers and --scheduler."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from gpcanet.cli import distributed_embed, stored_input
from gpcanet.datasets import block_model
from gpcanet.distributed import cluster, local_cluster, write_dataset
from gpcanet.distributed import run as runs


@pytest.fixture(scope="module")
def scheduler():
    with local_cluster(1) as client:
        yield client.scheduler.address


@pytest.fixture
def _tables():
    """Features with labels and edges, as one file each and as directories."""
    data = block_model(300, 1_500, n_features=12)
    X = {f"x{i}": data.X[:, i].astype(float) for i in range(12)}
    features = pa.table({"id": [f"n{i}" for i in range(300)], **X, "label": data.y % 3})
    graph = data.graph
    rows = np.repeat(np.arange(300), np.diff(graph.indptr))
    edges = pa.table(
        {"source": [f"n{i}" for i in rows], "target": [f"n{i}" for i in graph.indices]}
    )
    for name, table in (("features", features), ("edges", edges)):
        Path(name).mkdir()
        pq.write_table(table, f"{name}.parquet")
        half = len(table) // 2
        pq.write_table(table[:half], f"{name}/part0.parquet")
        pq.write_table(table[half:], f"{name}/part1.parquet")


FOLDERS = ["-f", "features", "-e", "edges"]


def names_here():
    return sorted(path.name for path in Path().iterdir())


def numbers(table):
    return np.column_stack([column.to_numpy() for column in table.columns[1:]])


def read(folder):
    tables = [pq.read_table(path) for path in sorted(Path(folder).glob("*.parquet"))]
    table = pa.concat_tables(tables)
    return table["id"].to_pylist(), numbers(table)


@pytest.mark.usefixtures("_tables")
def test_directories_give_the_embedding_of_the_local_command(gpcanet, scheduler):
    common = ["-k", "4", "--beta", "0.3", "--iterations", "30", "--quiet"]
    local = ["-f", "features.parquet", "-e", "edges.parquet", "-o", "local.parquet"]
    assert gpcanet("embed", *local, *common).code == 0
    far = ["-f", "features", "-e", "edges", "-o", "far", "--scheduler", scheduler]
    ended = gpcanet(
        "embed", *far, *common, "--scratch", "scratch", "--save-model", "m.safetensors", "--json"
    )
    assert ended.code == 0, ended.err
    values = json.loads(ended.out)
    assert (values["nodes"], values["components"], values["iterations"]) == (300, 4, 30)
    table = pq.read_table("local.parquet")
    ids, Z = read("far")
    assert ids == table["id"].to_pylist()
    np.testing.assert_allclose(Z, numbers(table), atol=1e-8)
    # The store of the run serves the local command, too.
    assert gpcanet("embed", "--store", "scratch/store", "-o", "s.parquet", *common).code == 0
    assert pq.read_table("s.parquet").equals(table)
    saved = ["--model", "m.safetensors", "-f", "features.parquet", "-e", "edges.parquet"]
    assert gpcanet("embed", *saved, "-o", "m.parquet", "-q").code == 0
    np.testing.assert_allclose(numbers(pq.read_table("m.parquet")), Z, atol=1e-6)


def test_a_plan(gpcanet, scheduler):
    write_dataset(block_model(300, 1_500, n_features=40), "store")
    run = ["embed", "--store", "store", "--scheduler", scheduler, "--plan"]
    shown = gpcanet(*run, "--precision", "half").out
    assert "2 solves of up to 32 columns" in shown
    assert "beyond 2 machines" in shown
    values = json.loads(gpcanet(*run, "--json").out)
    assert values["solves"] == 2
    assert values["worker_bytes"] > 300 * 2**20
    ended = gpcanet(*run, "--memory-limit", "1MiB", "--quiet")
    assert ended.complaint == "--memory-limit 1MiB is too small for a worker; use at least 301 MiB"
    assert names_here() == ["store"]


@pytest.fixture
def _without_workers(monkeypatch):
    def start(*_):
        raise AssertionError("workers were started")

    monkeypatch.setattr(distributed_embed, "_client", start)


@pytest.mark.usefixtures("_tables", "_without_workers")
@pytest.mark.parametrize("scratch", [[], ["--scratch", "s"]])
def test_a_plan_starts_no_workers_and_leaves_nothing(gpcanet, monkeypatch, tmp_path, scratch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    write_dataset(block_model(300, 1_500, n_features=40), "store")
    before = names_here()
    inputs = {
        "--store store": "2 solves of up to 32 columns",
        "digits": "2 solves of up to 32 columns",
        "-f features.parquet -e edges.parquet": "1 solve of up to 12 columns",
    }
    for given, shown in inputs.items():
        ended = gpcanet("embed", *given.split(), "--workers", "2", "--plan", "-q", *scratch)
        assert (ended.code, ended.err) == (0, "")
        assert shown in ended.out
        assert "with 2 workers" in ended.out
    assert names_here() == before
    assert not list(temporary.iterdir())


@pytest.mark.usefixtures("_tables")
def test_a_run_uses_the_store_that_its_plan_has_built(gpcanet, monkeypatch, scheduler):
    command = ["embed", *FOLDERS, "-k", "2", "--scheduler", scheduler, "-q"]
    complaint = gpcanet(*command, "--plan").complaint
    assert re.match("the plan for folders of Parquet files .* give --scratch", complaint)
    command += ["--scratch", "s"]
    shown = json.loads(gpcanet(*command, "--plan", "--json").out)
    files = ["-f", "features.parquet", "-e", "edges.parquet", "--scheduler", scheduler]
    assert shown == json.loads(gpcanet("embed", *files, "-k", "2", "--plan", "--json", "-q").out)
    monkeypatch.setattr(stored_input, "_build", None)
    assert gpcanet(*command, "--plan", "-o", "out").code == 0
    assert gpcanet(*command, "-o", "out").code == 0
    assert len(read("out")[0]) == 300


def test_the_plan_for_workers_on_this_machine_compares_the_graph_with_its_memory(
    gpcanet, monkeypatch
):
    write_dataset(block_model(300, 1_500, n_features=4), "store")
    plan = ["embed", "--store", "store", "--plan", "--workers", "1"]
    # The graph takes less than 1 MiB, and the worker more than 300 MiB.
    for available, is_read in ((2**40, False), (300 * 2**20, True)):
        monkeypatch.setattr(distributed_embed, "available_bytes", lambda free=available: free)
        assert ("read from the disk in every step" in gpcanet(*plan).out) == is_read


def test_the_address_of_the_dashboard_is_shown(gpcanet, monkeypatch, scheduler):
    write_dataset(block_model(300, 1_500, n_features=4), "store")
    run = ["embed", "--store", "store", "-k", "2", "--scratch", "s"]
    found = {"distributed": True, "bokeh": None}
    monkeypatch.setattr(distributed_embed, "find_spec", found.get)
    address = r"dashboard: http://127\.0\.0\.1:\d+/status"
    shown = gpcanet(*run, "--scheduler", scheduler, "-o", "out").err
    assert re.search(f"{address}\n", shown), shown
    shown = gpcanet(*run, "--workers", "1", "-o", "other").err
    assert re.search(rf"{address} \(shown after `pip install bokeh`\)\n", shown), shown


def test_a_run_shows_its_plan_in_lines(gpcanet, scheduler):
    write_dataset(block_model(300, 1_500, n_features=6), "store")
    run = ["embed", "--store", "store", "-k", "2", "--scratch", "s", "-o", "out"]
    shown = gpcanet(*run, "--scheduler", scheduler).err
    assert "\\n" not in shown
    assert re.search(r"^1 solve of up to 6 columns and \d+ steps, 1 chunk of rows$", shown, re.M)
    assert re.search(r"^memory of a worker: ", shown, re.M)
    assert f"{scheduler}, 1 worker\n" in shown


def test_a_run_is_resumed(gpcanet, scheduler):
    write_dataset(block_model(300, 1_500, n_features=40), "store")
    run = ["embed", "--store", "store", "--scheduler", scheduler, "--scratch", "s", "-q"]
    Path("s/run").mkdir(parents=True)
    Path("s/run/run.json").write_text("{}")
    assert "contains an unfinished run" in gpcanet(*run, "-o", "out").complaint
    assert "cannot be resumed" in gpcanet(*run, "-o", "out", "--resume").complaint
    Path("s/run/run.json").unlink()
    assert gpcanet(*run, "-o", "out", "--resume").code == 0


def add_file(folder):
    table = pq.read_table(f"{folder}/part1.parquet")
    pq.write_table(table, f"{folder}/part2.parquet")


def change_file(path):
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, table.column_names[1], table.column(2)), path)


CHANGES = {
    "a file": (lambda: change_file("features/part1.parquet"), [], "features/part1.parquet has"),
    "a new file": (lambda: add_file("edges"), [], "edges/part2.parquet was added after s/store"),
    "a removed file": (
        lambda: Path("edges/part1.parquet").unlink(), [], "edges/part1.parquet was removed after"
    ),
    "an option": (None, ["--ignore", "x0"], "s/store was built with a different --ignore"),
    "another folder": (
        None, ["-e", "edges.parquet"], "s/store was built with a different --edges"
    ),
    "no record": (Path("s/store.json").unlink, [], "s/store has no valid record of its input"),
    "a bad record": (
        lambda: Path("s/store.json").write_text("[]"), [], "s/store has no valid record"
    ),
}  # fmt: skip


@pytest.mark.usefixtures("_tables")
@pytest.mark.parametrize("change", CHANGES)
def test_a_store_with_another_input_is_not_used(gpcanet, scheduler, change):
    command = ["embed", *FOLDERS, "-k", "2", "--scheduler", scheduler, "--scratch", "s", "-q"]
    assert gpcanet(*command, "-o", "out").code == 0
    act, options, complaint = CHANGES[change]
    if act is not None:
        act()
    for resume in ([], ["--resume"]):
        found = gpcanet(*command, *options, "-o", "other", *resume).complaint
        assert complaint in found
        assert "; choose another scratch folder, or" in found
    assert not Path("other").exists()


def test_a_store_of_data_in_memory_is_compared_with_its_input(gpcanet, scheduler):
    table = "id,x0,x1\n" + "".join(f"{i},{i % 7},{i % 5}\n" for i in range(40))
    edges = "source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(39))
    Path("f.csv").write_text(table)
    Path("e.csv").write_text(edges)
    common = ["--scheduler", scheduler, "--scratch", "s", "-q", "-k", "1"]
    files = ["embed", "-f", "f.csv", "-e", "e.csv", *common]
    assert gpcanet(*files, "-o", "out").code == 0
    assert gpcanet(*files, "-o", "again", "--resume").code == 0
    np.testing.assert_array_equal(read("out")[1], read("again")[1])
    complaint = gpcanet("embed", "digits", *common, "-o", "other", "--resume").complaint
    assert "s/store was built from files;" in complaint
    Path("f.csv").write_text(table.replace(",6,", ",9,"))
    assert "f.csv has changed since" in gpcanet(*files, "-o", "other", "--resume").complaint


@pytest.mark.usefixtures("_tables")
def test_categories_and_patterns_of_parquet_files_are_read_as_by_the_local_command(
    gpcanet, scheduler
):
    for path in Path("features").iterdir():
        table = pq.read_table(path)
        pq.write_table(table.rename_columns([*table.column_names[:-1], "kind"]), path)
    command = ["embed", "-f", "features/*.parquet", "-e", "edges", "--one-hot", "kind", "-k", "2"]
    assert gpcanet(*command, "-o", "local.parquet", "-q").code == 0
    run = ["--scheduler", scheduler, "--scratch", "s", "-q", "--json"]
    ended = gpcanet(*command, "-o", "out", *run)
    assert json.loads(ended.out)["features"] == 15
    np.testing.assert_allclose(read("out")[1], numbers(pq.read_table("local.parquet")), atol=1e-8)


@pytest.mark.usefixtures("_tables")
def test_standard_input_is_compared_by_its_content(gpcanet, monkeypatch, scheduler):
    command = ["embed", "-f", "-", "-e", "edges.parquet", "-k", "2", "-q"]
    command += ["--scheduler", scheduler, "--scratch", "s", "--resume", "-o"]

    def pipe(output, content):
        stream = io.TextIOWrapper(io.BytesIO(content))
        monkeypatch.setattr("sys.stdin", stream)
        return gpcanet(*command, output)

    content = Path("features.parquet").read_bytes()
    assert pipe("out", content).code == 0
    assert pipe("again", content).code == 0
    change_file("features.parquet")
    complaint = pipe("other", Path("features.parquet").read_bytes()).complaint
    assert "standard input has changed since s/store was built" in complaint


def test_one_command_builds_the_store_of_a_scratch_folder(gpcanet, scheduler):
    Path("s").mkdir()
    with FileLock("s/store.lock"):
        command = ["embed", "digits", "--scheduler", scheduler, "--scratch", "s", "-o", "out", "-q"]
        assert "another command builds the store in s" in gpcanet(*command).complaint


@pytest.mark.usefixtures("_tables")
def test_a_begun_run_needs_resume(gpcanet, monkeypatch, scheduler):
    command = ["embed", *FOLDERS, "-k", "2", "--scheduler", scheduler, "--scratch", "s", "-q"]
    compute = runs.compute

    def stop(client, what, *arguments, **options):
        if what == "multiplying (chunks)":
            raise KeyboardInterrupt
        return compute(client, what, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(runs, "compute", stop)
        assert gpcanet(*command, "-o", "out").code == 130
    complaint = gpcanet(*command, "-o", "out").complaint
    assert complaint.startswith("s contains an unfinished run; continue it by --resume")
    assert gpcanet(*command, "-o", "out", "--resume").code == 0


@pytest.mark.usefixtures("_tables")
def test_a_stopped_build_is_resumed(gpcanet, monkeypatch, scheduler):
    command = ["embed", "-f", "features", "-e", "edges", "-k", "2", "-o", "out", "-q"]
    command += ["--scheduler", scheduler, "--scratch", "s"]
    compute, started = runs.compute, {}

    def stop(client, what, function, arguments, **options):
        if what == "joining edges" and not options["done"]:
            raise KeyboardInterrupt
        return compute(client, what, function, arguments, **options)

    def note(client, what, function, arguments, **options):
        started[what] = started.get(what, 0) + len(arguments)
        return compute(client, what, function, arguments, **options)

    monkeypatch.setattr(runs, "compute", stop)
    ended = gpcanet(*command)
    message = "gpcanet: interrupted; the same command with --resume continues it\n"
    assert (ended.code, ended.err) == (130, message)
    assert not Path("s/store").exists()
    monkeypatch.setattr(runs, "compute", note)
    assert gpcanet(*command, "--resume").code == 0
    assert (started["reading features"], started["reading edges"]) == (0, 0)
    assert (started["joining edges"], started["joining features"]) == (2, 3)
    assert len(read("out")[0]) == 300


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["digits", "--workers", "1", "--scheduler", "x"], "give --workers .* or --scheduler, not"),
        (["digits", "--workers", "1"], "a distributed run needs --scratch"),
        (["digits", "--plan"], "--plan needs workers; give --workers or --scheduler"),
        (["digits", "--store", "s"], "give --store s, a dataset or files, not several"),
        (["digits", "--store", "s", "--workers", "1", "--scratch", "s"], "give --store s, a data"),
        (["--store", "s"], "s is not a store of GPCANet"),
        (
            ["--store", "s", "--impute"],
            "--impute applies to files only; leave it out for --store s",
        ),
        (["--store", "s", "--weight", "w"], "--weight applies to files only"),
        (["--store", "s", "--one-hot", "k"], "--one-hot applies to files only"),
        (["digits", "--workers", "1", "--scratch", "s", "--model", "m"], "--model and .* do not"),
        (["digits", "--scheduler", "tcp://127.0.0.1:9", "--scratch", "s"], "no Dask scheduler"),
        (["digits", "--workers", "1", "--scratch", "a/b"], "folder a does not exist; create it"),
    ],
)
def test_options_that_do_not_belong_together(gpcanet, monkeypatch, arguments, complaint):
    monkeypatch.setattr(cluster, "TIMEOUT", 0.2)
    found = gpcanet("embed", *arguments, "-o", "out.parquet").complaint
    assert re.search(complaint, found), found


@pytest.mark.usefixtures("_tables")
def test_bad_files_and_outputs(gpcanet, scheduler):
    run = ["embed", "--scheduler", scheduler, "--scratch", "s", "-q"]
    files = ["-f", "features", "-e", "edges"]
    for name in ("out.csv", "out.CSV", "out.csv.gz", "out.npz", "out.h5ad"):
        assert "writes a folder of Parquet" in gpcanet(*run, *files, "-o", name).complaint
    clash = gpcanet(*run, *files, "-o", "out", "--id", "gpca0").complaint
    assert clash.startswith("the id column cannot be called 'gpca0'")
    assert "nothing to write" in gpcanet(*run, *files).complaint
    existing = gpcanet(*run, *files, "-o", "features", "--force").complaint
    assert existing.endswith("features exists; choose another name")
    pq.write_table(pa.table({"source": ["n1"], "target": ["zz"]}), "edges/part2.parquet")
    complaint = gpcanet(*run, *files, "-o", "out").complaint
    assert "part2.parquet, row 0: node 'zz' is not in the features" in complaint
    assert complaint.endswith("add it there or use --drop-unknown")
    ids = [f"n{i}" for i in range(2)]
    pq.write_table(pa.table({"id": ids, "a": [1.0, None]}), "incomplete.parquet")
    complaint = gpcanet(*run, "-f", "incomplete.parquet", "-e", "edges", "-o", "out").complaint
    assert complaint.endswith("fill it in, or use --impute")
    assert not Path("s/store").exists()
