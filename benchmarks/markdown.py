"""Numbers and tables as the page shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Outcome = dict[str, Any]


def outcome_rows(
    outcomes: dict[str, Outcome], more: Callable[[Outcome], tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """Name, time, ratio to the first row, repeats and first call of each, and ``more`` of it."""
    first = next((way["seconds"] for way in outcomes.values() if "seconds" in way), None)
    rows: list[tuple[str, ...]] = []
    for name, way in outcomes.items():
        if "seconds" in way:
            times = seconds(way["seconds"]), ratio(way["seconds"] / first)
            row: tuple[str, ...] = (*times, str(way["repeats"]), *more(way))
        else:
            row = ("skipped" if "skipped" in way else "failed",)
        rows.append((name, *row))
    width = max(map(len, rows))
    return [row + ("",) * (width - len(row)) for row in rows]


#: Keys of results that name a kind of thing, not a thing.
KINDS = ("ways", "graphs", "over_edges", "over_columns")


def left_out(found: Any) -> list[str]:
    """All that was skipped or failed, anywhere in the results of a part, each reason once."""
    return list(dict.fromkeys(_left_out(found, "")))


def _left_out(found: Any, name: str) -> Iterator[str]:
    if isinstance(found, list):
        for item in found:
            yield from _left_out(item, name)
    elif isinstance(found, dict):
        name = found.get("way", name)
        for kind in ("skipped", "failed"):
            if kind in found:
                yield f"{name or 'all of it'}: {kind}, {found[kind]}"
        for key, item in found.items():
            names = [name, key] if key not in KINDS else [name]
            yield from _left_out(item, ": ".join(filter(None, names)))


def seconds(value: float) -> str:
    """Three digits, in the unit that suits."""
    if value < 1e-3:
        return f"{value * 1e6:.3g} us"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def gigabytes(count: int) -> str:
    return f"{count / 2**30:.2f} GiB"


def amount(count: int) -> str:
    return f"{count:,}"
