"""Compiled kernels: the fused propagation step, and operations on whole blocks.

Kernels work on the rows from ``begin`` to ``end`` of C-contiguous ``(n, d)`` blocks;
``parallel_rows`` runs them in threads. The result does not depend on the number of threads: each
row is summed by one thread in the order of its entries.

Blocks in half precision are passed as uint16, since numba has no float16 on CPUs, and are summed
in float32. Kernels do not check their arguments.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from .blocks import CACHE_LINE_BYTES
from .compilation import compiled

#: Number of entries ahead at which rows of F are prefetched into the L2 cache.
L2_PREFETCH_DISTANCE = 24

#: The same for the L1 cache, which can wait for few cache lines at a time.
L1_PREFETCH_DISTANCE = 8

#: Parts of a sum over rows. A fixed number makes rounding independent of the threads.
N_PARTS = 64


class LazyBlock(NamedTuple):
    """A block that is computed from X when it is read.

    Row i is ``(values[order[i]] - shift) * row_scale[i] * column_scale``. It takes the place of a
    block that kernels only read, and saves its memory. ``values`` in half precision are uint16.
    """

    values: Any
    order: Any
    shift: Any
    row_scale: Any
    column_scale: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape


def _make_prefetch(locality):
    """Function that prefetches ``array[row, column]``: locality 3 into L1, locality 2 into L2."""

    @intrinsic
    def prefetch(typing_context, array, row, column):
        def emit(context, builder, signature, arguments):
            array_type = signature.args[0]
            view = context.make_array(array_type)(context, builder, arguments[0])
            address = cgutils.get_item_pointer(
                context, builder, array_type, view, list(arguments[1:]), wraparound=False
            )
            flag = ir.IntType(32)
            function = builder.module.declare_intrinsic(
                "llvm.prefetch",
                (cgutils.voidptr_t,),
                ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, flag, flag, flag]),
            )
            pointer = builder.bitcast(address, cgutils.voidptr_t)
            for_reading, data_cache = flag(0), flag(1)
            builder.call(function, [pointer, for_reading, flag(locality), data_cache])
            return context.get_dummy_value()

        return types.void(array, types.intp, types.intp), emit

    return prefetch


_prefetch_far, _prefetch_near = _make_prefetch(2), _make_prefetch(3)


@intrinsic
def _half_to_single(typing_context, bits):
    def emit(context, builder, signature, arguments):
        half = builder.bitcast(arguments[0], ir.HalfType())
        return builder.fpext(half, ir.FloatType())

    return types.float32(types.uint16), emit


@intrinsic
def _single_to_half(typing_context, number):
    def emit(context, builder, signature, arguments):
        half = builder.fptrunc(arguments[0], ir.HalfType())
        return builder.bitcast(half, ir.IntType(16))

    return types.uint16(types.float32), emit


def _load(block, i, j):
    """block[i, j] in the precision of sums."""


def _store(block, i, j, number):
    """block[i, j] = number, rounded to the precision of the block."""


@overload(_load, inline="always")
def _overload_load(block, i, j):
    if isinstance(block, nb.types.NamedTuple):

        def load(block, i, j):
            centered = _load(block.values, block.order[i], j) - block.shift[j]
            return centered * block.row_scale[i] * block.column_scale[j]

        return load
    if block.dtype == types.uint16:
        return lambda block, i, j: _half_to_single(block[i, j])
    return lambda block, i, j: block[i, j]


@overload(_store, inline="always")
def _overload_store(block, i, j, number):
    if block.dtype == types.uint16:

        def store(block, i, j, number):
            block[i, j] = _single_to_half(number)
    else:

        def store(block, i, j, number):
            block[i, j] = number

    return store


@compiled(fastmath={"contract"})
def step(begin, end, indptr, indices, weights, row_scale, diagonal, F, X, out, a, b, c, own):
    """out <- a (row_scale * (A + I) F + diagonal * F) + b X + c out + own F.

    ``weights`` is None for an unweighted graph; numba then compiles the first branches only.
    """
    d = F.shape[1]
    last, line = len(indices) - 1, CACHE_LINE_BYTES // F.itemsize
    total = np.empty(d, row_scale.dtype)
    for i in range(np.uint64(begin), np.uint64(end)):  # unsigned: no test for negative indices
        e, stop = indptr[i], indptr[i + 1]
        for j in range(d):
            total[j] = _load(F, i, j)
        while e < stop:
            # Four neighbours at a time: a quarter of the passes over the running total.
            count = 4 if e + 4 <= stop else 1
            # Not in a function of its own: numba would count a reference to F in every call.
            for ahead in range(e, e + count):
                far = indices[min(ahead + L2_PREFETCH_DISTANCE, last)]
                near = indices[min(ahead + L1_PREFETCH_DISTANCE, last)]
                for j in range(0, d, line):
                    _prefetch_far(F, far, j)
                    _prefetch_near(F, near, j)
            p = indices[e]
            if count == 4:
                q, r, s = indices[e + 1], indices[e + 2], indices[e + 3]
                if weights is None:
                    for j in range(d):
                        total[j] += (_load(F, p, j) + _load(F, q, j)) + (
                            _load(F, r, j) + _load(F, s, j)
                        )
                else:
                    wp, wq, wr, ws = weights[e], weights[e + 1], weights[e + 2], weights[e + 3]
                    for j in range(d):
                        total[j] += (wp * _load(F, p, j) + wq * _load(F, q, j)) + (
                            wr * _load(F, r, j) + ws * _load(F, s, j)
                        )
            elif weights is None:
                for j in range(d):
                    total[j] += _load(F, p, j)
            else:
                for j in range(d):
                    total[j] += weights[e] * _load(F, p, j)
            e += count
        scale, own_scale = a * row_scale[i], a * diagonal[i] + own
        if c == 0:  # out may be uninitialised memory, and 0 * NaN is NaN
            for j in range(d):
                value = scale * total[j] + own_scale * _load(F, i, j) + b * _load(X, i, j)
                _store(out, i, j, value)
        else:
            for j in range(d):
                value = scale * total[j] + own_scale * _load(F, i, j) + b * _load(X, i, j)
                _store(out, i, j, value + c * _load(out, i, j))


@compiled(fastmath={"contract"})
def partial_dots(begin, end, n, U, V, mass, parts):
    """parts[p] <- sum over the rows of part p of mass * U * V, for every column.

    ``begin`` and ``end`` are numbers of parts; ``parts`` is float64 and zero.
    """
    n_parts, d = parts.shape
    for part in range(begin, end):
        for i in range(part * n // n_parts, (part + 1) * n // n_parts):
            for j in range(d):
                parts[part, j] += np.float64(mass[i]) * _load(U, i, j) * _load(V, i, j)


@compiled()
def partial_max_abs(begin, end, n, block, parts):
    """parts[p] <- largest absolute value in the rows of part p, for every column."""
    n_parts, d = parts.shape
    for part in range(begin, end):
        for i in range(part * n // n_parts, (part + 1) * n // n_parts):
            for j in range(d):
                parts[part, j] = max(parts[part, j], abs(_load(block, i, j)))


@compiled(fastmath={"contract"})
def combine(begin, end, Y, y_scale, Z, z_scale):
    """Y <- y_scale * Y + z_scale * Z with one scale per column; Z may be in half precision."""
    for i in range(begin, end):
        for j in range(Y.shape[1]):
            Y[i, j] = y_scale[j] * Y[i, j] + z_scale[j] * _load(Z, i, j)


@compiled(fastmath={"contract"})
def rescale(begin, end, block, scale, out):
    """out <- block times one scale per column; both may be in half precision."""
    for i in range(begin, end):
        for j in range(out.shape[1]):
            _store(out, i, j, scale[j] * _load(block, i, j))


@compiled()
def gather(block, rows, row_scale, column_scale, out):
    """out <- these rows of a block, divided by the scales of their rows and columns."""
    for t in range(len(rows)):
        i = rows[t]
        for j in range(block.shape[1]):
            out[t, j] = _load(block, i, j) / (row_scale[i] * column_scale[j])


@compiled(fastmath={"contract"})
def add_terms(begin, end, terms, factors, sums):
    """sums[i] <- sums[i] + sum over j of factors[i, j] terms[j], for stacks of blocks."""
    n_sums, _, d = sums.shape
    for row in range(begin, end):
        for i in range(n_sums):
            # Four terms at a time: a quarter of the passes over the running sum.
            j = 0
            while j + 4 <= len(terms):
                p, q, r, s = factors[i, j], factors[i, j + 1], factors[i, j + 2], factors[i, j + 3]
                for column in range(d):
                    sums[i, row, column] += (
                        p * terms[j, row, column] + q * terms[j + 1, row, column]
                    ) + (r * terms[j + 2, row, column] + s * terms[j + 3, row, column])
                j += 4
            while j < len(terms):
                for column in range(d):
                    sums[i, row, column] += factors[i, j] * terms[j, row, column]
                j += 1
