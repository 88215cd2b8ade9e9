"""One section of the report for every table and figure of the paper."""

from __future__ import annotations

from collections.abc import Callable

from .blocks import Block, Figure, FigureKey, TableCell, Text, table
from .display_names import INIT_NAMES, dataset_name, layers_label, method_label, row_label
from .experiments import INITS, row_specs
from .figures import figure_keys
from .pools import PROTOCOLS, read_toml
from .results import Result
from .verdicts import compare_with_published, paired_comparisons, published


def section(experiment: str, results: list[Result]) -> list[Block]:
    """The blocks of one experiment, for the results there are."""
    return SECTIONS[experiment](results)


def mean_and_sd(result: Result) -> str:
    """Mean, standard deviation and number of failed runs."""
    spread = f"({result.sd:.2f})" if len(result.values) > 1 else "(one run)"
    failed = f", {result.n_failed} failed" if result.n_failed else ""
    return f"{result.mean:.2f} {spread}{failed}"


def _by_dataset(results: list[Result]) -> list[tuple[str, list[Result]]]:
    names = dict.fromkeys(result.row.dataset for result in results)
    return [(name, [r for r in results if r.row.dataset == name]) for name in names]


def _by_dataset_and_protocol(
    results: list[Result],
) -> list[tuple[tuple[str, str], list[Result]]]:
    keys = dict.fromkeys((result.row.dataset, result.row.protocol) for result in results)
    return [(key, [r for r in results if (r.row.dataset, r.row.protocol) == key]) for key in keys]


def _figures(kind: str, dataset: str, results: list[Result]) -> list[Block]:
    key = FigureKey(kind, dataset)
    if key not in figure_keys(results):
        return []
    alt, caption = CAPTIONS[kind]
    name = dataset_name(dataset)
    return [Figure(key, f"{alt}, {name}", f"{name}: {caption}")]


def _published_cell(result: Result) -> str:
    number = published(result.row)
    if number is None:
        return ""
    return f"{number.mean:.2f}" + ("" if number.sd is None else f" ({number.sd:.2f})")


def _result_cell(result: Result) -> TableCell:
    details, verdict = [], ""
    if result.interval is not None:
        details.append(f"{result.interval[0]:.1f} to {result.interval[1]:.1f}")
    comparison = compare_with_published(result)
    if comparison is not None:
        verdict = comparison.verdict
        details.append(f"{comparison.difference:+.2f} {verdict}")
    return TableCell(mean_and_sd(result), tuple(details), verdict)


def _protocol_tables(results: list[Result]) -> list[Block]:
    """One table per dataset: a row for each row of the paper, a column for each protocol."""
    blocks: list[Block] = []
    for dataset, own in _by_dataset(results):
        protocols = [name for name in PROTOCOLS if any(r.row.protocol == name for r in own)]
        rows: list[tuple[object, ...]] = []
        for settings in dict.fromkeys(r.row.settings for r in own):
            found = {r.row.protocol: r for r in own if r.row.settings == settings}
            first = next(iter(found.values()))
            cells = [_result_cell(found[name]) if name in found else "" for name in protocols]
            rows.append((row_label(first.row), _published_cell(first), *cells))
        name = dataset_name(dataset)
        caption = f"{name}, public split; {_pools_by_method(own)}."
        if any(r.row.method == "gcn" for r in own):
            caption += " Protocol `ours` uses the GCN of the paper."
        blocks.append(table((name, "published", *protocols), rows, caption))
    return blocks


def _pools_by_method(results: list[Result]) -> str:
    parts = []
    for pool in dict.fromkeys(r.pool for r in results):
        methods = dict.fromkeys(method_label(r.row) for r in results if r.pool == pool)
        parts.append(f"pool `{pool}` for {', '.join(methods)}")
    return "; ".join(parts)


def _pools(results: list[Result]) -> str:
    return ", ".join(f"pool `{pool}`" for pool in dict.fromkeys(r.pool for r in results))


def _depths(results: list[Result]) -> list[Block]:
    """One row per initialisation, one column per depth."""
    blocks: list[Block] = [
        Text(
            "The paper compares the first two initialisations; He and orthogonal (gain sqrt 2) are "
            f"added here.{_early_stopping(results)}"
        )
    ]
    for (dataset, protocol), own in _by_dataset_and_protocol(results):
        depths = sorted({r.row.layers for r in own if r.row.layers is not None})
        at = {(r.row.init, r.row.layers): r for r in own}
        rows: list[tuple[object, ...]] = []
        epochs: list[tuple[object, ...]] = []
        for init in INITS:
            found = [at.get((init, depth)) for depth in depths]
            numbers = [_published_cell(r) if r else "" for r in found]
            if any(numbers):
                rows.append((f"{INIT_NAMES[init]}, published", *numbers))
            rows.append((INIT_NAMES[init], *(_result_cell(r) if r else "not run" for r in found)))
            best = [f"{r.best_epoch:g}" if r else "" for r in found]
            epochs.append((INIT_NAMES[init], *best))
        name, columns = dataset_name(dataset), [layers_label(depth) for depth in depths]
        if protocol != "paper":
            name += f", {protocol}"
        caption = f"{name}, public split, {len(own[0].values)} seeds; {_pools(own)}."
        blocks += [
            table((name, *columns), rows, caption),
            table(
                ("best epoch, median", *columns), epochs,
                f"{name}: the epoch selected by validation accuracy.",
            ),
            *_figures("curves", dataset, own),
        ]  # fmt: skip
    return blocks


def _early_stopping(results: list[Result]) -> str:
    """A warning about the pool that stops early."""
    if all(r.pool != "lean" for r in results):
        return ""
    epochs = read_toml("pools")["lean"]["training"]["patience"]
    return (
        f" With `lean` a run stops {epochs} epochs after the last improvement of the validation "
        "accuracy. Some runs that improve late, as deep networks with random weights do, may have "
        "stopped too early, which lowers their mean and increases their deviation."
    )


def _random(results: list[Result]) -> list[Block]:
    blocks: list[Block] = [
        Text(
            "Each split has 20 training nodes per class, 500 validation nodes and 1000 test nodes, "
            "drawn from nodes that the public split uses neither for training nor for validation. "
            "Settings are those selected on the public split, from as many candidates as the table "
            "shows. Both sides of a difference ran on the same splits. The interval is Student's, "
            "95 %; splits of one graph share nodes, so it is somewhat too narrow. GPCA is compared "
            "with the paper's GCN in every protocol."
        )
    ]
    comparisons = paired_comparisons(results)
    for dataset in dict.fromkeys(c.first.row.dataset for c in comparisons):
        own = [c for c in comparisons if c.first.row.dataset == dataset]
        rows: list[tuple[object, ...]] = []
        for c in own:
            interval = c.difference.interval()
            details = () if interval is None else (f"{interval[0]:+.2f} to {interval[1]:+.2f}",)
            rows.append(
                (
                    f"{row_label(c.first.row)} minus {row_label(c.second.row)}",
                    c.first.row.protocol,
                    TableCell(f"{c.means[0]:.2f}", (_effort(c.first),)),
                    TableCell(f"{c.means[1]:.2f}", (_effort(c.second),)),
                    TableCell(f"{c.difference.mean:+.2f}", details, c.verdict),
                    c.verdict,
                )
            )
        name = dataset_name(dataset)
        header = (name, "protocol", "first", "second", "difference", "verdict")
        n_splits = len(own[0].difference.values)
        blocks.append(table(header, rows, f"{name}, {n_splits} splits."))
    return blocks


def _effort(result: Result) -> str:
    """How many candidates and seeds the selection used."""
    seeds = result.n_selection_seeds
    return f"{result.n_candidates} x {seeds} seed{'s' if seeds > 1 else ''}"


def _figure1(results: list[Result]) -> list[Block]:
    blocks: list[Block] = [
        Text(
            "Test accuracy of GPCANet with 128 hidden units. The paper describes a diagonal in its "
            "figure (which has no numbers): more layers act like a larger alpha."
        )
    ]
    for dataset, own in _by_dataset(results):
        at = {(r.row.layers, r.row.alpha): f"{r.mean:.1f}" for r in own}
        alphas = sorted({r.row.alpha for r in own if r.row.alpha is not None})
        depths = sorted({r.row.layers for r in own if r.row.layers is not None})
        rows: list[tuple[object, ...]] = [
            (layers_label(depth), *(at.get((depth, alpha), "") for alpha in alphas))
            for depth in depths
        ]
        header = (dataset_name(dataset), *(f"alpha {alpha:g}" for alpha in alphas))
        blocks += _figures("figure1", dataset, results)
        blocks.append(table(header, rows, _figure1_caption(own)))
    return blocks


def _figure1_caption(own: list[Result]) -> str:
    row, pool, seeds = own[0].row, own[0].pool, len(own[0].values)
    candidates = row_specs("figure1", row.protocol, pool, row.dataset)[0].candidates
    setting = f"the best of {len(candidates)} settings"
    if len(candidates) == 1:
        only = candidates[0]
        setting = (
            f"{only['hidden']} hidden units, weight decay {only['weight_decay']:g}, dropout "
            f"{only['dropout']:g}"
        )
    return (
        f"{dataset_name(row.dataset)}, public split, {_pools(own)}: {setting}; mean over "
        f"{seeds} seed{'s' if seeds > 1 else ''}."
    )


def _histograms(results: list[Result]) -> list[Block]:
    blocks: list[Block] = []
    for dataset, own in _by_dataset(results):
        rows: list[tuple[object, ...]] = [
            (
                row_label(r.row),
                len(r.values),
                mean_and_sd(r),
                "" if r.interval is None else f"{r.interval[0]:.2f} to {r.interval[1]:.2f}",
                f"{min(r.values):.1f}",
                f"{max(r.values):.1f}",
            )
            for r in own
        ]
        name = dataset_name(dataset)
        header = (name, "seeds", "mean (sd)", "95 % interval", "minimum", "maximum")
        caption = f"{name}, public split, {_pools(own)}.{_early_stopping(own)}"
        blocks += [*_figures("histograms", dataset, results), table(header, rows, caption)]
    return blocks


def _fewer(results: list[Result]) -> list[Block]:
    blocks: list[Block] = [
        Text(
            "After a figure that is commented out in the source of the paper (there: one percent "
            "of the labels of ogbn-arxiv and ogbn-products). The training set is reduced to the "
            "first nodes of each class in the public split. Settings are those selected with all "
            "labels; the deviation is over seeds only."
        )
    ]
    for dataset, own in _by_dataset(results):
        at = {(r.row.layers, r.row.init, r.row.labels_per_class): r for r in own}
        labels = sorted({r.row.labels_per_class for r in own if r.row.labels_per_class})
        rows: list[tuple[object, ...]] = []
        for layers, init in dict.fromkeys((r.row.layers, r.row.init) for r in own):
            found = [at.get((layers, init, count)) for count in labels]
            label = f"{layers_label(layers or 0)}, {INIT_NAMES[init or '']}"
            rows.append((label, *(mean_and_sd(r) if r else "" for r in found)))
        name = dataset_name(dataset)
        header = (name, *(f"{count} labels per class" for count in labels))
        blocks += _figures("fewer", dataset, results)
        blocks.append(table(header, rows, f"{name}, {_pools(own)}."))
    return blocks


def _scale(results: list[Result]) -> list[Block]:
    rows: list[tuple[object, ...]] = [
        (
            row_label(r.row),
            dataset_name(r.row.dataset),
            f"{r.seconds_per_run:.0f} s",
            f"{r.mean:.1f}",
        )
        for r in results
    ]
    return [
        Text(
            "NOT THE REAL DATA: block models with the nodes, features and classes of ogbn-arxiv "
            "and ogbn-products and about as many edges; GPCA with 64 components and a two-layer "
            "head trained for 50 epochs, GCNs trained for 5 epochs. The table shows that graphs of "
            "this size can be processed and how long a worker took. Its accuracies cannot be "
            "compared with the paper's."
        ),
        table(("run", "graph", "seconds", "accuracy on this graph"), rows),
    ]


CAPTIONS = {
    "curves": (
        "Validation accuracy by epoch for each initialisation",
        "validation accuracy by epoch, mean over seeds, shallowest and deepest network.",
    ),
    "figure1": ("Heat map of accuracy by layers and alpha", "test accuracy in %."),
    "histograms": (
        "Histograms of test accuracy over seeds",
        "test accuracy over seeds, Xavier and GPCA initialisation.",
    ),
    "fewer": (
        "Accuracy by labels per class",
        "test accuracy by labels per class, mean and standard deviation over seeds.",
    ),
}

SECTIONS: dict[str, Callable[[list[Result]], list[Block]]] = {
    "table1": _protocol_tables,
    "table2": _protocol_tables,
    "table3": _protocol_tables,
    "table4": _depths,
    "random": _random,
    "figure1": _figure1,
    "histograms": _histograms,
    "fewer": _fewer,
    "scale": _scale,
}
