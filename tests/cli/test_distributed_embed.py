"""gpcanet embed with --store, --workers and --scheduler."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpcanet.cli import distributed_embed
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
    run = ["embed", "--store", "store", "--scheduler", scheduler, "--scratch", "s", "--plan"]
    shown = gpcanet(*run, "--precision", "half").out
    assert "2 solves of up to 32 columns" in shown
    assert "beyond 2 machines" in shown
    values = json.loads(gpcanet(*run, "--json").out)
    assert values["solves"] == 2
    assert values["worker_bytes"] > 300 * 2**20
    ended = gpcanet(*run, "--memory-limit", "1MiB", "--quiet")
    assert ended.complaint == "--memory-limit 1 MiB is too small for a worker; use at least 301 MiB"
    assert not Path("s/run").exists()


def test_the_plan_for_workers_on_this_machine_compares_the_graph_with_its_memory(
    gpcanet, monkeypatch
):
    write_dataset(block_model(300, 1_500, n_features=4), "store")
    plan = ["embed", "--store", "store", "--scratch", "s", "--plan", "--workers", "1"]
    # The graph takes less than 1 MiB, and the worker more than 300 MiB.
    for available, is_read in ((2**40, False), (300 * 2**20, True)):
        monkeypatch.setattr(distributed_embed, "available_bytes", lambda free=available: free)
        assert ("read from the disk in every step" in gpcanet(*plan).out) == is_read


def test_the_address_of_the_dashboard_is_shown(gpcanet, monkeypatch, scheduler):
    write_dataset(block_model(300, 1_500, n_features=4), "store")
    plan = ["embed", "--store", "store", "--scratch", "s", "--plan"]
    found = {"distributed": True, "bokeh": None}
    monkeypatch.setattr(distributed_embed, "find_spec", found.get)
    address = r"dashboard: http://127\.0\.0\.1:\d+/status"
    assert re.search(f"{address}\n", gpcanet(*plan, "--scheduler", scheduler).err)
    shown = gpcanet(*plan, "--workers", "1").err
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
    assert gpcanet(*command).code == 130
    assert not Path("s/store").exists()
    monkeypatch.setattr(runs, "compute", note)
    assert gpcanet(*command).code == 0
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
        (["--store", "s"], "s is not a store of GPCANet"),
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
    assert "writes a folder of Parquet" in gpcanet(*run, *files, "-o", "out.csv").complaint
    assert "nothing to write" in gpcanet(*run, *files).complaint
    assert "features exists; choose" in gpcanet(*run, *files, "-o", "features").complaint
    pq.write_table(pa.table({"source": ["n1"], "target": ["zz"]}), "edges/part2.parquet")
    complaint = gpcanet(*run, *files, "-o", "out").complaint
    assert "part2.parquet, row 0: node 'zz' is not in the features" in complaint
    assert complaint.endswith("add it there or use --drop-unknown")
    assert not Path("s/store").exists()
