"""The hot loops: a fused CSR step, and what solvers do to whole blocks.

All work on C-contiguous ``(n, d)`` blocks, treat every column alike, and give the
same bits whatever the number of threads: a row is summed by one thread in the order of
its entries, and reductions go over chunks whose size does not depend on the threads.

Blocks may be in half precision, as the bits of their numbers (uint16, for numba knows no
float16 on a CPU). They are summed in single precision: half the memory to read is what
makes it faster.

Arrays are trusted here; the callers check them. Compiled code is cached on disk.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from .compilation import compiled
from .propagation import CACHE_LINE_BYTES

#: Rows a thread takes at a time: few enough that a chunk with a hub does not hold up the rest.
ROWS_PER_CHUNK = 128

#: How many entries ahead of their use the rows of F are called into the cache of the second level,
#: which can wait for many lines at a time, and from there into that of the first, which cannot.
FAR, NEAR = 24, 8

#: Parts a sum over rows is cut into: more than a laptop has cores.
N_PARTS = 64

# GNU's OpenMP, numba's first choice on Linux, hangs in a child process that is forked after its
# threads have started (multiprocessing, joblib). The other layers are as quick.
if nb.config.THREADING_LAYER == "default":
    nb.config.THREADING_LAYER = "forksafe"

_launch = threading.Lock()


class Source(NamedTuple):
    """A block that is read where it lies: (values - shift), rows in another order, rescaled.

    Row i is row ``order[i]`` of ``values``. Kernels take it in place of a block they only read,
    which saves the memory of that block.
    """

    values: Any
    order: Any
    shift: Any
    row_scale: Any
    column_scale: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape


@contextmanager
def parallel_launch() -> Iterator[None]:
    """Hold this around every call of a parallel kernel.

    numba's fallback threading layer aborts the process when two Python threads launch parallel
    kernels at once, so launches take turns; each uses all cores, so nothing is lost. Chunks are
    handed out one by one because rows of real graphs differ a thousandfold in length.
    """
    with _launch, nb.parallel_chunksize(1):
        yield


def _prefetch_into(locality):
    """Make a function that asks the CPU for the cache line of ``array[row, column]``.

    3 is for all levels of the cache, 2 for all but the first. No value changes.
    """

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
            for_reading, data_cache = flag(0), flag(1)
            builder.call(
                function,
                [
                    builder.bitcast(address, cgutils.voidptr_t),
                    for_reading,
                    flag(locality),
                    data_cache,
                ],
            )
            return context.get_dummy_value()

        return types.void(array, types.intp, types.intp), emit

    return prefetch


_prefetch_far, _prefetch_near = _prefetch_into(2), _prefetch_into(3)


@nb.njit(inline="always")
def _prefetch_rows(F, indices, e):
    """For the entry e, call in the rows that are wanted ``FAR`` and ``NEAR`` entries later."""
    last = len(indices) - 1
    far, near = indices[min(e + FAR, last)], indices[min(e + NEAR, last)]
    for j in range(0, F.shape[1], CACHE_LINE_BYTES // F.itemsize):
        _prefetch_far(F, far, j)
        _prefetch_near(F, near, j)


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
            centred = block.values[block.order[i], j] - block.shift[j]
            return centred * block.row_scale[i] * block.column_scale[j]

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


@compiled(parallel=True, fastmath={"contract"})
def step(indptr, indices, weights, row_scale, diagonal, F, X, out, a, b, c, stay):
    """out <- a (row_scale * (A + I) F + diagonal * F) + b X + c out + stay * F.

    ``weights`` is None for a graph whose edges all weigh 1; numba drops the other branch then.
    """
    n, d = F.shape
    for chunk in nb.prange((n + ROWS_PER_CHUNK - 1) // ROWS_PER_CHUNK):
        total = np.empty(d, row_scale.dtype)
        for i in range(chunk * ROWS_PER_CHUNK, min(n, (chunk + 1) * ROWS_PER_CHUNK)):
            e, end = indptr[i], indptr[i + 1]
            for j in range(d):
                total[j] = _load(F, i, j)
            # Four neighbours at a time: a quarter of the passes over the running total.
            while e + 4 <= end:
                for ahead in range(e, e + 4):
                    _prefetch_rows(F, indices, ahead)
                p, q, r, s = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
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
                e += 4
            while e < end:
                _prefetch_rows(F, indices, e)
                p = indices[e]
                if weights is None:
                    for j in range(d):
                        total[j] += _load(F, p, j)
                else:
                    for j in range(d):
                        total[j] += weights[e] * _load(F, p, j)
                e += 1
            scale, own = a * row_scale[i], a * diagonal[i] + stay
            if c == 0:  # out may be uninitialised memory, and 0 * NaN is NaN
                for j in range(d):
                    value = scale * total[j] + own * _load(F, i, j) + b * _load(X, i, j)
                    _store(out, i, j, value)
            else:
                for j in range(d):
                    value = scale * total[j] + own * _load(F, i, j) + b * _load(X, i, j)
                    _store(out, i, j, value + c * _load(out, i, j))


@compiled(parallel=True, fastmath={"contract"})
def partial_dots(U, V, mass, parts):
    """Per column, the sum over rows of mass * U * V; part p of the rows goes to parts[p].

    ``parts`` is float64 and zero. Its length, not the number of threads, fixes the rounding.
    """
    n = len(mass)
    n_parts, d = parts.shape
    for part in nb.prange(n_parts):
        for i in range(part * n // n_parts, (part + 1) * n // n_parts):
            for j in range(d):
                parts[part, j] += np.float64(mass[i]) * _load(U, i, j) * _load(V, i, j)


@compiled(parallel=True)
def partial_extents(X, n, parts):
    """Per column, the largest size among part p of the n rows, in parts[p], zero before."""
    n_parts, d = parts.shape
    for part in nb.prange(n_parts):
        for i in range(part * n // n_parts, (part + 1) * n // n_parts):
            for j in range(d):
                parts[part, j] = max(parts[part, j], abs(_load(X, i, j)))


@compiled(parallel=True, fastmath={"contract"})
def combine(Y, y_scale, Z, z_scale):
    """Y <- y_scale * Y + z_scale * Z with one scale per column, in place; Z may be in half."""
    n, d = Y.shape
    for chunk in nb.prange((n + ROWS_PER_CHUNK - 1) // ROWS_PER_CHUNK):
        for i in range(chunk * ROWS_PER_CHUNK, min(n, (chunk + 1) * ROWS_PER_CHUNK)):
            for j in range(d):
                Y[i, j] = y_scale[j] * Y[i, j] + z_scale[j] * _load(Z, i, j)


@compiled(parallel=True, fastmath={"contract"})
def rescale(source, scale, out):
    """out <- source times one scale per column; either may be in half precision."""
    n, d = out.shape
    for chunk in nb.prange((n + ROWS_PER_CHUNK - 1) // ROWS_PER_CHUNK):
        for i in range(chunk * ROWS_PER_CHUNK, min(n, (chunk + 1) * ROWS_PER_CHUNK)):
            for j in range(d):
                _store(out, i, j, scale[j] * _load(source, i, j))


@compiled(nogil=True)
def gather(block, rows, row_scale, column_scale, out):
    """out <- the given rows of block, each divided by its row's and its column's scale.

    On one thread: callers have several chunks of rows in work at a time.
    """
    for t in range(len(rows)):
        i = rows[t]
        for j in range(block.shape[1]):
            out[t, j] = _load(block, i, j) / (row_scale[i] * column_scale[j])


@compiled(parallel=True, fastmath={"contract"})
def add_terms(terms, factors, sums):
    """sums[i] <- sums[i] + sum over j of factors[i, j] terms[j], for stacks of blocks."""
    n_sums, n, d = sums.shape
    for chunk in nb.prange((n + ROWS_PER_CHUNK - 1) // ROWS_PER_CHUNK):
        for row in range(chunk * ROWS_PER_CHUNK, min(n, (chunk + 1) * ROWS_PER_CHUNK)):
            for i in range(n_sums):
                # Four at a time: a quarter of the passes over the running sum.
                j = 0
                while j + 4 <= len(terms):
                    p, q, r, s = (
                        factors[i, j],
                        factors[i, j + 1],
                        factors[i, j + 2],
                        factors[i, j + 3],
                    )
                    for column in range(d):
                        sums[i, row, column] += (
                            p * terms[j, row, column] + q * terms[j + 1, row, column]
                        ) + (r * terms[j + 2, row, column] + s * terms[j + 3, row, column])
                    j += 4
                while j < len(terms):
                    for column in range(d):
                        sums[i, row, column] += factors[i, j] * terms[j, row, column]
                    j += 1
