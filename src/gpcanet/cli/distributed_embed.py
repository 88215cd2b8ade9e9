"""``gpcanet embed`` by the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import InputError, UnknownNodeError
from ..graph.assembly import count_of
from ..utils.available_memory import available_bytes
from .cluster_options import ClusterOptions
from .console import Console
from .models import show_embedding
from .option_groups import option_names
from .options import Input
from .output_options import ModelFiles

#: Suffixes of files that workers read in parallel.
PARQUET = (".parquet", ".pq")


def run(
    console: Console,
    data: Input,
    given: dict[str, Any],
    files: ModelFiles,
    cluster: ClusterOptions,
) -> None:
    """Plan the run or carry it out; ``given`` are the parameters of GPCA."""
    if find_spec("distributed") is None:
        raise InputError("distributed runs need dask; pip install 'gpcanet[distributed]'")
    from ..distributed import GPCA
    from ..estimators.serialization import save_model

    output = _check_files(files)
    model = GPCA(**given, memory_limit=files.memory_limit)
    model.check_parameters()
    assert cluster.scratch is not None
    _make_scratch(cluster.scratch)
    with _client(cluster, files) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        n_workers, n_machines = len(workers), max(1, len({worker["host"] for worker in workers}))
        console.note(f"{client.scheduler.address}, {count_of(n_workers, 'worker')}")
        _note_dashboard(console, cluster, client)
        store = _store(console, data, cluster, client)
        plan = model.plan(store)
        free_bytes = None if cluster.workers is None else _free_bytes(plan, n_workers)
        summary = plan.summary(n_workers, n_machines, free_bytes)
        if cluster.plan:
            console.result(_plan_values(plan, n_machines, free_bytes), summary)
            return
        for line in summary.splitlines():
            console.note(line)
        arguments = {"client": client, "scratch": cluster.scratch / "run", "resume": cluster.resume}
        with console.phase("embedding"):
            if output is None:
                model.fit(store, **arguments)
            else:
                model.fit_transform(store, output=output, id_name=data.id_name, **arguments)
    if files.save_model is not None:
        with console.phase("writing"):
            save_model(model.to_local(), files.save_model, overwrite=files.force)
    sizes = {"nodes": store.n_nodes, "edges": store.n_entries // 2, "features": store.n_features}
    show_embedding(console, files, model, sizes, store.manifest["notes"])


def _check_files(files: ModelFiles) -> Path | None:
    """The folder of results; raise before any work if something could not be written."""
    from ..distributed.writing import check_new_folder

    if files.model is not None or files.keep_training_nodes:
        raise InputError(
            "--model and --keep-training-nodes do not apply to distributed runs; use "
            "gpcanet.distributed.GPCA.transform, or leave out --workers and --scheduler"
        )
    files.check_save_model()
    if files.output is None:
        return None
    if files.output.suffix in (".csv", ".npz"):
        raise InputError(
            f"{files.output}: a distributed run writes a folder of Parquet files; give its name"
        )
    return check_new_folder(files.output)


def _make_scratch(scratch: Path) -> None:
    if not scratch.parent.is_dir():
        raise FileNotFoundError(f"folder {scratch.parent} does not exist; create it first")
    scratch.mkdir(exist_ok=True)


@contextmanager
def _client(cluster: ClusterOptions, files: ModelFiles) -> Iterator[Any]:
    from ..distributed import connect, local_cluster

    if cluster.scheduler is not None:
        with connect(cluster.scheduler) as client:
            yield client
    else:
        assert cluster.workers is not None
        with local_cluster(cluster.workers, memory_limit=files.memory_limit) as client:
            yield client


def _note_dashboard(console: Console, cluster: ClusterOptions, client: Any) -> None:
    """Show the address of the dashboard, and whether bokeh has to be installed for its pages."""
    if "dashboard" not in client.scheduler_info(n_workers=0)["services"]:
        return
    is_missing = cluster.scheduler is None and find_spec("bokeh") is None
    note = " (shown after `pip install bokeh`)" if is_missing else ""
    console.note(f"dashboard: {client.dashboard_link}{note}")


def _store(console: Console, data: Input, cluster: ClusterOptions, client: Any) -> Any:
    """The store of the run: the given one, or one built from the dataset or the files."""
    from ..distributed import Store, build_store, write_dataset

    given = [path for path in data.files.values() if path is not None]
    if cluster.store is not None:
        if data.dataset is not None or given:
            raise InputError(f"give --store {cluster.store}, a dataset or files, not several")
        return Store.open(cluster.store)
    assert cluster.scratch is not None
    folder = cluster.scratch / "store"
    if folder.exists():
        if not cluster.resume:
            raise InputError(
                f"{folder} exists; use it by --store, continue its run by --resume, or choose "
                f"another scratch folder"
            )
        return Store.open(folder)
    in_parallel = bool(given) and data.neighbors is None and not data.impute
    if in_parallel and all(path.is_dir() or path.suffix in PARQUET for path in given):
        if data.features is None or data.edges is None:
            raise InputError("give the name of a dataset, or --features and --edges")
        with console.phase("storing"), _naming_options():
            return build_store(
                folder, data.features, data.edges, data.labels, client=client,
                id_column=data.id_column, source=data.source, target=data.target,
                weight=data.weight, label_column=data.label_column,
                split_column=data.split_column, ignore=data.ignore or (),
                drop_unknown=data.drop_unknown,
            )  # fmt: skip
    dataset = data.load(console)
    with console.phase("storing"):
        return write_dataset(dataset, folder)


@contextmanager
def _naming_options() -> Iterator[None]:
    try:
        yield
    except UnknownNodeError as error:
        option = option_names(Input)["drop_unknown"]
        raise InputError(f"{error.problem}; add it there or use {option}") from error


def _free_bytes(plan: Any, n_workers: int) -> int | None:
    """Memory of this machine beside the workers that solve; None if unknown."""
    available, n_solving = available_bytes(), min(n_workers, len(plan.blocks))
    return None if available is None else max(0, available - n_solving * plan.worker_bytes)


def _plan_values(plan: Any, n_machines: int, free_bytes: int | None) -> dict[str, Any]:
    return {
        "solves": len(plan.blocks),
        "chunks": len(plan.chunks),
        "steps": plan.steps,
        "worker_bytes": plan.worker_bytes,
        "graph_bytes": plan.graph_bytes,
        "read_bytes": plan.read_bytes,
        "written_bytes": plan.written_bytes,
        "useful_workers": plan.useful_workers,
        "seconds": plan.seconds(n_machines, free_bytes),
    }
