"""How much memory a fit takes, and how to stay within less.

All in bytes beyond the graph and X as they are given, and beyond what loading compiled code takes.
"""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import Any, NamedTuple

from .errors import InputError, InputTypeError
from .linalg.features import CHUNK_BYTES, KEPT_BYTES
from .linalg.propagation import FETCHED_BYTES
from .linalg.threads import WORKERS

# Measured as peak resident memory over that before the fit: arrays of one number per node that
# the propagation holds, and those that finding and keeping a better order of the nodes adds.
BYTES_PER_NODE, BYTES_PER_ORDERED_NODE = 36, 24

#: Chunks of rows that are in memory at a time.
CHUNKS = 5

#: Columns of a sparse X that are made dense at a time where there is no limit.
COLUMNS_PER_BLOCK = 256

#: Blocks narrower than this read neighbours so inefficiently that the given order of the nodes
#: is put up with, if that makes room for wider ones.
NARROW_COLUMNS = 16

#: Steps from which a better order of the nodes pays: 5 are over before it is made.
REORDERED_STEPS = 10

#: Entries of the adjacency, all and per node, and bytes of a block from which it pays: a smaller
#: block stays in cache, and on a graph with few edges a step reads its own rows, not neighbours'.
REORDERED_ENTRIES, REORDERED_DEGREE, REORDERED_BYTES = 1_000_000, 8, 2**25

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40
}  # fmt: skip


class FitSize(NamedTuple):
    """What the memory of a fit depends on."""

    n_nodes: int
    n_features: int
    n_components: int
    n_entries: int  # of the adjacency
    entry_bytes: int  # of an index, and of its weight where there is one
    item: int  # bytes of a number of X inside
    work_item: int  # bytes of a number while solving
    x_copy: int = 0  # bytes of copies of X made before: dense, or in another precision
    sparse_entries: int | None = None  # of X, if it is kept sparse
    reorders: bool = False
    lanczos: bool = False
    blocks: int = 2  # that the iteration holds at a time
    refines: bool = False  # whether it may be one in half precision, refined


class Plan(NamedTuple):
    """How a fit is to be done, and what it takes."""

    columns_per_block: int
    reorder: bool
    keep_centred: bool
    on_disk: bool
    n_bytes: int


def reordering_pays(n_nodes: int, n_entries: int, row_bytes: int) -> bool:
    """Whether many steps on a graph win back what a better order of its nodes costs."""
    return (
        n_entries >= max(REORDERED_ENTRIES, REORDERED_DEGREE * n_nodes)
        and n_nodes * row_bytes >= REORDERED_BYTES
    )


def plan_fit(size: FitSize, limit: int | None = None) -> Plan:
    """The quickest way that keeps within the limit.

    Raises
    ------
    ValueError
        If there is none; it says the smallest limit that can be met.

    Examples
    --------
    >>> size = FitSize(10**6, 100, 16, 10**7, 4, 4, 4, reorders=True)
    >>> plan_fit(size).columns_per_block
    100
    >>> plan_fit(size, limit=400 * 2**20).columns_per_block
    17
    """
    free = _unlimited(size)
    if limit is None or free.n_bytes <= limit:
        return free
    for reorder in (True, False) if size.reorders else (False,):
        fixed = _fixed(size, reorder=reorder)
        columns = int((limit - fixed) // _per_column(size))
        widest = size.n_components if size.lanczos else max(size.n_features, size.n_components)
        if columns >= (min(NARROW_COLUMNS, widest) if reorder else 1):
            columns = min(columns, widest)
            return Plan(columns, reorder, False, True, fixed + columns * _per_column(size))
    least = _fixed(size, reorder=False) + _per_column(size)
    raise InputError(
        f"memory_limit={tell_bytes(limit)} is less than this fit can do with; give at least "
        f"{tell_bytes(least, up=True)}"
    )


def _unlimited(size: FitSize) -> Plan:
    n, d, k = size.n_nodes, size.n_features, size.n_components
    is_dense = size.sparse_entries is None and not size.lanczos
    columns = d if is_dense else k if size.lanczos else max(k, min(d, COLUMNS_PER_BLOCK))
    keeps = size.sparse_entries is None and n * d * size.item <= KEPT_BYTES
    total = _fixed(size, reorder=size.reorders) + (n * d * size.item if keeps else 0)
    if is_dense:
        block = n * d * size.work_item
        # X as it enters is written down if it is small. A refinement reads it where it lies, and
        # beside F holds three blocks of half the bytes: half a block more than two.
        more = block if block <= FETCHED_BYTES else block // 2 if size.refines else 0
        blocks = max(size.blocks * block + more, block + n * k * size.item)
    else:
        blocks = columns * _per_column(size) + n * k * size.item
    return Plan(columns, size.reorders, keeps, False, total + blocks)


def _fixed(size: FitSize, *, reorder: bool) -> int:
    """What is needed whatever the width of a block."""
    total = size.n_nodes * BYTES_PER_NODE + CHUNKS * CHUNK_BYTES + size.x_copy
    if reorder:
        total += size.n_nodes * BYTES_PER_ORDERED_NODE + size.n_entries * size.entry_bytes
    if size.entry_bytes > 4:
        total += 12 * size.n_entries  # weights in the precision of the steps, and their sums
    if size.sparse_entries is not None:
        total += size.sparse_entries * (size.item + 4 + 16)  # its transpose, and its means
    if size.lanczos:
        return total + 16 * (2 * size.n_components + 1) * size.n_features
    # Sums in float64, and two products of every chunk that is in work.
    return total + (32 + 2 * (WORKERS + 1) * size.item) * size.n_features**2


def _per_column(size: FitSize) -> int:
    # A column of X or X W, those of the iteration, and the same as it enters (a refinement takes
    # half of that), or one more on the way out of a sparse X.
    more = size.item if size.sparse_entries is not None else size.work_item
    return size.n_nodes * (size.item + size.blocks * size.work_item + more)


def parse_bytes(value: Any) -> int:
    """'1.5GiB', '800MB' or a number of bytes."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]+)\s*", value)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise InputError(
                f"memory_limit={value!r} is not an amount of memory; write '1.5GiB' or '800MB'"
            )
        value = float(match[1]) * unit
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputTypeError(
            f"memory_limit={value!r} must be a number of bytes, or text such as '1.5GiB'"
        )
    if value <= 0:
        raise InputError(f"memory_limit={value} must be positive; use None for no limit")
    return int(float(value))


def tell_bytes(n_bytes: float, *, up: bool = False) -> str:
    """An amount of memory as a person would write it; ``up`` never rounds down."""
    unit, name = (2**30, "GiB") if n_bytes >= 2**30 else (2**20, "MiB")
    digits = 100 if unit == 2**30 else 1
    amount = n_bytes / unit * digits
    return f"{(math.ceil(amount) if up else round(amount)) / digits:g} {name}"
