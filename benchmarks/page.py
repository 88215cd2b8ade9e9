"""Results of all parts as one page of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .markdown import amount, gigabytes, left_out, outcome_rows, percent, seconds
from .markdown_table import table

Results = dict[str, Any]

INTRODUCTION = """\
# Performance

Written by `python -m benchmarks` from the JSON files of its parts (in this repository:
`benchmarks/results/`); `make bench` measures anew, `make page` only writes this page anew.

How it is measured: in each table all ways run in one process, or one process each, and take
turns, so that noise meets all of them; the least of the repeated times counts. A way that has
taken half a minute in all is not repeated any more, and the table tells how often it ran. The
first call is shown apart: it may compile, load or fill caches. Each way starts from the data in
the form that it works on; bringing it into that form is not timed. Ratios are to the first row.

Where the load average below is not small, other work was running: times are then longer, those of
threaded libraries most of all, and ratios are not to be relied on.
"""


def page(results: dict[str, Results]) -> str:
    """The page for whatever parts there are."""
    parts = [INTRODUCTION, _machines(results)]
    for name, section in SECTIONS.items():
        if name in results:
            parts.append(section(results[name]["results"]))
    missing = [
        f"- {name}: {reason}"
        for name, part in results.items()
        for reason in left_out(part["results"])
    ]
    if missing:
        parts.append("## Left out\n\n" + "\n".join(missing) + "\n")
    return "\n".join(parts)


def _machines(results: dict[str, Results]) -> str:
    """What was measured on, told once where all parts agree."""
    told: dict[str, list[str]] = {}
    for name, part in results.items():
        told.setdefault(_machine(part), []).append(name)
    rows = [
        f"- {', '.join(names)}: {machine}" if len(told) > 1 else f"- {machine}"
        for machine, names in told.items()
    ]
    loads = ", ".join(f"{name} {part['machine']['load']}" for name, part in results.items())
    runs = ", ".join(f"{name} {part['repeats']}" for name, part in results.items())
    rows += [
        f"- load average when each part began: {loads}",
        f"- repeats asked for: {runs}",
    ]
    return "## Machine\n\n" + "\n".join(rows) + "\n"


def _machine(part: Results) -> str:
    of = part["machine"]
    packages = ", ".join(
        f"{name} {version}" for name, version in part["versions"].items() if version is not None
    )
    return (
        f"{of['cores']} cores of {of['cpu']}, {of['memory_gib']} GiB, {of['system']}; {packages}; "
        f"size {part['size']}, {part['date']}"
    )


def _step(found: Results) -> str:
    rows = outcome_rows(found["ways"], _first_call)
    return f"""## One propagation step

c P F + (1 - c) X on a generated graph of {_graph(found)}, {found["columns"]} columns, float32.
Finding the order of nodes, once a graph, takes {seconds(found["ordering_seconds"])}; the largest
difference to scipy's result is {found["largest_difference"]:.1e}.

{table(("", "time", "ratio", "repeats", "first call"), rows)}
"""


def _bandwidth(found: Results) -> str:
    triad = found["triad"]["bytes"] / found["triad"]["seconds"]
    rows = []
    for name, way in found["ways"].items():
        rates = [way[count] / way["seconds"] for count in ("compulsory_bytes", "gathered_bytes")]
        shares = [f"{rate / 1e9:.1f} GB/s, {percent(rate / triad)} %" for rate in rates]
        rows.append((name, seconds(way["seconds"]), *shares))
    return f"""## Bandwidth

The bytes of a step, and the share of a STREAM triad measured in the same run
({triad / 1e9:.1f} GB/s; three arrays of {found["triad"]["bytes"] // 24:,} float64 numbers).
Two counts, of which the truth lies in between. Compulsory: each array once, that is 4 bytes an
entry, 16 a row, F and X read, the result written. Gathered: the same, but a row of F anew for
every entry, as if nothing stayed in cache; more than 100 % means that much of it did.

{table(("", "time", "compulsory", "gathered"), rows)}
"""


def _embed(found: Results) -> str:
    text = """## Embeddings of width 64

Seconds to the embedding, and test accuracy in % of the same logistic head on it, its penalty and
scaling chosen on validation nodes: on the public split, and the mean over random splits with as
many labels. A thousand test nodes make differences under 1.5 points mean little by themselves.
PyG's propagations are made narrow by PCA. st-graphpca hands the diagonal to its solver where the
inverse belongs; "mended" puts that right while it runs, and heeds whether the solver converged.
"""
    for name, graph in found["graphs"].items():
        if "ways" not in graph:
            continue
        is_judged = any("accuracy" in way for way in graph["ways"].values())
        header: tuple[str, ...] = ("", "time", "ratio", "repeats", "first call")
        if is_judged:
            header += ("public split", "random splits")
        rows = outcome_rows(graph["ways"], _accuracies if is_judged else _first_call)
        text += f"\n### {name}: {_graph(graph)}, {graph['features']:,} features\n\n"
        text += table(header, rows) + "\n"
        if "accuracy" in graph.get("classifier", {}):
            of = graph["classifier"]
            text += (
                f"\n`GPCAClassifier()`, which decides its settings by itself: "
                f"{percent(of['accuracy'])} % in {seconds(of['seconds'])}, heads included.\n"
            )
    return text


def _first_call(way: Results) -> tuple[str, ...]:
    return (seconds(way["first"]),)


def _accuracies(way: Results) -> tuple[str, ...]:
    drawn = way["random_accuracies"]
    return *_first_call(way), percent(way["accuracy"]), percent(sum(drawn) / len(drawn))


def _path(found: Results) -> str:
    pairs = len(found["alphas"]) * len(found["betas"])
    text = f"""## A grid of settings

W for {pairs} settings (alpha {_list(found["alphas"])}; beta {_list(found["betas"])}, the
paper's ghost edges), {found["width"]} components: by one `GPCAPath`, by {pairs} exact fits of
`GPCA`, and beside them a single fit. A fit of `GPCA` makes its embedding as well; a path makes
those that are asked for.
"""
    for name, graph in found["graphs"].items():
        if "ways" not in graph:
            continue
        rows = outcome_rows(graph["ways"], _first_call)
        text += f"\n### {name}\n\n"
        text += table(("", "time", "ratio", "repeats", "first call"), rows) + "\n"
        if "cosines" in graph:
            least = min(pair["smallest_cosine"] for pair in graph["cosines"])
            text += f"\nSmallest cosine between the spaces of W, over all pairs: {least:.6f}.\n"
    return text


def _command(found: Results) -> str:
    rows = [
        (name, *(f"{row[column]:.1f} s" for column in ("warm", "cold", "imports")))
        for name, row in found["graphs"].items()
        if "warm" in row
    ]
    return f"""## From the shell

`gpcanet embed` to 64 dimensions, Python's start included. First use: with no kernel compiled.
Imports: numpy, scipy, scikit-learn, pyarrow and the rest of what it depends on, alone.

{table(("", "time", "first use", "imports alone"), rows)}
"""


def _generate(found: Results) -> str:
    if "seconds" not in found:
        return "## Generating a graph\n\nNot measured.\n"
    return f"""## Generating a graph

`block_model` with {_graph(found)} and {found["columns"]} features takes
{seconds(found["seconds"])} and at most {gigabytes(found["peak_bytes"])} in all.
"""


def _products(found: Results) -> str:
    rows = outcome_rows(found["ways"], _memory)
    header = ("", "time", "ratio", "repeats", "peak", "of it for the fit")
    return f"""## A large graph, end to end

A generated graph of {_graph(found)}, {found["columns"]} columns, float32, to
{found["components"]} components; from arrays in memory to Z, alpha = 10, each fit in a process of
its own. "5 steps" is the paper's truncation, "exact" solves to a relative residual of 1e-4 (in half
precision, as near to that as rounding lets it), "in 1.5 GiB" has that `memory_limit`. torch and
scipy: normalise, centre, five steps, W from X^T F, Z = F W. Memory is what the system cannot drop:
not files that are mapped.

{table(header, rows)}
"""


def _memory(way: Results) -> tuple[str, ...]:
    return gigabytes(way["peak_bytes"]), gigabytes(way["peak_bytes"] - way["before_bytes"])


def _growth(found: Results) -> str:
    ways = list(dict.fromkeys(point["way"] for point in found["over_edges"]))
    fits = [
        (way, f"{of['seconds']:.2f}", f"{of['memory']:.2f}", str(of["points"]))
        for way, of in found["exponents"].items()
    ]
    header = ("", "exponent of seconds", "of the fit's memory", "points")
    exponents = table(header, fits) if fits else "Too few points for an exponent."
    return f"""## Growth

Generated graphs with {found["edges_per_node"]} edges a node, {found["columns"]} columns, float32,
to {found["components"]} components; each fit in a process of its own, kernels compiled before.
Seconds, and GiB that the fit takes beyond its input.

![Seconds and memory over edges](images/growth.png)

{_grid(found["over_edges"], "wanted_edges", "edges", ways)}

Fitted from 100,000 edges on, by least squares on logarithms; 1 is linear:

{exponents}

Over the number of columns, on one graph, to as many components for all:

{_grid(found["over_columns"], "columns", "columns", ways)}
"""


def _grid(points: list[Results], key: str, title: str, ways: Iterable[str]) -> str:
    """A row per size and a column per way."""
    shown = [way for way in ways if any(point["way"] == way for point in points)]
    rows: dict[int, list[str]] = {}
    for point in points:
        rows.setdefault(point[key], []).append(_cell(point))
    return table((title, *shown), [(amount(size), *cells) for size, cells in rows.items()])


def _cell(point: Results) -> str:
    if "seconds" not in point:
        return "-"
    extra = (point["peak_bytes"] - point["before_bytes"]) / 2**30
    return f"{seconds(point['seconds'])}, {extra:.2f} GiB"


def _graph(found: Results) -> str:
    return f"{found['nodes']:,} nodes and {found['edges']:,} edges"


def _list(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


SECTIONS: dict[str, Callable[[Results], str]] = {
    "step": _step,
    "bandwidth": _bandwidth,
    "embed": _embed,
    "path": _path,
    "products": _products,
    "growth": _growth,
    "command": _command,
    "generate": _generate,
}
