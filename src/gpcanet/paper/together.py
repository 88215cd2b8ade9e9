"""Several summaries as one: what is left of runs whose journals are elsewhere, or gone."""

from __future__ import annotations

from typing import Any

from .blocks import Summary
from .summary import comparisons, evidence

Told = dict[str, Any]


def together(summaries: list[Summary]) -> Summary:
    """Of what several tell, the last one's number counts. Runs add up, also of numbers replaced."""
    first, *others = summaries
    for other in others:
        first = _with(first, other)
    return first


def _with(older: Summary, newer: Summary) -> Summary:
    told = {_key(number): number for number in [*older["numbers"], *newer["numbers"]]}
    order = {_key(vars(entry)): i for i, entry in enumerate(evidence({}))}
    numbers = sorted(told.values(), key=lambda number: order.get(_key(number), len(order)))
    still = {_key(entry) for entry in newer["missing"]} - set(told)
    return {
        "numbers": numbers,
        "comparisons": comparisons(numbers),
        "missing": [entry for entry in older["missing"] if _key(entry) in still],
        "unreachable": {**older["unreachable"], **newer["unreachable"]},
        "failed": [*older["failed"], *newer["failed"]],
        "cost": _costs(older, newer),
        "total": {name: older["total"][name] + newer["total"][name] for name in older["total"]},
        "versions": _each_once([*older["versions"], *newer["versions"]]),
        "machines": _each_once([*older["machines"], *newer["machines"]]),
        "notes": _each_once([*older["notes"], *newer["notes"]]),
    }


def _key(told: Told) -> tuple[str, ...]:
    return told["experiment"], told["protocol"], told["dataset"], told["row"]


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
