"""A section of the report for every table and figure of the paper."""

from __future__ import annotations

from collections.abc import Callable

from .blocks import (
    Block,
    Box,
    Number,
    Picture,
    Summary,
    Table,
    Text,
    alpha_of,
    called,
    init_of,
    labels_of,
    layers_of,
    mean_sd,
)
from .entries import INIT_NAMES, PROTOCOLS, entries_of, read_toml


def _by_dataset(numbers: list[Number]) -> list[tuple[str, list[Number]]]:
    names = dict.fromkeys(number["dataset"] for number in numbers)
    return [(name, [n for n in numbers if n["dataset"] == name]) for name in names]


def _protocol_tables(numbers: list[Number], summary: Summary, drawn: set[str]) -> list[Block]:
    """A table a dataset: rows of the paper, a column for each protocol."""
    del summary, drawn
    blocks: list[Block] = []
    for dataset, own in _by_dataset(numbers):
        protocols = [name for name in PROTOCOLS if any(n["protocol"] == name for n in own)]
        rows = []
        for row in dict.fromkeys(n["row"] for n in own):
            found = {n["protocol"]: n for n in own if n["row"] == row}
            first = next(iter(found.values()))
            boxes = [_result(found[name]) if name in found else Box("") for name in protocols]
            rows.append((Box(row), _published(first), *boxes))
        rows_told = {n["row"] for n in own}
        gcn = " Under `ours` there is no other GCN than the paper's." if "GCN" in rows_told else ""
        pools = _pools(own)
        blocks.append(
            Table(
                (called(dataset), "published", *protocols),
                tuple(rows),
                f"{called(dataset)}, public split; {pools}.{gcn}",
            )
        )
    return blocks


def _pools(numbers: list[Number]) -> str:
    told = []
    for pool in dict.fromkeys(n["pool"] for n in numbers):
        rows = dict.fromkeys(n["row"].split(",")[0] for n in numbers if n["pool"] == pool)
        told.append(f"pool `{pool}` for {', '.join(rows)}")
    return "; ".join(told)


def _published(number: Number) -> Box:
    value = number.get("published")
    if value is None:
        return Box("")
    return Box(f"{value[0]:.2f}" + (f" ({value[1]:.2f})" if len(value) > 1 else ""))


def _result(number: Number) -> Box:
    details = []
    if number["interval"] is not None:
        details.append("{:.1f} to {:.1f}".format(*number["interval"]))
    if "verdict" in number:
        details.append(f"{number['difference']:+.2f} {number['verdict']}")
    return Box(mean_sd(number), "\n".join(details), number.get("verdict", ""))


def _at_depths(found: dict[str, Number], init: str, depths: list[int]) -> list[Number | None]:
    return [found.get(f"{depth} layers, {init}") for depth in depths]


def _depths(numbers: list[Number], summary: Summary, drawn: set[str]) -> list[Block]:
    """Rows are ways to set the first weights, columns are depths."""
    del summary
    blocks: list[Block] = [
        Text(
            "Beside the paper's two initialisations stand He and orthogonal (gain root 2), which "
            f"it leaves out.{_patience(numbers)}"
        )
    ]
    for dataset, own in _by_dataset(numbers):
        found = {n["row"]: n for n in own}
        depths = sorted({layers_of(row) for row in found})
        rows = []
        for init in INIT_NAMES.values():
            numbers_of = _at_depths(found, init, depths)
            given = [_published(n) if n else Box("") for n in numbers_of]
            if any(box.text for box in given):
                rows.append((Box(f"{init}, published"), *given))
            rows.append((Box(init), *(_result(n) if n else Box("not run") for n in numbers_of)))
        header = (called(dataset), *(f"{depth} layers" for depth in depths))
        n = len(own[0]["values"])
        caption = f"{called(dataset)}, public split, {n} seeds; {_pools_of_depths(own)}."
        blocks += [Table(header, tuple(rows), caption), _epochs(dataset, found, depths)]
        blocks += _picture(drawn, f"curves-{dataset}")
    return blocks


def _patience(numbers: list[Number]) -> str:
    """What an early end may do to networks that rise late."""
    if all(n["pool"] != "lean" for n in numbers):
        return ""
    epochs = read_toml("pools")["lean"]["training"]["patience"]
    return (
        f" With `lean` a run ends {epochs} epochs after the last rise of validation accuracy: of "
        "those that rise late, as deep networks from random weights do, some may have ended too "
        "early, which lowers their mean and widens their spread."
    )


def _pools_of_depths(numbers: list[Number]) -> str:
    return ", ".join(f"pool `{pool}`" for pool in dict.fromkeys(n["pool"] for n in numbers))


def _epochs(dataset: str, found: dict[str, Number], depths: list[int]) -> Block:
    rows = []
    for init in INIT_NAMES.values():
        chosen = [f"{n['best_epoch']:g}" if n else "" for n in _at_depths(found, init, depths)]
        rows.append((Box(init), *map(Box, chosen)))
    header = ("best epoch, median", *(f"{depth} layers" for depth in depths))
    return Table(header, tuple(rows), f"{called(dataset)}: the epoch that validation chose.")


def _random(numbers: list[Number], summary: Summary, drawn: set[str]) -> list[Block]:
    del drawn
    blocks: list[Block] = [
        Text(
            "Twenty nodes a class to train on, 500 to select by, 1000 to test on, drawn anew for "
            "every split from nodes that the public split neither trains nor selects on; settings "
            "are those chosen on the public split, from as many as the table says. Both sides of a "
            "difference ran on the same splits. The interval is Student's, 95 %; splits of one "
            "graph share nodes, so that it is rather too narrow. The GCN beside GPCA is the "
            "paper's in every protocol."
        )
    ]
    for dataset, own in _by_dataset(summary["comparisons"]):
        rows = tuple(
            (
                Box(f"{c['one']} less {c['other']}"),
                Box(c["protocol"]),
                Box(f"{c['means'][0]:.2f}", c["tried"][0]),
                Box(f"{c['means'][1]:.2f}", c["tried"][1]),
                Box(
                    f"{c['difference']:+.2f}",
                    f"{c['interval'][0]:+.2f} to {c['interval'][1]:+.2f}" if c["interval"] else "",
                    c["verdict"],
                ),
                Box(c["verdict"]),
            )
            for c in own
        )
        header = (called(dataset), "protocol", "first", "second", "difference", "verdict")
        blocks.append(Table(header, rows, f"{called(dataset)}, {own[0]['splits']} splits."))
    return blocks


def _figure1(numbers: list[Number], summary: Summary, drawn: set[str]) -> list[Block]:
    del summary
    blocks: list[Block] = [
        Text(
            "Test accuracy of GPCANet, 128 wide, over its layers and alpha. The paper reads a "
            "diagonal from its own picture (which has no numbers): more layers act like a larger "
            "alpha."
        )
    ]
    for dataset, own in _by_dataset(numbers):
        blocks += _picture(drawn, f"figure1-{dataset}")
        found = {n["row"]: n["mean"] for n in own}
        layers = sorted({layers_of(row) for row in found})
        alphas = sorted({alpha_of(row) for row in found})
        rows = tuple(
            (
                Box(f"{depth} layers"),
                *(Box(_shown(found.get(f"{depth} layers, alpha = {a:g}"))) for a in alphas),
            )
            for depth in layers
        )
        header = (called(dataset), *(f"alpha {alpha:g}" for alpha in alphas))
        blocks.append(Table(header, rows, _where_of_figure1(own)))
    return blocks


def _where_of_figure1(own: list[Number]) -> str:
    n = own[0]
    candidates = entries_of("figure1", n["protocol"], n["pool"], n["dataset"])[0].candidates
    setting = f"the best of {len(candidates)} settings"
    if len(candidates) == 1:
        only = candidates[0]
        setting = (
            f"{only['hidden']} wide, weight decay {only['weight_decay']:g}, dropout "
            f"{only['dropout']:g}"
        )
    seeds = len(n["values"])
    return (
        f"{called(n['dataset'])}, public split, {_pools_of_depths(own)}: {setting}; mean of "
        f"{seeds} seed{'s' if seeds > 1 else ''}."
    )


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _histograms(numbers: list[Number], summary: Summary, drawn: set[str]) -> list[Block]:
    del summary
    blocks: list[Block] = []
    for dataset, own in _by_dataset(numbers):
        blocks += _picture(drawn, f"histograms-{dataset}")
        rows = tuple(
            (
                Box(n["row"]),
                Box(str(len(n["values"]))),
                Box(mean_sd(n)),
                Box("" if n["interval"] is None else "{:.2f} to {:.2f}".format(*n["interval"])),
                Box(f"{min(n['values']):.1f}"),
                Box(f"{max(n['values']):.1f}"),
            )
            for n in own
        )
        header = (called(dataset), "seeds", "mean (sd)", "95 % interval", "least", "most")
        where = f"{called(dataset)}, public split, {_pools_of_depths(own)}."
        blocks.append(Table(header, rows, where + _patience(own)))
    return blocks


def _fewer(numbers: list[Number], summary: Summary, drawn: set[str]) -> list[Block]:
    del summary
    blocks: list[Block] = [
        Text(
            "After a figure that the paper's source has commented out (there: a hundredth of the "
            "labels of ogbn-arxiv and ogbn-products). The public training sets cut down to the "
            "first so many nodes of each class; settings are those chosen with all labels, and the "
            "spread is that of seeds alone."
        )
    ]
    for dataset, own in _by_dataset(numbers):
        blocks += _picture(drawn, f"fewer-{dataset}")
        found = {n["row"]: n for n in own}
        labels = sorted({labels_of(row) for row in found})
        rows = []
        for start in dict.fromkeys(f"{layers_of(row)} layers, {init_of(row)}" for row in found):
            boxes = [found.get(f"{start}, {count} labels a class") for count in labels]
            rows.append((Box(start), *(Box(mean_sd(n)) if n else Box("") for n in boxes)))
        header = (called(dataset), *(f"{count} labels a class" for count in labels))
        blocks.append(Table(header, tuple(rows), f"{called(dataset)}, {_pools_of_depths(own)}."))
    return blocks


def _scale(numbers: list[Number], summary: Summary, drawn: set[str]) -> list[Block]:
    del summary, drawn
    rows = tuple(
        (
            Box(n["row"]),
            Box(called(n["dataset"])),
            Box(f"{n['seconds_a_run']:.0f} s"),
            Box(f"{n['mean']:.1f}"),
        )
        for n in numbers
    )
    return [
        Text(
            "NOT THE REAL DATA. Block models with the nodes, features and classes of "
            "ogbn-arxiv and ogbn-products and about as many edges, GPCA 64 wide with a two-layer "
            "head of 50 epochs, GCNs of 5 epochs: that it runs at this size, and how long a worker "
            "took. Their accuracies say nothing about the paper's."
        ),
        Table(("run", "graph", "seconds", "accuracy there"), rows),
    ]


def _picture(drawn: set[str], name: str) -> list[Block]:
    kind, _, dataset = name.partition("-")
    if name not in drawn:
        return []
    alt, caption = CAPTIONS[kind]
    return [Picture(name, f"{alt}, {called(dataset)}", f"{called(dataset)}: {caption}")]


CAPTIONS = {
    "curves": (
        "Validation accuracy over epochs for each initialisation",
        "validation accuracy over epochs, mean over seeds, deepest and shallowest network.",
    ),
    "figure1": ("Heat map of accuracy over layers and alpha", "test accuracy in %."),
    "histograms": (
        "Histograms of test accuracy over seeds",
        "test accuracy over seeds, Xavier and GPCA-initialisation.",
    ),
    "fewer": (
        "Accuracy over labels a class",
        "test accuracy over labels a class, mean and standard deviation over seeds.",
    ),
}

SECTIONS: dict[str, Callable[[list[Number], Summary, set[str]], list[Block]]] = {
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
