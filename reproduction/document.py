"""The report as a list of blocks, from which HTML and Markdown are rendered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .blocks import Block, Heading, Items, TableCell, Text, table
from .cells import Value
from .display_names import TITLES, dataset_name, row_label
from .experiments import Row, all_row_specs
from .pools import DATASETS, PROTOCOLS, SettingPool, read_toml
from .results import Failure, Result, Summary
from .sections import SECTIONS, section
from .selection import SELECTION_RULE
from .summary import NEAR_POINTS
from .verdicts import (
    VERDICT_RULE,
    VERDICTS,
    WITHIN_NOISE,
    PublishedComparison,
    compare_with_published,
)

#: Number of failed runs that are listed.
FAILURES_SHOWN = 20

POOL_COLUMNS = ("layers", "hidden", "weight_decay", "dropout", "alpha", "beta")

NEAR_TIES_EXPLAINED = (
    f"Near ties: the number of settings within {NEAR_POINTS:g} points of the selected one by "
    "validation accuracy, and the range of their test accuracies. They show how much depends on "
    "the selection and are not used for it."
)

POOLS_EXPLAINED = (
    "Pool `full` is that of the paper's supplement, every setting with all seeds of its protocol. "
    "Pool `lean` is smaller, for networks on a machine without a GPU; see Pools below."
)


def document(summary: Summary) -> list[Block]:
    """All blocks of the report on a summary."""
    blocks: list[Block] = [Heading("The paper's results, reproduced", 1), *_opening(summary)]
    for experiment in SECTIONS:
        results = summary.of(experiment)
        if results:
            blocks += [Heading(str(TITLES[experiment])), *section(experiment, results)]
    closing = (_not_run, _costs, _pools, _selected, _environment)
    return [*blocks, *(block for part in closing for block in part(summary))]


# -- opening --------------------------------------------------------------------------------


def _opening(summary: Summary) -> list[Block]:
    protocols = read_toml("protocols")
    return [
        Text(
            "The tables and figures of Zhao and Akoglu, *Connecting Graph Convolutional Networks "
            "and Graph-Regularized PCA*, run again by `python -m reproduction run` and compared "
            "with the published numbers. What was not run is listed below. All accuracies are in "
            "percent of the test nodes, with the standard deviation over runs in parentheses; the "
            "line below is the 95 % interval of the mean by Student's t."
        ),
        Heading("Summary"),
        *_verdicts(summary),
        Heading("Terms"),
        Items(
            (
                *(f"Protocol `{name}`: {protocols[name]['about']}." for name in PROTOCOLS),
                POOLS_EXPLAINED,
                f"Selection: {SELECTION_RULE}",
                f"Verdict: {VERDICT_RULE}",
            )
        ),
    ]


def _verdicts(summary: Summary) -> list[Block]:
    # GCN and unsupervised GPCA appear in several tables and are counted once.
    distinct: dict[tuple[str, str, str], tuple[Result, PublishedComparison]] = {}
    for result in summary.results:
        comparison = compare_with_published(result)
        if comparison is not None:
            key = result.row.dataset, result.row.protocol, result.fingerprint
            distinct.setdefault(key, (result, comparison))
    compared = list(distinct.values())
    counts: list[tuple[object, ...]] = []
    for protocol in PROTOCOLS:
        for pool in dict.fromkeys(result.pool for result, _ in compared):
            own = [c for r, c in compared if (r.row.protocol, r.pool) == (protocol, pool)]
            if own:
                numbers = [sum(c.verdict == verdict for c in own) for verdict in VERDICTS]
                counts.append((protocol, pool, len(own), *numbers))
    blocks: list[Block] = [table(("protocol", "pool", "compared", *VERDICTS), counts)]
    outside = [_outside_noise(*pair) for pair in compared if pair[1].verdict != WITHIN_NOISE]
    if outside:
        header = ("outside noise", "protocol", "published", "reproduced", "noise", "near ties")
        blocks.append(table(header, outside, NEAR_TIES_EXPLAINED))
    if summary.notes:
        blocks += [Text("Notes by those who ran the experiments:"), Items(summary.notes)]
    return blocks


def _outside_noise(result: Result, comparison: PublishedComparison) -> tuple[object, ...]:
    row, ties = result.row, result.near_ties
    return (
        f"{TITLES[row.experiment].short}, {dataset_name(row.dataset)}: {row_label(row)}",
        row.protocol,
        f"{comparison.published.mean:.2f}",
        TableCell(f"{result.mean:.2f}", (comparison.verdict,), comparison.verdict),
        f"{comparison.noise:.2f}",
        "" if ties is None else f"{ties.n_settings}: {ties.lowest:.2f} to {ties.highest:.2f}",
    )


# -- closing --------------------------------------------------------------------------------


def _costs(summary: Summary) -> list[Block]:
    rows: list[tuple[object, ...]] = [
        (
            TITLES[cost.experiment].short,
            cost.protocol,
            dataset_name(cost.dataset),
            f"{cost.runs:,}",
            f"{cost.seconds / 60:.1f}",
        )
        for cost in summary.costs
    ]
    return [
        Heading("Cost"),
        Text(
            f"{summary.n_runs:,} runs took {summary.seconds / 3600:.1f} hours of worker time. "
            "Runs that several tables share are counted in each of their lines and once in the "
            "total, or once for each of the merged summaries. An embedding is computed once for "
            "all runs with the same dataset, alpha and beta, and its time counts with the first "
            "of them."
        ),
        table(("experiment", "protocol", "data", "runs", "minutes"), rows),
    ]


def _not_run(summary: Summary) -> list[Block]:
    blocks: list[Block] = []
    run = {cost.dataset for cost in summary.costs}
    for name in [name for name in DATASETS if name not in run]:
        reason = summary.unavailable.get(name)
        why = "not requested" if reason is None else f"its data could not be loaded: {reason}"
        blocks.append(
            Text(
                f"{dataset_name(name)}: {why}. Run `python -m reproduction run --datasets {name}` "
                "where the data is available."
            )
        )
    in_lean = {spec.row for spec in all_row_specs() if spec.pool == "lean"}
    missing = [row for row in summary.missing if row.dataset in run]
    for why, rows in (
        ("Not run, or not finished", [row for row in missing if row in in_lean]),
        ("Only in pool `full`, which was not run", [row for row in missing if row not in in_lean]),
    ):
        if rows:
            blocks += [Text(f"{why}:"), Items(tuple(_missing_by_table(rows)))]
    if summary.failed:
        n_more = len(summary.failed) - FAILURES_SHOWN
        lines = [_failure(failure) for failure in summary.failed[:FAILURES_SHOWN]]
        lines += [f"... and {n_more} more."] if n_more > 0 else []
        blocks += [Heading(f"Failed: {len(summary.failed)} runs", 3), Items(tuple(lines))]
    return [Heading("Not run"), *blocks] if blocks else []


def _missing_by_table(missing: list[Row]) -> Iterator[str]:
    """One line for each table; up to three rows are named."""
    tables: dict[tuple[str, str, str], list[Row]] = {}
    for row in missing:
        tables.setdefault(row.table, []).append(row)
    for (experiment, protocol, dataset), rows in tables.items():
        names = ", ".join(map(row_label, rows)) if len(rows) < 4 else f"{len(rows)} rows"
        yield f"{TITLES[experiment].short}, {dataset_name(dataset)}, `{protocol}`: {names}."


def _failure(failure: Failure) -> str:
    cell = failure.cell
    options = ", ".join(_setting(*item) for item in cell.setup.options)
    name = f"{cell.setup.method} on {dataset_name(cell.setup.dataset)}"
    return f"{name}, {cell.split.kind} split, seed {cell.seed} ({options}): {failure.reason}"


def _pools(summary: Summary) -> list[Block]:
    """The pools of all datasets that were run."""
    rows: list[tuple[object, ...]] = []
    for dataset in dict.fromkeys(r.row.dataset for r in summary.results):
        pools = dict.fromkeys(r.pool for r in summary.results if r.row.dataset == dataset)
        for pool in pools if dataset in DATASETS else ():
            settings = SettingPool("paper", pool, dataset)
            shared = [_listed(settings.values(name)) for name in POOL_COLUMNS]
            own = {name: settings.values(f"gpcanet_{name}") for name in POOL_COLUMNS}
            special = [f"{_words(name)} {_listed(v)}" for name, v in own.items() if v]
            count = settings.values("gpcanet_alphas_each")
            special += [f"{count} alpha per depth"] if count else []
            rows.append((dataset_name(dataset), pool, *shared, "; ".join(special)))
    header = ("data", "pool", *map(_words, POOL_COLUMNS), "different for GPCANet")
    return [
        Heading("Pools"),
        table(header, rows),
        Items((*_lean_explained(summary), *_special_pools())),
    ]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _lean_explained(summary: Summary) -> list[str]:
    if all(r.pool != "lean" for r in summary.results):
        return []
    lean = read_toml("pools")["lean"]
    training = lean["training"]
    text = (
        f"`lean` compares settings of networks with {lean['select_seeds']} seed, and stops a run "
        f"{training['patience']} epochs after the last improvement of the validation accuracy, "
        f"which is evaluated every {training['eval_every']} epochs."
    )
    depths = [
        f"Table 4 of {dataset_name(name)} has layers {_listed(pool['table4_layers'])} in `lean`."
        for name, pool in lean.items()
        if isinstance(pool, dict) and "table4_layers" in pool
    ]
    return [text, *depths]


def _special_pools() -> list[str]:
    protocols = read_toml("protocols")
    pool = protocols["ours"]["gpca"]["pool"]
    logistic = "; ".join(
        f"{_words(name)} {', '.join(str(value) for value in values)}"
        for name, values in pool.items()
    )
    by_layers = [
        "; ".join(f"{layers}: {_listed(values)}" for layers, values in alphas.items())
        for alphas in (
            read_toml("pools")["full"]["gpcanet_alphas"],
            protocols["authors-code"]["gpcanet"]["alphas"],
        )
    ]
    head = (
        "GPCA uses the full pool and all selection seeds in both. In `ours` its head is logistic "
        f"regression, selected from {logistic}."
    )
    alphas = (
        f"Alphas of GPCANet by number of layers: {by_layers[0]}. In `authors-code`: "
        f"{by_layers[1]}, with beta 0, though the authors' script also tries 0.1 and 0.2."
    )
    return [head, alphas]


def _selected(summary: Summary) -> list[Block]:
    """The selected setting of each row, and the number of candidates."""
    rows: list[tuple[object, ...]] = [
        (
            TITLES[r.row.experiment].short,
            dataset_name(r.row.dataset),
            r.row.protocol,
            row_label(r.row),
            ", ".join(_setting(*item) for item in r.selected.items()),
            f"{r.n_candidates} ({r.pool})",
        )
        for r in summary.results
        if r.selected and r.row.experiment not in ("random", "histograms", "fewer")
    ]
    header = ("experiment", "data", "protocol", "row", "setting", "candidates (pool)")
    return [Heading("Selected settings"), table(header, rows)]


def _setting(name: str, value: Value) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{_words(name)} {value:g}" if is_number else f"{_words(name)} {value}"


def _environment(summary: Summary) -> list[Block]:
    versions = [", ".join(f"{k} {v}" for k, v in found.items()) for found in summary.versions]
    return [Heading("Machines and versions"), Items((*summary.machines, *versions))]
