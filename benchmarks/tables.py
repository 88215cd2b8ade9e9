"""Numbers and tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Outcome = dict[str, Any]

#: Keys of results that group things and are not names of things.
GROUPS = (
    "methods", "graphs", "generated", "tissues", "over_edges", "over_columns", "first_call",
)  # fmt: skip


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, with all columns but the first aligned to the right.

    Examples
    --------
    >>> print(markdown_table(("", "time"), [("GPCA", "1 s")]))
    | | time |
    |---|---:|
    | GPCA | 1 s |
    """
    lines = [_line(header), "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + [_line(row) for row in rows])


def _line(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return "|" + "|".join(f" {cell} " if cell else " " for cell in escaped) + "|"


def timing_table(
    outcomes: dict[str, Outcome],
    more_header: Sequence[str] = ("first call",),
    more: Callable[[Outcome], Sequence[str]] = lambda outcome: (seconds(outcome["first"]),),
) -> str:
    """Time, ratio to the first method and repeats of each method, and further columns."""
    first = next((found["seconds"] for found in outcomes.values() if "seconds" in found), None)
    rows = []
    for name, found in outcomes.items():
        if "seconds" in found:
            times = seconds(found["seconds"]), ratio(found["seconds"] / first)
            rows.append((name, *times, str(found["repeats"] or ""), *more(found)))
        else:
            status = "skipped" if "skipped" in found else "failed"
            rows.append((name, status, "", "", *([""] * len(more_header))))
    return markdown_table(("", "time", "ratio", "repeats", *more_header), rows)


def omitted(results: Any, name: str = "") -> list[str]:
    """What was skipped or failed anywhere in the results of a part, each reason once."""
    return list(dict.fromkeys(_omitted(results, name)))


def _omitted(results: Any, name: str) -> Iterator[str]:
    if isinstance(results, list):
        for item in results:
            yield from _omitted(item, name)
    elif isinstance(results, dict):
        name = results.get("method", name)
        for status in ("skipped", "failed"):
            if status in results:
                yield f"{name or 'the whole part'}: {status}, {results[status]}"
        for key, item in results.items():
            names = [name] if key in GROUPS else [name, key]
            yield from _omitted(item, ": ".join(filter(None, names)))


def seconds(value: float) -> str:
    """Seconds with three digits, in a suitable unit."""
    if value < 1e-3:
        return f"{value * 1e6:.3g} us"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def gibibytes(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:.2f} GiB"
