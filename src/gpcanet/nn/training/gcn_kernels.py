"""Compiled kernels of GCN layers.

Kernels do not check their arguments. Their output shares no memory with their other arguments.
"""

import numpy as np

from ...linalg.operators.compilation import compiled


@compiled(fastmath={"contract"})
def aggregate(indptr, indices, values, F, bias, bits, threshold, scale, out):
    """out <- A F for a CSR matrix A; with a bias, out <- dropout(relu(A F + bias)).

    Entries whose random ``bits`` are below the threshold are dropped; None drops nothing. numba
    compiles only the branches of the arguments that are not None.
    """
    d = F.shape[1]
    total, zero = np.empty(d, F.dtype), F.dtype.type(0)
    for i in range(np.uint64(len(out))):  # unsigned: no test for negative indices
        e, stop = indptr[i], indptr[i + 1]
        for j in range(d):
            total[j] = zero
        while e + 4 <= stop:
            # Four neighbours at a time: a quarter of the passes over the running total.
            p, q, r, s = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
            wp, wq, wr, ws = values[e], values[e + 1], values[e + 2], values[e + 3]
            for j in range(d):
                total[j] += (wp * F[p, j] + wq * F[q, j]) + (wr * F[r, j] + ws * F[s, j])
            e += 4
        while e < stop:
            p, wp = indices[e], values[e]
            for j in range(d):
                total[j] += wp * F[p, j]
            e += 1
        if bias is None:
            for j in range(d):
                out[i, j] = total[j]
        else:
            for j in range(d):
                value = total[j] + bias[j]
                value = zero if value <= zero else value  # NaN stays NaN
                if bits is not None:
                    value = value * scale if bits[i, j] >= threshold else zero
                out[i, j] = value


@compiled()
def mask_gradient(H, G, scale, out):
    """out <- gradient before ReLU and dropout, for the gradient G of their output H."""
    zero = G.dtype.type(0)
    for i in range(np.uint64(len(out))):
        for j in range(G.shape[1]):
            out[i, j] = G[i, j] * scale if H[i, j] > zero else zero
