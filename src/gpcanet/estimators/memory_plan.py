"""Memory of a fit: how much it takes, and how to stay within a limit.

All numbers are bytes beyond the graph and X as given, and beyond the memory of compiled code.
"""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import Any, Literal, NamedTuple

from ..errors import InputTypeError, ParameterError
from ..linalg import lanczos_vectors
from ..linalg.features import CHUNK_BYTES, KEPT_BYTES
from ..linalg.operators.propagation import MATERIALIZED_BYTES
from ..linalg.parallel import WORKERS

#: Bytes per node of the arrays that the propagation holds; measured as peak resident memory.
BYTES_PER_NODE = 36

#: Bytes per node that computing and keeping a node ordering adds; also measured.
BYTES_PER_ORDERED_NODE = 24

#: Chunks of rows in memory at a time.
CHUNKS = 5

#: Block size of a sparse X without a memory limit.
COLUMNS_PER_BLOCK = 256

#: Block size below which the memory of a node ordering is better spent on wider blocks.
NARROW_COLUMNS = 16

#: Number of steps from which a node ordering pays off; computing it takes longer than 5 steps.
REORDERED_STEPS = 10

#: Entries of the adjacency from which a node ordering pays off.
REORDERED_ENTRIES = 1_000_000

#: Mean degree from which a node ordering pays off. Below it a step mostly reads own rows.
REORDERED_DEGREE = 8

#: Bytes of a block from which a node ordering pays off. A smaller block stays in cache anyway.
REORDERED_BYTES = 2**25

#: How W and Z are computed: from the matrix X^T F, from products with it, or Z from a known W.
Strategy = Literal["formed", "lanczos", "transform"]

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40
}  # fmt: skip


class FitSize(NamedTuple):
    """The sizes that the memory of a fit depends on."""

    n_nodes: int
    n_features: int
    n_components: int
    n_entries: int  # of the adjacency
    entry_bytes: int  # of an index, and of its weight where there is one
    item: int  # bytes of a number of X in the computation
    work_item: int  # bytes of a number while solving
    x_copy: int = 0  # bytes of copies of X: dense, scaled, or in another precision
    sparse_entries: int | None = None  # of X, if it stays sparse
    reorders: bool = False
    strategy: Strategy = "formed"
    blocks: int = 2  # held by the iteration
    refines: bool = False  # whether iterative refinement may be used


class MemoryPlan(NamedTuple):
    """Block size, node ordering, and the memory that they take."""

    columns_per_block: int
    reorder: bool
    keep_centered: bool
    on_disk: bool
    n_bytes: int


def reordering_pays(n_nodes: int, n_entries: int, row_bytes: int) -> bool:
    """Whether a node ordering saves more time in many steps than it takes."""
    return (
        n_entries >= max(REORDERED_ENTRIES, REORDERED_DEGREE * n_nodes)
        and n_nodes * row_bytes >= REORDERED_BYTES
    )


def plan_memory(size: FitSize, limit: int | None = None) -> MemoryPlan:
    """The fastest plan within the limit.

    Raises
    ------
    ParameterError
        If there is none; the message states the smallest possible limit.

    Examples
    --------
    >>> size = FitSize(10**6, 100, 16, 10**7, 4, 4, 4, reorders=True)
    >>> plan_memory(size).columns_per_block
    100
    >>> plan_memory(size, limit=400 * 2**20).columns_per_block
    17
    """
    free = _unlimited(size)
    if limit is None or free.n_bytes <= limit:
        return free
    for reorder in (True, False) if size.reorders else (False,):
        fixed = _fixed(size, reorder=reorder)
        columns = int((limit - fixed) // _per_column(size))
        widest = size.n_components
        if size.strategy == "formed":
            widest = max(size.n_features, size.n_components)
        if columns >= (min(NARROW_COLUMNS, widest) if reorder else 1):
            columns = min(columns, widest)
            return MemoryPlan(columns, reorder, False, True, fixed + columns * _per_column(size))
    least = _fixed(size, reorder=False) + _per_column(size)
    reason = f"is too small for this fit; use at least {format_bytes(least, up=True)}"
    raise ParameterError("memory_limit", format_bytes(limit), reason)


def _unlimited(size: FitSize) -> MemoryPlan:
    n, d, k = size.n_nodes, size.n_features, size.n_components
    is_formed = size.strategy == "formed"
    is_dense = size.sparse_entries is None and is_formed
    columns = d if is_dense else max(k, min(d, COLUMNS_PER_BLOCK)) if is_formed else k
    keeps = size.sparse_entries is None and n * d * size.item <= KEPT_BYTES
    total = _fixed(size, reorder=size.reorders) + (n * d * size.item if keeps else 0)
    if is_dense:
        block = n * d * size.work_item
        # A small X is copied into the operator's variable. A refinement reads it in place and
        # holds F and three blocks in half precision: half a block more than two.
        more = block if block <= MATERIALIZED_BYTES else block // 2 if size.refines else 0
        blocks = max(size.blocks * block + more, block + n * k * size.item)
    else:
        blocks = columns * _per_column(size) + n * k * size.item
    return MemoryPlan(columns, size.reorders, keeps, False, total + blocks)


def _fixed(size: FitSize, *, reorder: bool) -> int:
    """Memory that does not depend on the block size."""
    total = size.n_nodes * BYTES_PER_NODE + CHUNKS * CHUNK_BYTES + size.x_copy
    if reorder:
        total += size.n_nodes * BYTES_PER_ORDERED_NODE + size.n_entries * size.entry_bytes
    if size.entry_bytes > 4:
        total += 12 * size.n_entries  # weights in working precision, and their sums
    if size.sparse_entries is not None:
        total += size.sparse_entries * (size.item + 4 + 16)  # its transpose, and its means
    d, k = size.n_features, size.n_components
    if size.strategy == "transform":
        return total + k * d * size.item
    if size.strategy == "lanczos":
        return total + 8 * lanczos_vectors(d, k) * d
    # Sums in float64, and two products per chunk in progress.
    return total + (32 + 2 * (WORKERS + 1) * size.item) * d**2


def _per_column(size: FitSize) -> int:
    # A column of X or X W, those of the iteration, and a copy in the operator's variable (half of
    # that for a refinement), or one more for the result of a sparse X.
    more = size.item if size.sparse_entries is not None else size.work_item
    return size.n_nodes * (size.item + size.blocks * size.work_item + more)


def parse_bytes(value: Any) -> int:
    """'1.5GiB', '800MB' or a number of bytes."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]+)\s*", value)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            reason = "is not an amount of memory; use '1.5GiB' or '800MB'"
            raise ParameterError("memory_limit", repr(value), reason)
        value = float(match[1]) * unit
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputTypeError(
            f"memory_limit={value!r} must be a number of bytes or text such as '1.5GiB'"
        )
    if value <= 0:
        raise ParameterError("memory_limit", str(value), "must be positive; use None for no limit")
    return int(float(value))


def format_bytes(n_bytes: float, *, up: bool = False) -> str:
    """An amount of memory in GiB or MiB; ``up`` never rounds down."""
    unit, name = (2**30, "GiB") if n_bytes >= 2**30 else (2**20, "MiB")
    digits = 100 if unit == 2**30 else 1
    amount = n_bytes / unit * digits
    return f"{(math.ceil(amount) if up else round(amount)) / digits:g} {name}"
