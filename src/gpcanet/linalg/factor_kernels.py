"""The hot loops of ``factored.py``: L E L^T = K, and X^T K^-1 X times a block of eight vectors.

A block has one vector per column and is C-contiguous, so that a row of it is one register (or
two, or four) and a cache line: each entry of a sparse matrix is a load, a multiplication and an
addition. numba makes no such code of loops over eight columns, hence the type ``Row``.

Arrays are trusted here; the callers check them. Compiled code is cached on disk. Nothing holds
Python's lock, and nothing runs in parallel: callers have several matrices in work at a time.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

from .compiled import compiled
from .factored import COLUMNS

_VECTOR = ir.VectorType(ir.DoubleType(), COLUMNS)


class Compressed(NamedTuple):
    """A sparse matrix: indices and values of part i (a row or a column) from indptr[i] on."""

    indptr: Any
    indices: Any
    values: Any


class Features(NamedTuple):
    """rows - left right^T: features less their means, both with each row rescaled."""

    rows: Any
    left: Any
    right: Any


class Matrix(NamedTuple):
    """X^T K^-1 X + left right^T, K = L diag(pivots) L^T."""

    X: Any
    transposed: Any
    L: Any
    pivots: Any
    left: Any
    right: Any


# -- a row of a block as a single value -------------------------------------------------------


class RowType(types.Type):
    def __init__(self):
        super().__init__(name=f"Row({COLUMNS})")


@register_model(RowType)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager, row_type):
        super().__init__(manager, row_type, _VECTOR)


_ROW = RowType()


def _address(context, builder, array_type, array, row):
    view = context.make_array(array_type)(context, builder, array)
    first = ir.Constant(row.type, 0)
    address = cgutils.get_item_pointer(
        context, builder, array_type, view, [row, first], wraparound=False
    )
    return builder.bitcast(address, _VECTOR.as_pointer())


def _repeated(builder, number):
    undefined, lane = ir.Constant(_VECTOR, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(undefined, number, lane(0))
    everywhere = ir.Constant(ir.VectorType(lane, COLUMNS), [0] * COLUMNS)
    return builder.shuffle_vector(first, undefined, everywhere)


@intrinsic
def _at(typing_context, array, i):
    """array[i] for an i that is not negative; numba would look, which takes a third of the time."""

    def emit(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = cgutils.get_item_pointer(
            context, builder, signature.args[0], view, arguments[1:], wraparound=False
        )
        return builder.load(address)

    return array.dtype(array, types.intp), emit


@intrinsic
def _load(typing_context, block, i):
    def emit(context, builder, signature, arguments):
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(address, align=8)

    return _ROW(block, types.intp), emit


@intrinsic
def _store(typing_context, block, i, row):
    def emit(context, builder, signature, arguments):
        address = _address(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], address, align=8)
        return context.get_dummy_value()

    return types.void(block, types.intp, row), emit


@intrinsic
def _scaled(typing_context, factor, row):
    def emit(context, builder, signature, arguments):
        return builder.fmul(_repeated(builder, arguments[0]), arguments[1])

    return row(types.float64, row), emit


@intrinsic
def _sum(typing_context, row, factor, other):
    """row + factor * other."""

    def emit(context, builder, signature, arguments):
        row, factor, other = arguments
        product = builder.fmul(_repeated(builder, factor), other, flags=("contract",))
        return builder.fadd(row, product, flags=("contract",))

    return row(row, types.float64, row), emit


# -- L E L^T ----------------------------------------------------------------------------------


@compiled(nogil=True)
def rows_of_factor(indptr, indices):
    """Where L has entries: for each row its columns, in no order, as indptr and indices.

    Given the entries of K below the diagonal, row by row. Row i of L has an entry in column j if
    K has one there or j is on the way from such a column to the root of the elimination tree,
    in which the parent of a column is the row of its first entry.
    """
    n = len(indptr) - 1
    parent, seen = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    rows, found = np.zeros(n + 1, np.int32), np.empty(max(4 * len(indices), n), np.int32)
    for i in range(n):
        seen[i], size = i, rows[i]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            while seen[j] != i:
                if parent[j] == -1:
                    parent[j] = i
                if size == len(found):
                    found = np.concatenate((found, np.empty(size, np.int32)))
                found[size], seen[j] = j, i
                size += 1
                j = parent[j]
        rows[i + 1] = size
    return rows, found[: rows[n]].copy()


@compiled(nogil=True)
def factorise(K, diagonal, row_indptr, row_indices, L, pivots):
    """L, column by column and without its diagonal of ones, and E = diag(pivots).

    ``K`` has the entries below the diagonal, row by row, and ``row_indices`` where those of L are,
    in ascending order; ``L`` has room for as many.
    """
    n = len(diagonal)
    row, end = np.zeros(n), L.indptr[:n].copy()
    for i in range(n):
        for e in range(K.indptr[i], K.indptr[i + 1]):
            row[K.indices[e]] = K.values[e]
        pivot = diagonal[i]
        for r in range(row_indptr[i], row_indptr[i + 1]):
            j = row_indices[r]
            value, row[j] = row[j], 0.0
            for e in range(L.indptr[j], end[j]):
                row[L.indices[e]] -= L.values[e] * value
            entry = value / pivots[j]
            pivot -= entry * value
            L.indices[end[j]], L.values[end[j]] = i, entry
            end[j] += 1
        pivots[i] = pivot


@compiled(nogil=True)
def substitute(L, pivots, F):
    """F <- K^-1 F."""
    n = len(pivots)
    for j in range(n):
        own = _load(F, j)
        for e in range(L.indptr[j], L.indptr[j + 1]):
            i = _at(L.indices, e)
            _store(F, i, _sum(_load(F, i), -_at(L.values, e), own))
    for j in range(n - 1, -1, -1):
        own = _scaled(1 / pivots[j], _load(F, j))
        for e in range(L.indptr[j], L.indptr[j + 1]):
            own = _sum(own, -_at(L.values, e), _load(F, _at(L.indices, e)))
        _store(F, j, own)


# -- X'^T K^-1 X' ------------------------------------------------------------------------------


@compiled(nogil=True)
def multiply(X, V, out):
    """out <- X V."""
    common = _scaled(0.0, _load(V, 0))
    for j in range(len(X.right)):
        common = _sum(common, X.right[j], _load(V, j))
    for i in range(len(X.left)):
        # Four sums, since each addition waits for the one before it.
        p = _scaled(-X.left[i], common)
        q = r = s = _scaled(0.0, common)
        e, end = X.rows.indptr[i], X.rows.indptr[i + 1]
        while e + 4 <= end:
            p = _sum(p, _at(X.rows.values, e), _load(V, _at(X.rows.indices, e)))
            q = _sum(q, _at(X.rows.values, e + 1), _load(V, _at(X.rows.indices, e + 1)))
            r = _sum(r, _at(X.rows.values, e + 2), _load(V, _at(X.rows.indices, e + 2)))
            s = _sum(s, _at(X.rows.values, e + 3), _load(V, _at(X.rows.indices, e + 3)))
            e += 4
        while e < end:
            p = _sum(p, _at(X.rows.values, e), _load(V, _at(X.rows.indices, e)))
            e += 1
        _store(out, i, _sum(_sum(p, 1.0, q), 1.0, _sum(r, 1.0, s)))


@compiled(nogil=True)
def _add_ghosts(left, right, V, out):
    """out <- out + left right^T V, four columns of them at a time; their number is a multiple."""
    for c in range(0, left.shape[1], 4):
        p = q = r = s = _scaled(0.0, _load(V, 0))
        for j in range(len(right)):
            own = _load(V, j)
            p, q = _sum(p, right[j, c], own), _sum(q, right[j, c + 1], own)
            r, s = _sum(r, right[j, c + 2], own), _sum(s, right[j, c + 3], own)
        for j in range(len(left)):
            own = _sum(_sum(_load(out, j), left[j, c], p), left[j, c + 1], q)
            _store(out, j, _sum(_sum(own, left[j, c + 2], r), left[j, c + 3], s))


@compiled(nogil=True)
def product(M, vectors, shift, twice, blocks, result):
    """result <- (M - shift I) vectors, or that twice over; one vector per row.

    ``blocks`` is the memory for F and for three blocks as long as the vectors.
    """
    F, V, W, out = blocks
    width, d = vectors.shape
    for j in range(d):
        for c in range(COLUMNS):
            V[j, c] = vectors[c, j] if c < width else 0.0
    for _ in range(2 if twice else 1):
        multiply(M.X, V, F)
        substitute(M.L, M.pivots, F)
        multiply(M.transposed, F, out)
        _add_ghosts(M.left, M.right, V, out)
        for j in range(d):
            _store(out, j, _sum(_load(out, j), -shift, _load(V, j)))
        V, out = out, W
    for c in range(width):
        for j in range(d):
            result[c, j] = V[j, c]
