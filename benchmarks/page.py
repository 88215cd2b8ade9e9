"""The results of all parts as one page of Markdown, by a Jinja template."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from .tables import (
    gibibytes,
    markdown_table,
    omitted,
    percent,
    ratio,
    seconds,
    timing_table,
)

Results = dict[str, Any]


def page(parts: dict[str, Results]) -> str:
    """The page for the parts that have results."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"seconds": seconds, "gibibytes": gibibytes, "percent": percent}
    template = (files(__package__) / "performance.md.j2").read_text("utf-8")
    return environment.from_string(template).render(
        parts={name: part["results"] for name, part in parts.items()},
        machines=machine_lines(parts),
        omitted=[
            f"{name}: {reason}"
            for name, part in parts.items()
            for reason in omitted(part["results"])
        ],
        tables=TABLES,
        listed=_listed,
    )


def machine_lines(parts: dict[str, Results]) -> list[str]:
    """Machine, versions, load and repeats; one line for all parts that agree."""
    names_of: dict[str, list[str]] = {}
    for name, part in parts.items():
        names_of.setdefault(_machine(part), []).append(name)
    lines = [
        f"{', '.join(names)}: {machine}" if len(names_of) > 1 else machine
        for machine, names in names_of.items()
    ]
    known = {name: part for name, part in parts.items() if part["machine"] is not None}
    loads = ", ".join(f"{name} {part['machine']['load']}" for name, part in known.items())
    repeats = ", ".join(f"{name} {part['repeats']}" for name, part in known.items())
    return [*lines, f"load average at the start of each part: {loads}", f"repeats: {repeats}"]


def _machine(part: Results) -> str:
    machine = part["machine"]
    if machine is None:
        return "machine and date were not recorded"
    versions = [f"{name} {v}" for name, v in part["versions"].items() if v is not None]
    return (
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, "
        f"{machine['system']}; {', '.join(versions)}; size {part['size']}, {part['date']}"
    )


# -- tables -------------------------------------------------------------------------------------


def _bandwidth(results: Results) -> str:
    triad = results["triad"]["bytes"] / results["triad"]["seconds"]
    rows = []
    for name, found in results["methods"].items():
        rates = [found[k] / found["seconds"] for k in ("compulsory_bytes", "gathered_bytes")]
        shares = [f"{rate / 1e9:.1f} GB/s, {percent(rate / triad)} %" for rate in rates]
        rows.append((name, seconds(found["seconds"]), *shares))
    return markdown_table(("", "time", "compulsory", "gathered"), rows)


def _embed(graph: Results) -> str:
    if not any("accuracy" in found for found in graph["methods"].values()):
        return timing_table(graph["methods"])

    def columns(found: Results) -> tuple[str, ...]:
        of_splits = statistics.fmean(found["random_accuracies"])
        return seconds(found["first"]), percent(found["accuracy"]), percent(of_splits)

    return timing_table(graph["methods"], ("first call", "public split", "random splits"), columns)


def _path(graph: Results) -> str:
    """Times in one process, and of the first call in a new process where it was measured."""
    first_calls = graph.get("first_call", {})
    single = graph["methods"].get("GPCA once", {}).get("seconds")
    rows = []
    for name, found in graph["methods"].items():
        if "seconds" not in found:
            rows.append((name, "failed", "", "", ""))
            continue
        in_fits = "" if single is None else ratio(found["seconds"] / single)
        first = first_calls.get(name, {}).get("seconds")
        in_new_process = "" if first is None else seconds(first)
        time = seconds(found["seconds"])
        rows.append((name, time, in_fits, str(found["repeats"]), in_new_process))
    header = ("", "time", "in single fits", "repeats", "first call in a new process")
    return markdown_table(header, rows)


def _command(results: Results) -> str:
    rows = [
        (name, f"{found['seconds']:.1f} s", f"{found['imports']:.1f} s")
        for name, found in results["graphs"].items()
        if "seconds" in found
    ]
    return markdown_table(("", "time", "imports only"), rows)


def _first_use(results: Results) -> str:
    rows = [
        (name, *(f"{s:.1f} s" for s in (f["first"], f["second"], f["first"] - f["second"])))
        for name, f in results["graphs"].items()
        if "first" in f
    ]
    return markdown_table(("", "first use", "second use", "difference"), rows)


def _large_graph(results: Results) -> str:
    def columns(found: Results) -> tuple[str, ...]:
        return gibibytes(found["peak_bytes"]), _extra(found)

    return timing_table(results["methods"], ("peak", "of it for the fit"), columns)


def _extra(found: Results) -> str:
    return gibibytes(found["peak_bytes"] - found["before_bytes"])


def _exponents(results: Results) -> str:
    rows = [
        (method, f"{of['seconds']:.2f}", f"{of['memory']:.2f}", str(of["points"]))
        for method, of in results["exponents"].items()
    ]
    header = ("", "exponent of seconds", "of the fit's memory", "points")
    return markdown_table(header, rows) if rows else "Too few points for an exponent."


def _grid(points: list[Results], key: str, title: str) -> str:
    """One row per size, one column per method."""
    methods = list(dict.fromkeys(point["method"] for point in points))
    rows: dict[int, list[str]] = {}
    for point in points:
        cell = f"{seconds(point['seconds'])}, {_extra(point)}" if "seconds" in point else "-"
        rows.setdefault(point[key], []).append(cell)
    return markdown_table((title, *methods), [(f"{n:,}", *cells) for n, cells in rows.items()])


def _gcn_epoch(results: Results) -> str:
    def columns(found: Results) -> tuple[str, ...]:
        return _extra(found), f"{found['loss']:.5f}"

    return timing_table(results["methods"], ("memory beyond the data", "loss"), columns)


def _training(results: Results) -> str:
    rows = []
    for name, found in results["graphs"].items():
        times = [outcome.get("seconds") for outcome in found.get("methods", {}).values()]
        if times and None not in times:
            cells = [seconds(times[0])]
            cells += [f"{seconds(time)} ({times[0] / time:.1f}x)" for time in times[1:]]
            rows.append((name, str(found["epochs"]), *cells, f"{found['largest_difference']:.0e}"))
    header = ("", "epochs", "layer by layer", "train", "train_many", "difference of losses")
    return markdown_table(header, rows)


def _cluster_gcn(results: Results) -> str:
    def columns(found: Results) -> tuple[str, ...]:
        accuracy = percent(found["accuracy"])
        return str(found["epochs"]), f"{accuracy} %", gibibytes(found["peak_bytes"])

    return timing_table(results["methods"], ("epochs", "test accuracy", "peak"), columns)


def _deep_gcn(results: Results) -> str:
    rows = []
    for cell in results["cells"]:
        if "runs" not in cell:
            continue
        test = [100 * run["test"] for run in cell["runs"]]
        sd = statistics.stdev(test) if len(test) > 1 else 0.0
        rows.append((
            cell["dataset"],
            str(cell["layers"]),
            cell["method"],
            f"{statistics.fmean(test):.1f} ({sd:.1f})",
            f"{statistics.fmean(100 * run['first'] for run in cell['runs']):.1f}",
            f"{statistics.median(run['best_epoch'] for run in cell['runs']):g}",
            f"{statistics.median(run['epoch_95'] for run in cell['runs']):g}",
            f"{cell['lr']:g}, {cell['dropout']:g}, {cell['weight_decay']:g}",
        ))  # fmt: skip
    header = (
        "dataset", "layers", "weights", "test (sd)", "epoch 0", "best epoch", "95 % at epoch",
        "lr, dropout, decay",
    )  # fmt: skip
    return markdown_table(header, rows)


def _architectures(results: Results) -> str:
    names = ("dataset", "method", "layers")
    rows: dict[tuple[Any, ...], dict[str, Results]] = {}
    for cell in results["cells"]:
        if "runs" in cell:
            rows.setdefault(tuple(cell[name] for name in names), {})[cell["init"]] = cell
    table = []
    for (dataset, method, layers), cells in rows.items():
        inits = ("default", "orthogonal", "gpca, logistic", "gpca")
        accuracy = [_mean(cells.get(init), "test") for init in inits]
        own = cells.get("gpca")
        layers_set = "" if own is None else own["layers_set"]
        table.append((dataset, method, str(layers), *accuracy, _mean(own, "first"), layers_set))
    header = (
        "dataset", "architecture", "layers", "own", "orthogonal", "gpca, logistic", "gpca",
        "gpca, epoch 0", "layers set",
    )  # fmt: skip
    return markdown_table(header, table)


def _mean(cell: Results | None, name: str) -> str:
    """Mean of the runs of a cell in %, with the standard deviation if there are several."""
    if cell is None:
        return ""
    values = [100 * run[name] for run in cell["runs"]]
    sd = f" ({statistics.stdev(values):.1f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{sd}"


def _prediction(results: Results) -> str:
    """Three tables: scores, calibration errors and seconds of each graph and method."""
    graphs = {name: graph for name, graph in results["graphs"].items() if "methods" in graph}
    methods = list(dict.fromkeys(name for graph in graphs.values() for name in graph["methods"]))

    def scores(found: Results) -> str:
        values = [100 * value for value in found["scores"]]
        return f"{statistics.fmean(values):.1f} ({min(values):.1f}), {len(values)}"

    def errors(found: Results) -> str:
        return f"{100 * statistics.fmean(found['calibration_errors']):.1f}"

    tables = []
    for title, key, show in (
        ("score (worst), splits", "scores", scores),
        ("calibration error", "calibration_errors", errors),
        ("seconds", "seconds", lambda found: seconds(found["seconds"])),
    ):
        rows = [
            (
                name,
                *(
                    show(one) if (one := graph["methods"].get(method, {})).get(key) else "-"
                    for method in methods
                ),
            )
            for name, graph in graphs.items()
        ]
        if any(set(row[1:]) != {"-"} for row in rows):
            tables.append(markdown_table((title, *methods), rows))
    return "\n\n".join(tables)


def _large_prediction(results: Results) -> str:
    """GPCAClassifier on generated graphs, and beside a busy process."""
    tables = []
    generated = {name: one for name, one in results["generated"].items() if "seconds" in one}
    if generated:
        header = ("generated", "nodes", "edges", "labels", "score", "time", "CPU time", "memory")
        rows = [
            (
                name, f"{one['nodes']:,}", f"{one['edges']:,}", f"{one['labels']:,}",
                f"{100 * one['score']:.1f}", seconds(one["seconds"]),
                seconds(one["processor_seconds"]), gibibytes(one["peak_bytes"]),
            )
            for name, one in generated.items()
        ]  # fmt: skip
        tables.append(markdown_table(header, rows))
    busy = [
        (name, seconds(one["quiet"]), seconds(one["busy"]), f"{one['busy'] / one['quiet']:.2f}")
        for name, one in results["busy"].items()
    ]
    if busy:
        tables.append(markdown_table(("", "alone", "beside a busy process", "ratio"), busy))
    return "\n\n".join(tables)


def _tissue(tissue: Results) -> str:
    rows = []
    for name, found in tissue["methods"].items():
        if "seconds" in found:
            times = seconds(found["seconds"]), seconds(found["cpu_seconds"])
            memory = gibibytes(found["extra_bytes"])
            rows.append((name, *times, memory, f"{found['agreement']:.2f}"))
        else:
            rows.append((name, "skipped" if "skipped" in found else "failed", "", "", ""))
    return markdown_table(("", "time", "CPU time", "memory", "agreement"), rows)


#: Resolution of the clock of a browser, with the noise that is added to it.
CLOCK_SECONDS = 2e-4


def _at_least(value: float, least: float) -> str:
    return seconds(value) if value > least else f"under {seconds(least)}"


def _explore(results: Results) -> str:
    rows = []
    for graph in results["graphs"].values():
        for name, found in graph["methods"].items():
            if "frames_per_second" not in found:
                continue
            has_build = "seconds" in found
            rows.append((
                f"{graph['nodes']:,} nodes: {name}",
                {"tsne": "t-SNE", "pca": "components"}.get(found.get("layout", ""), ""),
                f"{seconds(found['seconds'])} ({seconds(found['cpu'])})" if has_build else "",
                f"{found['bytes'] / 1e6:.1f} MB",
                seconds(found["open_seconds"]),
                f"{found['frames_per_second']:.2g}",
                f"{1e3 * found['frame_seconds']:.1f} ms" if has_build else "",
                _at_least(found["hover_seconds"], CLOCK_SECONDS) if has_build else "",
            ))  # fmt: skip
    header = (
        "", "layout", "built in (CPU)", "file", "opened in", "frames per second", "one frame",
        "hover",
    )  # fmt: skip
    return markdown_table(header, rows)


def _workers(results: Results) -> str:
    local = results["methods"]["local"]
    rows = []
    for name, found in results["methods"].items():
        difference = f"{found['difference']:.0e}" if "difference" in found else ""
        start = seconds(found["start_seconds"]) if "start_seconds" in found else ""
        times = seconds(found["seconds"]), seconds(found["cpu_seconds"])
        share = ratio(found["cpu_seconds"] / local["cpu_seconds"])
        label = name.replace("1 workers", "1 worker")
        rows.append((label, *times, share, f"{found['moved_bytes']:,}", start, difference))
    header = (
        "", "time", "CPU time", "ratio", "bytes sent by workers", "start of the cluster",
        "difference from local",
    )  # fmt: skip
    return markdown_table(header, rows)


def _worker_memory(results: Results) -> str:
    limit = results["limit_bytes"]
    peaks = (
        ("limit of a worker", limit),
        ("X", results["X_bytes"]),
        ("F", results["F_bytes"]),
        ("planned for a worker", results["planned_bytes"]),
        ("largest private memory of a worker", max(results["worker_peaks"])),
        ("largest private memory of the client", results["client_peak"]),
    )
    rows: list[tuple[str, ...]] = [
        (name, gibibytes(n_bytes), f"{n_bytes / limit:.1f}") for name, n_bytes in peaks
    ]
    rows.append(("time", seconds(results["seconds"]), ""))
    rows.append(("CPU time of the workers", seconds(results["cpu_seconds"]), ""))
    return markdown_table(("", "", "times the limit"), rows)


def _id_mapping(results: Results) -> str:
    rows = [
        (name, *(seconds(found[key]) for key in ("seconds", "cpu_seconds")),
         gibibytes(max(found["peaks"])))
        for name, found in results["methods"].items()
        if "seconds" in found
    ]  # fmt: skip
    return markdown_table(("", "time", "CPU time", "memory"), rows)


def _distributed(results: Results) -> str:
    """Stages of the run, the bytes of each, and their share of the bandwidth."""
    made, found = results["generation"], results["embedding"]
    memory, write, read = (
        results[name] for name in ("triad_rate", "disk_write_rate", "disk_read_rate")
    )
    stages, solves = found["stages"], found["solves"]
    solving = max(s for s, _ in solves)
    writing = max(w for _, w in solves)
    X_bytes = 2 * found["nodes"] * found["columns"]
    rows = [
        ("generating and storing", made["seconds"], made["bytes"], write, "disk, written"),
        ("verifying", stages["verifying"], made["bytes"], read, "disk, read"),
        ("solving", solving, found["steps"] * found["step_bytes"], memory, "memory, read"),
        ("writing F", writing, found["solution_bytes"], write, "disk, written"),
        ("X^T F", stages["multiplying"], found["solution_bytes"] + X_bytes, read, "disk, read"),
        ("writing Z", stages["writing"], found["result_bytes"], write, "disk, written"),
    ]  # fmt: skip
    cells = [
        (name, seconds(time), f"{n / 1e9:.1f} GB", what, f"{percent(n / time / rate)} %")
        for name, time, n, rate, what in rows
    ]
    return markdown_table(("", "time", "bytes", "of the", "share of its bandwidth"), cells)


def _listed(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


#: Functions of the template that make tables.
TABLES = {
    "step": lambda results: timing_table(results["methods"]),
    "bandwidth": _bandwidth,
    "embed": _embed,
    "prediction": _prediction,
    "tissue": _tissue,
    "large_prediction": _large_prediction,
    "path": _path,
    "large_graph": _large_graph,
    "exponents": _exponents,
    "grid": _grid,
    "command": _command,
    "first_use": _first_use,
    "gcn_epoch": _gcn_epoch,
    "training": _training,
    "cluster_gcn": _cluster_gcn,
    "deep_gcn": _deep_gcn,
    "architectures": _architectures,
    "explore": _explore,
    "workers": _workers,
    "worker_memory": _worker_memory,
    "id_mapping": _id_mapping,
    "distributed": _distributed,
}
