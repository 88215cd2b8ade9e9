"""``gpcanet embed`` by the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..files import check_id_name
from ..graph.assembly import count_of
from ..utils.atomic import check_new_folder
from ..utils.available_memory import available_bytes
from .cluster_options import ClusterOptions
from .console import Console
from .models import show_embedding
from .options import Input
from .output_options import ModelFiles
from .stored_input import is_read_by_workers, stored_input, write_input

if TYPE_CHECKING:
    from ..distributed import Store
    from ..distributed.plan import Plan

#: Folder of the run in a scratch folder.
RUN = "run"


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

    output = _check_files(data, files)
    model = GPCA(**given, memory_limit=files.memory_limit)
    model.check_parameters()
    if cluster.plan:
        _show_plan(console, data, model, files, cluster)
    else:
        _embed(console, data, model, files, cluster, output)


def _show_plan(
    console: Console, data: Input, model: Any, files: ModelFiles, cluster: ClusterOptions
) -> None:
    """Show the plan of the run.

    Folders of Parquet files are stored in the scratch folder, where the run uses the store. All
    other data fits in memory, and its store is temporary.
    """
    has_folder = any(path is not None and path.is_dir() for path in data.files.values())
    is_kept = cluster.store is None and is_read_by_workers(data) and has_folder
    if is_kept:
        if cluster.scratch is None:
            raise InputError(
                "the plan for folders of Parquet files needs their store; give --scratch, where "
                "the run will use it"
            )
        _make_scratch(cluster.scratch)
    with ExitStack() as stack:
        client, n_workers, n_machines = None, cluster.workers or 0, 1
        if is_kept or cluster.scheduler is not None:
            client = stack.enter_context(_client(cluster, files))
            n_workers, n_machines = _note_workers(console, cluster, client)
        if is_kept or cluster.store is not None:
            store = _store(console, data, cluster, client)
        else:
            folder = stack.enter_context(TemporaryDirectory(prefix="gpcanet-"))
            store = write_input(console, data, Path(folder) / "store")
        plan = model.plan(store)
    free_bytes = _free_bytes(plan, cluster)
    values = _plan_values(plan, n_machines, free_bytes)
    console.result(values, plan.summary(n_workers, n_machines, free_bytes))


def _embed(
    console: Console,
    data: Input,
    model: Any,
    files: ModelFiles,
    cluster: ClusterOptions,
    output: Path | None,
) -> None:
    from ..estimators.serialization import save_model

    assert cluster.scratch is not None
    _make_scratch(cluster.scratch)
    _check_no_run(cluster)
    with _client(cluster, files) as client:
        n_workers, n_machines = _note_workers(console, cluster, client)
        store = _store(console, data, cluster, client)
        plan = model.plan(store)
        for line in plan.summary(n_workers, n_machines, _free_bytes(plan, cluster)).splitlines():
            console.note(line)
        arguments = {"client": client, "scratch": cluster.scratch / RUN, "resume": cluster.resume}
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


def _check_files(data: Input, files: ModelFiles) -> Path | None:
    """The folder of results; raise before any work if something could not be written."""
    if files.model is not None or files.keep_training_nodes:
        raise InputError(
            "--model and --keep-training-nodes do not apply to distributed runs; use "
            "gpcanet.distributed.GPCA.transform, or leave out --workers and --scheduler"
        )
    files.check_save_model()
    if files.output is None:
        return None
    check_id_name(data.id_name, files.output)
    if files.output.name.lower().endswith((".csv", ".csv.gz", ".npz", ".h5ad")):
        raise InputError(
            f"{files.output}: a distributed run writes a folder of Parquet files; give its name"
        )
    return check_new_folder(files.output)


def _make_scratch(scratch: Path) -> None:
    if not scratch.parent.is_dir():
        raise FileNotFoundError(f"folder {scratch.parent} does not exist; create it first")
    scratch.mkdir(exist_ok=True)


def _check_no_run(cluster: ClusterOptions) -> None:
    """Raise if the scratch folder contains a run that the user does not want to continue."""
    from ..distributed.run import RUN_FILE

    assert cluster.scratch is not None
    if not cluster.resume and (cluster.scratch / RUN / RUN_FILE).exists():
        raise InputError(
            f"{cluster.scratch} contains an unfinished run; continue it by --resume, or choose "
            f"another scratch folder"
        )


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


def _note_workers(console: Console, cluster: ClusterOptions, client: Any) -> tuple[int, int]:
    """Show the addresses of the scheduler; the numbers of workers and of machines."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    console.note(f"{client.scheduler.address}, {count_of(len(workers), 'worker')}")
    _note_dashboard(console, cluster, client)
    return len(workers), max(1, len({worker["host"] for worker in workers}))


def _note_dashboard(console: Console, cluster: ClusterOptions, client: Any) -> None:
    """Show the address of the dashboard, and whether bokeh has to be installed for its pages."""
    if "dashboard" not in client.scheduler_info(n_workers=0)["services"]:
        return
    is_missing = cluster.scheduler is None and find_spec("bokeh") is None
    note = " (shown after `pip install bokeh`)" if is_missing else ""
    console.note(f"dashboard: {client.dashboard_link}{note}")


def _store(console: Console, data: Input, cluster: ClusterOptions, client: Any) -> Store:
    """The given store, or that of the input in the scratch folder."""
    from ..distributed import Store

    if cluster.store is not None:
        return Store.open(cluster.store)
    assert cluster.scratch is not None
    return stored_input(console, data, cluster.scratch, client)


def _free_bytes(plan: Plan, cluster: ClusterOptions) -> int | None:
    """Memory of this machine beside its workers; None if unknown or on other machines."""
    available = available_bytes()
    if cluster.workers is None or available is None:
        return None
    return max(0, available - min(cluster.workers, len(plan.blocks)) * plan.worker_bytes)


def _plan_values(plan: Plan, n_machines: int, free_bytes: int | None) -> dict[str, Any]:
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
