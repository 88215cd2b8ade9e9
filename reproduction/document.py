"""What the report says, in which order: a summary in, headings, paragraphs, tables and figures out.

Both faces of the report, HTML and Markdown, are made of these blocks and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .blocks import (
    TITLES,
    Block,
    Box,
    Heading,
    Items,
    Number,
    Summary,
    Table,
    Text,
    called,
    in_short,
)
from .entries import DATASETS, PROTOCOLS, Plan, read_toml
from .sections import SECTIONS
from .selection import RULE
from .summary import NEAR, VERDICT_RULE, all_entries, name_of

#: Failed runs that are listed, the rest being counted.
FAILURES_SHOWN = 20

POOL_COLUMNS = ("layers", "hidden", "weight_decay", "dropout", "alpha", "beta")

NEAR_TOLD = (
    f"Near ties: how many settings are within {NEAR:g} points of the chosen one by validation "
    "accuracy, and from where to where their test accuracies go. They choose nothing; they show "
    "how much the choice decides."
)

VERDICTS = ("within noise", "better", "worse")

POOLS_TOLD = (
    "Pool `full`: that of the paper's supplement, every setting with all seeds of its protocol. "
    "Pool `lean`: a smaller one for networks, for a machine without a GPU; see Pools below."
)


def document(summary: Summary, pictures: Iterable[str] = ()) -> list[Block]:
    """All blocks of the report, for whatever the summary has."""
    blocks: list[Block] = [Heading("The paper's evidence, run again", 1), *_opening(summary)]
    drawn = set(pictures)
    for experiment, section in SECTIONS.items():
        numbers = [n for n in summary["numbers"] if n["experiment"] == experiment]
        if numbers:
            blocks += [Heading(TITLES[experiment]), *section(numbers, summary, drawn)]
    closing = (_left_out, _cost, _pools_told, _chosen, _how)
    return [*blocks, *(block for part in closing for block in part(summary))]


# -- opening --------------------------------------------------------------------------------


def _opening(summary: Summary) -> list[Block]:
    told: list[Block] = [
        Text(
            "The tables and figures of Zhao and Akoglu, *Connecting Graph Convolutional Networks "
            "and Graph-Regularized PCA*, run again by `python -m reproduction run` and set "
            "beside the published numbers; what was not run is listed below. All "
            "accuracies are percent of test nodes, with the standard deviation over runs in "
            "parentheses and below it the 95 % interval of the mean by Student's t."
        ),
        Heading("In short"),
        *_verdicts(summary),
        Heading("How to read it"),
        Items(
            (
                *(f"Protocol `{name}`: {read_toml('protocols')[name]['about']}." for name in
                  PROTOCOLS),
                POOLS_TOLD,
                f"Choice: {RULE} Test accuracies choose nothing.",
                f"Verdict: {VERDICT_RULE}",
            )
        ),
    ]  # fmt: skip
    return told


def _verdicts(summary: Summary) -> list[Block]:
    # Some numbers stand in several tables: GCN, and GPCA without labels. The first has all the
    # paper tells of it.
    distinct: dict[tuple[Any, ...], Number] = {}
    for n in summary["numbers"]:
        if "verdict" in n:
            distinct.setdefault((n["dataset"], n["protocol"], n["of"]), n)
    judged = list(distinct.values())
    rows = []
    for protocol in PROTOCOLS:
        for pool in dict.fromkeys(n["pool"] for n in judged):
            own = [n for n in judged if (n["protocol"], n["pool"]) == (protocol, pool)]
            counts = [sum(n["verdict"] == verdict for n in own) for verdict in VERDICTS]
            if own:
                told = (protocol, pool, len(own), *counts)
                rows.append(tuple(Box(str(value)) for value in told))
    blocks: list[Block] = [Table(("protocol", "pool", "compared", *VERDICTS), tuple(rows))]
    off = [number for number in judged if number["verdict"] != VERDICTS[0]]
    if off:
        header = ("off by more than noise", "protocol", "published", "here", "noise", "near ties")
        blocks.append(Table(header, tuple(_miss(number) for number in off), NEAR_TOLD))
    if summary["notes"]:
        blocks += [Text("Notes by those who ran it:"), Items(tuple(summary["notes"]))]
    return blocks


def _miss(number: Number) -> tuple[Box, ...]:
    where = f"{in_short(number['experiment'])}, {called(number['dataset'])}"
    near = ""
    if "near" in number:
        count, low, high = number["near"]
        near = f"{count:.0f}: {low:.2f} to {high:.2f}"
    return (
        Box(f"{where}: {number['row']}"),
        Box(number["protocol"]),
        Box(f"{number['published'][0]:.2f}"),
        Box(f"{number['mean']:.2f}", number["verdict"], number["verdict"]),
        Box(f"{number['noise']:.2f}"),
        Box(near),
    )


# -- closing --------------------------------------------------------------------------------


def _cost(summary: Summary) -> list[Block]:
    total = summary["total"]
    rows = tuple(
        (
            Box(in_short(c["experiment"])),
            Box(c["protocol"]),
            Box(called(c["dataset"])),
            Box(f"{c['runs']:,}"),
            Box(f"{c['seconds'] / 60:.1f}"),
        )
        for c in summary["cost"]
    )
    header = ("experiment", "protocol", "data", "runs", "minutes")
    return [
        Heading("What it took"),
        Text(
            f"{total['runs']:,} runs, {total['seconds'] / 3600:.1f} hours of worker time in all. "
            "Runs that several tables share are counted in each line and once in the sum, or once "
            "for each summary that was put together. "
            "Embeddings are made once for all runs that share dataset, alpha and beta, and counted "
            "with the first of them."
        ),
        Table(header, rows),
    ]


def _left_out(summary: Summary) -> list[Block]:
    blocks: list[Block] = [Heading("Not run")]
    run = {cost["dataset"] for cost in summary["cost"]}
    for name in [name for name in DATASETS if name not in run]:
        reason = summary["unreachable"].get(name)
        why = "not requested" if reason is None else f"its data could not be had: {reason}"
        blocks.append(
            Text(
                f"{called(name)}: {why}. The cells of its tables and histograms exist; "
                f"`python -m reproduction run --datasets {name}` runs them where it can."
            )
        )
    of_lean = [name_of(vars(entry)) for entry in all_entries() if entry.pool == "lean"]
    missing = [item for item in summary["missing"] if item["dataset"] in run]
    for why, items in (
        ("Not run, or not finished", [item for item in missing if item in of_lean]),
        ("Only in pool `full`, which was not run", [i for i in missing if i not in of_lean]),
    ):
        if items:
            blocks += [Text(f"{why}:"), Items(tuple(_grouped(items)))]
    if summary["failed"]:
        more = len(summary["failed"]) - FAILURES_SHOWN
        told = [_failure(failed) for failed in summary["failed"][:FAILURES_SHOWN]]
        blocks.append(Heading(f"Failed: {len(summary['failed'])} runs", 3))
        blocks.append(Items((*told, f"... and {more} more.") if more > 0 else tuple(told)))
    return blocks if len(blocks) > 1 else []


def _grouped(missing: list[dict[str, str]]) -> Iterator[str]:
    """A line for each table: its rows by name if they are few."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for item in missing:
        key = item["experiment"], item["protocol"], item["dataset"]
        groups.setdefault(key, []).append(item["row"])
    for (experiment, protocol, dataset), rows in groups.items():
        told = ", ".join(rows) if len(rows) < 4 else f"{len(rows)} numbers"
        yield f"{in_short(experiment)}, {called(dataset)}, `{protocol}`: {told}."


def _failure(failed: dict[str, Any]) -> str:
    cell = failed["cell"]
    options = ", ".join(_setting(*item) for item in cell["options"].items())
    where = f"{cell['method']} on {called(cell['dataset'])}, {cell['split']}, seed {cell['seed']}"
    return f"{where} ({options}): {failed['reason']}"


def _pools_told(summary: Summary) -> list[Block]:
    """The pools of all datasets that were run."""
    rows = []
    for dataset in dict.fromkeys(n["dataset"] for n in summary["numbers"]):
        pools = dict.fromkeys(n["pool"] for n in summary["numbers"] if n["dataset"] == dataset)
        for pool in pools if dataset in DATASETS else ():
            plan = Plan("paper", pool, dataset)
            told = [_listed(plan.values(name)) for name in POOL_COLUMNS]
            own = {name: plan.values(f"gpcanet_{name}") for name in POOL_COLUMNS}
            special = [f"{name.replace('_', ' ')} {_listed(v)}" for name, v in own.items() if v]
            each = plan.values("gpcanet_alphas_each")
            special += [f"{each} alpha a depth"] if each else []
            boxes = map(Box, (called(dataset), pool, *told, "; ".join(special)))
            rows.append(tuple(boxes))
    names = [name.replace("_", " ") for name in POOL_COLUMNS]
    return [
        Heading("Pools"),
        Table(("data", "pool", *names, "GPCANet otherwise"), tuple(rows)),
        Items((*_lean_told(summary), *_gpca_told())),
    ]


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _lean_told(summary: Summary) -> list[str]:
    if all(n["pool"] != "lean" for n in summary["numbers"]):
        return []
    lean = read_toml("pools")["lean"]
    told = (
        f"`lean` compares settings of networks by {lean['select_seeds']} seed, and ends a run "
        f"{lean['training']['patience']} epochs after the last rise of validation accuracy, looked "
        f"at every {lean['training']['eval_every']}."
    )
    own = [
        f"Table 4 of {called(name)} has layers {_listed(pool['table4_layers'])} in `lean`."
        for name, pool in lean.items()
        if isinstance(pool, dict) and "table4_layers" in pool
    ]
    return [told, *own]


def _gpca_told() -> list[str]:
    alphas = read_toml("pools")["full"]["gpcanet_alphas"]
    own = read_toml("protocols")["authors-code"]["gpcanet"]["alphas"]
    pool = read_toml("protocols")["ours"]["gpca"]["pool"]
    logistic = "; ".join(
        f"{name.replace('_', ' ')} {', '.join(str(value) for value in values)}"
        for name, values in pool.items()
    )
    heads = (
        "GPCA has the full pool and all seeds for choosing in both; in `ours` its head is logistic "
        f"regression, chosen from {logistic}."
    )
    return [
        heads,
        "Alphas of GPCANet by layers: "
        + "; ".join(f"{layers}: {_listed(values)}" for layers, values in alphas.items())
        + ". In `authors-code`: "
        + "; ".join(f"{layers}: {_listed(values)}" for layers, values in own.items())
        + ", with beta 0, though their script also tries 0.1 and 0.2.",
    ]


def _chosen(summary: Summary) -> list[Block]:
    """What was chosen for each number, and from how many."""
    rows = tuple(
        (
            Box(in_short(n["experiment"])),
            Box(called(n["dataset"])),
            Box(n["protocol"]),
            Box(n["row"]),
            Box(", ".join(_setting(*item) for item in n["chosen"].items())),
            Box(f"{n['candidates']} ({n['pool']})"),
        )
        for n in summary["numbers"]
        if n["chosen"] and n["experiment"] not in ("random", "histograms", "fewer")
    )
    return [
        Heading("Settings that were chosen"),
        Table(("experiment", "data", "protocol", "row", "setting", "of"), rows),
    ]


def _setting(name: str, value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = f"{value:g}" if is_number else value
    return f"{name.replace('_', ' ')} {shown}"


def _how(summary: Summary) -> list[Block]:
    versions = [", ".join(f"{k} {v}" for k, v in found.items()) for found in summary["versions"]]
    return [
        Heading("Machines and versions"),
        Items((*summary["machines"], *filter(None, versions))),
    ]
