"""All that a report tells, as plain data: records and entries in, a small JSON out."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scipy.stats import t as student

from .blocks import init_of
from .cells import Cell, Setup, loading
from .entries import (
    DATASETS,
    EXPERIMENTS,
    GENERATED,
    INIT_NAMES,
    OF_ONE_PROTOCOL,
    POOLS,
    PROTOCOLS,
    Entry,
    Plan,
    entries_of,
    read_toml,
)
from .selection import Records, Sample, paired, reported

#: Points that seeds do not explain: rounding, other libraries, which of near ties is chosen.
TOLERANCE = 0.5

#: Candidates whose validation accuracy is so many points below the best are as good as chosen.
NEAR = 0.5

VERDICT_RULE = (
    "A difference to the published mean is within noise if it is at most the half width of its "
    f"95 % interval by Welch's t, from both standard deviations over seeds, plus {TOLERANCE:g} "
    "points for what seeds do not explain (rounding, libraries, which of near ties is chosen). "
    "Published deviations divide by the number of runs (four, but for GPCANet's five), ours by one "
    "less; the rule allows for that. Those of Table 4 are from the authors' notebook. If none is "
    "known, ours is taken for both sides; what needs no random numbers (one run) counts with 0. Up "
    "to one in twenty may be off by chance alone. Better and worse mean higher and lower than "
    "published, for the baselines, too."
)

#: All depths of GCNs in the pools.
DEPTHS = sorted({n for name in DATASETS for n in Plan("paper", "full", name).values("layers")})

#: Which rows of the random splits are compared, run for run.
COMPARED = [
    ("GPCA", "GCN"),
    ("Supervised GPCA", "GPCA"),
    *[
        (f"{layers} layers, GPCA", f"{layers} layers, {INIT_NAMES[init]}")
        for layers in DEPTHS
        for init in ("xavier", "he", "orthogonal")
    ],
]


def all_entries() -> Iterator[Entry]:
    """Every entry of every experiment, the full pool's before lean's."""
    for experiment in EXPERIMENTS:
        for protocol in PROTOCOLS[:1] if experiment in OF_ONE_PROTOCOL else PROTOCOLS:
            for dataset in GENERATED if experiment == "scale" else DATASETS:
                for pool in POOLS:
                    yield from entries_of(experiment, protocol, pool, dataset)


def evidence(records: Records) -> list[Entry]:
    """Every entry of every experiment, from the largest pool that has been run for it.

    Where none has been finished, from that of which most has been run.
    """
    found: dict[tuple[str, ...], tuple[tuple[bool, int], Entry]] = {}
    for entry in all_entries():
        key = tuple(name_of(vars(entry)).values())
        runs = sum(cell in records for cell in entry.cells_to_choose())
        how_far = reported(entry, records) is not None, runs
        if key not in found or (not found[key][0][0] and how_far > found[key][0]):
            found[key] = how_far, entry
    return list(dict.fromkeys(entry for _, entry in found.values()))


def fingerprint(entry: Entry) -> str:
    """Equal for entries that choose from the same runs and report the same."""
    candidates = [[setup.method, dict(setup.options)] for setup in entry.candidates]
    told = json.dumps([candidates, entry.select, entry.runs], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def noise(published_sd: float | None, published_runs: int, ours: Sample) -> float:
    """The largest difference in points that is within noise (``VERDICT_RULE``)."""
    n = len(ours.values)
    theirs = ours.sd if published_sd is None else published_sd
    parts = [(theirs**2 / published_runs, published_runs - 1), (ours.sd**2 / n, max(n - 1, 1))]
    variance = math.fsum(part for part, _ in parts)
    if variance == 0:
        return TOLERANCE
    freedom = variance**2 / math.fsum(part**2 / free for part, free in parts)
    return float(student.ppf(0.975, freedom)) * math.sqrt(variance) + TOLERANCE


def verdict(difference: float, within: float) -> str:
    """
    >>> verdict(0.4, 1.9), verdict(-2.5, 1.9)
    ('within noise', 'worse')
    """
    if abs(difference) <= within:
        return "within noise"
    return "better" if difference > 0 else "worse"


def summarise(entries: Iterable[Entry], records: Records) -> dict[str, Any]:
    """Numbers, comparisons and curves of whatever has been run, and what has not."""
    entries = list(entries)
    used: dict[Cell, None] = {}
    numbers = []
    costs: dict[tuple[str, str, str], dict[Cell, None]] = {}
    for entry in entries:
        found = reported(entry, records)
        cells = [cell for cell in entry.cells_to_choose() if cell in records]
        if found is not None:
            cells += entry.cells_to_report(found["chosen"])
            numbers.append(_number(entry, found, records))
        cost = costs.setdefault((entry.experiment, entry.protocol, entry.dataset), {})
        cost.update(dict.fromkeys(cells))
        used.update(dict.fromkeys(cells))
    seconds = [records[cell]["seconds"] for cell in used]
    numbers = _without_chance_finds(numbers)
    named = [name_of(number) for number in numbers]
    told = {(n["experiment"], n["protocol"], n["dataset"]) for n in numbers}
    return {
        "numbers": numbers,
        "comparisons": comparisons(numbers),
        "missing": [name for entry in entries if (name := name_of(vars(entry))) not in named],
        "unreachable": {
            name: record["reason"]
            for name in DATASETS
            if (record := records.get(loading(name), {})).get("status") == "failed"
        },
        "failed": _failures(used, records),
        "cost": [
            {
                "experiment": experiment, "protocol": protocol, "dataset": dataset,
                "runs": len(cells),
                "seconds": round(sum(records[cell]["seconds"] for cell in cells), 1),
            }
            for (experiment, protocol, dataset), cells in costs.items()
            if (experiment, protocol, dataset) in told
        ],
        "total": {"runs": len(seconds), "seconds": round(sum(seconds), 1)},
        "versions": _versions(used, records),
        "machines": sorted({records[cell].get("machine", "") for cell in used} - {""}),
        "notes": [],
    }  # fmt: skip


def _without_chance_finds(numbers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what only other experiments' runs have filled in, and too little of it to tell."""

    def tells(experiment: str, dataset: str) -> bool:
        own = [n for n in numbers if (n["experiment"], n["dataset"]) == (experiment, dataset)]
        if experiment == "fewer":  # all labels are a split like any other
            return any("fewer" in n["splits"] for n in own)
        if experiment == "figure1":
            return len(own) >= 4
        if experiment == "table4":  # a way to begin by itself
            return len({init_of(n["row"]) for n in own}) > 1
        return True

    kept = {(n["experiment"], n["dataset"]) for n in numbers}
    kept = {key for key in kept if tells(*key)}
    return [n for n in numbers if (n["experiment"], n["dataset"]) in kept]


def name_of(told: Mapping[str, Any]) -> dict[str, str]:
    """What a number is called by, whatever pool it is chosen from."""
    return {name: told[name] for name in ("experiment", "protocol", "dataset", "row")}


def _number(entry: Entry, found: dict[str, Any], records: Records) -> dict[str, Any]:
    test: Sample = found["test"]
    interval = test.interval()
    number: dict[str, Any] = {
        **name_of(vars(entry)),
        "pool": entry.pool,
        "of": fingerprint(entry),
        "mean": round(test.mean, 3),
        "sd": round(test.sd, 3),
        "interval": None if interval is None else [round(bound, 2) for bound in interval],
        "values": [round(value, 2) for value in test.values],
        "validation": round(found["validation"].mean, 3),
        "splits": sorted({split.split("-")[0] for split, _ in found["runs"]}),
        "candidates": len(entry.candidates),
        "select_seeds": len(entry.select),
        "chosen": _varied(entry, found["chosen"]),
        "best_epoch": statistics.median(found["best_epochs"]),
        "seconds_a_run": round(statistics.fmean(r["seconds"] for r in found["records"]), 2),
        "failed": found["failed"],
    }
    if entry.experiment == "random":
        number["runs"] = [f"{split}/{seed}" for split, seed in found["runs"]]
    if (near := _near_ties(entry, found["chosen"], records)) is not None:
        number["near"] = near
    if entry.experiment == "table4":
        depths = Plan(entry.protocol, entry.pool, entry.dataset).depths
        if found["chosen"]["layers"] in (min(depths), max(depths)):
            number["curves"] = [
                [[epoch, round(100 * accuracy, 1)] for epoch, _, accuracy in record["curve"]]
                for record in found["records"]
            ]
    return judged(number)


def judged(number: dict[str, Any]) -> dict[str, Any]:
    """The same beside the published number, if there is one."""
    told = read_toml("published")
    table = told.get(number["experiment"], {})
    published = table.get(number["dataset"], {}).get(number["row"])
    if published is None:
        return number
    test = Sample(tuple(number["values"]))
    runs = told["runs_of"].get(number["row"], told["runs"])
    # Theirs divides by the number of runs.
    sd = published[1] * math.sqrt(runs / (runs - 1)) if len(published) > 1 else None
    difference, within = test.mean - published[0], noise(sd, runs, test)
    return number | {
        "published": published,
        "difference": round(difference, 3),
        "noise": round(within, 3),
        "verdict": verdict(difference, within),
    }


def _near_ties(entry: Entry, chosen: Setup, records: Records) -> list[float] | None:
    """How far the choice decides: settings nearly as good by validation, and their test range."""
    means = {}
    for setup in entry.candidates:
        found = [records.get(setup.cell(*run), {}).get("accuracy") for run in entry.select]
        if all(found):
            validation, test = (
                100 * statistics.fmean(accuracy[part] for accuracy in found if accuracy)
                for part in ("validation", "test")
            )
            means[setup] = validation, test
    if chosen not in means or len(means) < 2:
        return None
    tests = [test for validation, test in means.values() if validation >= means[chosen][0] - NEAR]
    return [len(tests), round(min(tests), 2), round(max(tests), 2)] if len(tests) > 1 else None


def _varied(entry: Entry, chosen: Setup) -> dict[str, Any]:
    """Of the setting chosen, what the candidates differ in."""
    return {
        name: value
        for name, value in chosen.options
        if len({setup.get(name) for setup in entry.candidates}) > 1
    }


def comparisons(numbers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Paired differences on random splits, with their confidence intervals."""
    rows = {
        (number["protocol"], number["dataset"], number["row"]): number
        for number in numbers
        if number["experiment"] == "random"
    }
    found = []
    for protocol, dataset in dict.fromkeys((key[0], key[1]) for key in rows):
        for one, other in COMPARED:
            a = rows.get((protocol, dataset, one))
            # The GCN beside GPCA is the paper's, whatever the protocol.
            b = rows.get(("paper" if other == "GCN" else protocol, dataset, other))
            if a is None or b is None:
                continue
            of_a, of_b = (dict(zip(n["runs"], n["values"], strict=True)) for n in (a, b))
            common = [run for run in of_a if run in of_b]  # a run that failed has no partner
            if not common:
                continue
            difference = paired([of_a[run] for run in common], [of_b[run] for run in common])
            interval = difference.interval()
            low, high = interval if interval is not None else (-math.inf, math.inf)
            found.append(
                {
                    "protocol": protocol, "dataset": dataset, "one": one, "other": other,
                    "means": [
                        round(statistics.fmean(of[run] for run in common), 2) for of in (of_a, of_b)
                    ],
                    "tried": [_tried(a), _tried(b)],
                    "difference": round(difference.mean, 2),
                    "interval": None if interval is None else [round(low, 2), round(high, 2)],
                    "splits": len(difference.values),
                    "verdict": "within noise" if low <= 0 <= high
                    else "better" if low > 0 else "worse",
                }
            )  # fmt: skip
    return found


def _tried(number: dict[str, Any]) -> str:
    """How much choosing went into a number: unequal efforts are to be seen."""
    seeds = number["select_seeds"]
    return f"{number['candidates']} x {seeds} seed{'s' if seeds > 1 else ''}"


def _failures(used: Iterable[Cell], records: Records) -> list[dict[str, Any]]:
    return [
        {"cell": cell.to_json(), "reason": records[cell]["reason"]}
        for cell in used
        if records[cell]["status"] == "failed"
    ]


def _versions(used: Iterable[Cell], records: Records) -> list[dict[str, str]]:
    """Each set of versions that took part, once."""
    seen = {tuple(sorted(records[cell].get("versions", {}).items())) for cell in used}
    return [dict(items) for items in sorted(seen)]
