"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown, numbers to the right.

    Examples
    --------
    >>> print(table(("", "time"), [("ours", "1 s")]))
    | | time |
    |---|---:|
    | ours | 1 s |
    """
    lines = [_row(header), "|---|" + "---:|" * (len(header) - 1)]
    return "\n".join(lines + [_row(row) for row in rows])


def _row(cells: Iterable[str]) -> str:
    # What stands in a reason must not end a cell.
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return "|" + "|".join(f" {cell} " if cell else " " for cell in escaped) + "|"
