"""Several summaries as one: what is left of runs whose journals are elsewhere, or gone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from .blocks import Summary
from .entries import POOLS
from .summary import all_entries, comparisons, fingerprint, judged, name_of

Told = dict[str, Any]

NOTHING: Summary = {
    **dict.fromkeys(("numbers", "missing", "failed", "cost", "versions", "machines", "notes"), ()),
    "unreachable": {},
    "total": {"runs": 0, "seconds": 0},
}


def together(summaries: list[Summary]) -> Summary:
    """Of what several tell, the last number of the largest pool counts.

    Numbers of settings that are no more those of this version are left out; all others are
    judged anew. Runs add up, also those of numbers that were replaced.
    """
    whole = reduce(_with, summaries, NOTHING)
    return whole | {"numbers": [judged(number) for number in whole["numbers"]]}


def _with(older: Summary, newer: Summary) -> Summary:
    order: dict[tuple[str, ...], int] = {}
    current = set()
    for entry in all_entries():
        order.setdefault(_key(vars(entry)), len(order))
        current.add((_key(vars(entry)), fingerprint(entry)))
    told: dict[tuple[str, ...], Told] = {}
    for number in [*older["numbers"], *newer["numbers"]]:
        key = _key(number)
        smaller = key in told and POOLS.index(number["pool"]) > POOLS.index(told[key]["pool"])
        if (key, number["of"]) in current and not smaller:
            told[key] = number
    numbers = sorted(told.values(), key=lambda number: order[_key(number)])
    missing = {
        _key(entry): name_of(entry)
        for summary in (newer, older)
        for entry in [*summary["missing"], *summary["numbers"]]
        if _key(entry) in order and _key(entry) not in told
    }
    return {
        "numbers": numbers,
        "comparisons": comparisons(numbers),
        "missing": sorted(missing.values(), key=lambda entry: order[_key(entry)]),
        "unreachable": {**older["unreachable"], **newer["unreachable"]},
        "failed": _each_once([*older["failed"], *newer["failed"]]),
        "cost": _costs(older, newer),
        "total": {name: older["total"][name] + newer["total"][name] for name in older["total"]},
        "versions": _each_once([*older["versions"], *newer["versions"]]),
        "machines": _each_once([*older["machines"], *newer["machines"]]),
        "notes": _each_once([*older["notes"], *newer["notes"]]),
    }


def _key(told: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name_of(told).values())


def _costs(older: Summary, newer: Summary) -> list[Told]:
    """Runs that newer ones replaced altogether are no part of what a table took."""
    costs = {_table(cost): cost for cost in older["cost"]}
    for cost in newer["cost"]:
        table = _table(cost)
        before, now = (
            {_key(number) for number in summary["numbers"] if _table(number) == table}
            for summary in (older, newer)
        )
        if table in costs and not before <= now:
            known = costs[table]
            cost = cost | {name: known[name] + cost[name] for name in ("runs", "seconds")}
        costs[table] = cost
    return list(costs.values())


def _table(told: Told) -> tuple[str, ...]:
    return told["experiment"], told["protocol"], told["dataset"]


def _each_once(told: list[Any]) -> list[Any]:
    return [one for i, one in enumerate(told) if one not in told[:i]]
