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
    cells = {(c["method"], c["layers"], c["init"]): c for c in results["cells"] if "test" in c}
    rows = []
    for method, layers in dict.fromkeys(key[:2] for key in cells):
        own = [cells.get((method, layers, init)) for init in ("default", "orthogonal", "gpca")]
        accuracy = [
            "" if cell is None else f"{100 * statistics.fmean(cell['test']):.1f}" for cell in own
        ]
        first = "" if own[2] is None else f"{100 * statistics.fmean(own[2]['first']):.1f}"
        layers_set = "" if own[2] is None else own[2]["layers_set"]
        rows.append((method, str(layers), *accuracy, first, layers_set))
    header = ("architecture", "layers", "own", "orthogonal", "gpca", "gpca, epoch 0", "layers set")
    return markdown_table(header, rows)


def _prediction(results: Results) -> str:
    """Mean and worst score of the splits, and seconds, for each graph and method."""
    graphs = {name: graph for name, graph in results["graphs"].items() if "methods" in graph}
    methods = list(dict.fromkeys(name for graph in graphs.values() for name in graph["methods"]))
    rows = []
    for name, graph in graphs.items():
        cells = []
        for method in methods:
            found = graph["methods"].get(method, {})
            cell = "-"
            if "scores" in found:
                scores = [100 * value for value in found["scores"]]
                cell = f"{statistics.fmean(scores):.1f} ({min(scores):.1f}), "
                cell += seconds(found["seconds"])
            cells.append(cell)
        rows.append((name, *cells))
    return markdown_table(("", *methods), rows)


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
    "workers": _workers,
    "distributed": _distributed,
}
