"""Forward and backward pass of a plain GCN on a CPU, without the layers of torch.

A layer is H' = dropout(relu(P H W^T + b)). Bias, ReLU and dropout are fused with the sparse
product, the activations H' are the only stored values (an entry is positive where ReLU and dropout
kept it), and buffers are reused in all epochs.

Only nodes of the split have a loss or an accuracy. The last layers are therefore computed only on
these nodes and their neighbours, and the gradient, which starts from the training nodes, only
where it is not zero.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn.dense.linear import Linear

from ...linalg.parallel import parallel_rows, usable_cores
from ..conv import GCNConv
from ..dropout import LEVELS, Dropout, random_bits
from ..models import GCN
from ..propagation import GraphPropagation
from ..tensors import is_sparse, to_numpy_or_scipy
from .data import NodeData
from .receptive_fields import positions, receptive_fields, submatrices

#: Rows of a tile, whose activations and gradients stay in the L2 cache.
TILE_ROWS = 2048

#: Largest density of features for which the sparse kernel is faster than a dense product.
SPARSE_DENSITY = 0.2


def is_plain_gcn(model: Any, data: NodeData) -> bool:
    """Whether ``GCNPasses`` computes the passes of this model.

    A plain GCN has ReLU, no normalisation layers and no jumping knowledge, and is on a CPU. Models
    with hooks or a replaced ``forward`` must be called by torch.
    """
    if type(model) is not GCN or model.jk_mode is not None or type(model.act) is not torch.nn.ReLU:
        return False
    convs: list[Any] = list(model.convs)
    parameters = list(model.parameters())
    return (
        all(type(conv) is GCNConv and type(conv.lin) is Linear for conv in convs)
        and all(conv.lin.bias is None for conv in convs)
        and len({conv.normalization for conv in convs}) == 1
        and all(type(norm) is torch.nn.Identity for norm in model.norms)
        and type(model.dropout) is Dropout
        and model.dropout.p < 1
        and not any(is_lazy(p) for p in parameters)
        and all(p.device.type == "cpu" and p.dtype == data.x.dtype for p in parameters)
        and data.x.dtype in (torch.float32, torch.float64)
        and data.x.shape[1] == convs[0].lin.weight.shape[1]
        and not any(_is_changed(module) for module in model.modules())
    )


def _is_changed(module: torch.nn.Module) -> bool:
    """Whether a module has hooks or another forward than its class."""
    return bool(
        "forward" in vars(module)
        or module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread in a block; tiles are computed in threads instead."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


class GCNPasses:
    """Passes of a GCN for which ``is_plain_gcn`` holds, over the nodes of a split.

    P has no ghost edges. Without a generator, dropout uses the global random numbers of torch.
    """

    def __init__(
        self,
        model: GCN,
        data: NodeData,
        P: GraphPropagation,
        generator: torch.Generator | None = None,
    ) -> None:
        self.model, self.data, self.generator = model, data, generator
        self.convs: list[Any] = list(model.convs)
        self.dtype = to_numpy_or_scipy(self.convs[0].lin.weight).dtype
        matrix = P.sparse_matrix()[0].astype(self.dtype)
        n_layers = len(self.convs)
        split = np.unique(torch.cat([data.train, data.validation, data.test]).numpy())
        self.rows = receptive_fields(matrix, split, n_layers)
        self.gradient_rows = receptive_fields(matrix, np.sort(data.train.numpy()), n_layers)
        self.forward_matrices = submatrices(matrix, self.rows)
        transposed = sp.csr_array(matrix.T)
        self.backward_matrices = submatrices(transposed, self.gradient_rows[::-1])[::-1]
        self.selections = list(map(positions, self.gradient_rows, self.rows))
        n = data.graph.n_nodes
        sizes = [n if rows is None else len(rows) for rows in self.rows]
        widths = [conv.lin.weight.shape[0] for conv in self.convs]
        self.x, self.x_transposed = _features(data.x, self.dtype, self.rows[0], self.selections[0])
        self.activations = list(map(self._buffer, sizes[1:-1], widths[:-1]))
        self.blocks = [self._buffer(n, max(widths)) for _ in range(2)]
        self.weights = [conv.lin.weight.detach().numpy() for conv in self.convs]
        self.biases = [
            np.zeros(len(W), self.dtype) if conv.bias is None else conv.bias.detach().numpy()
            for conv, W in zip(self.convs, self.weights, strict=True)
        ]
        self.n_threads = min(usable_cores(), torch.get_num_threads())
        self.training = True
        self.stored: Tensor | None = None
        self.stored_with_dropout = False

    def _buffer(self, n_rows: int, width: int) -> np.ndarray:
        # torch aligns its memory to cache lines.
        return torch.empty((n_rows, width), dtype=self.convs[0].lin.weight.dtype).numpy()

    def run(self) -> Tensor:
        """Output in the current mode (``training``); zero in rows of nodes outside the split.

        The output of the last call is returned again if no dropout was and is to be applied. After
        a change of the weights, call ``forget``. An evaluation of a model with dropout has no
        gradient.
        """
        dropout = self.training and self.model.dropout.p > 0
        if self.stored is None or dropout or self.stored_with_dropout:
            with torch.set_grad_enabled(self._has_gradient()):
                self.stored = _Passes.apply(self, *self.parameters())
            self.stored_with_dropout = dropout
        return self.stored

    def _has_gradient(self) -> bool:
        return self.training or self.model.dropout.p == 0

    def forget(self) -> None:
        """Forget the stored output because the weights have changed."""
        self.stored = None

    def parameters(self) -> list[Tensor]:
        """Weights and biases of all layers in their order."""
        return [p for conv in self.convs for p in (conv.lin.weight, conv.bias) if p is not None]

    # -- forward pass ---------------------------------------------------------------------

    def forward(self) -> Tensor:
        """Compute the output, and store the activations of the hidden layers for ``backward``."""
        p = self.model.dropout.p if self.training else 0.0
        Y = self._project_features()
        for layer in range(len(self.activations)):
            Y = self._forward_layer(layer, Y, p)
        return self._output(self.forward_matrices[-1], Y, self.biases[-1])

    def _project_features(self) -> np.ndarray:
        """X W^T of the first layer."""
        W = self.weights[0]
        Y = self._block(0, self.x.shape[0], len(W))
        W_transposed = np.ascontiguousarray(W.T)

        def work(begin: int, end: int) -> None:
            if sp.issparse(self.x):
                aggregate(self.x, begin, end, W_transposed, Y[begin:end])
            else:
                Y[begin:end] = linear(self.x[begin:end], W)

        self._for_tiles(work, len(Y))
        return Y

    def _forward_layer(self, layer: int, Y: np.ndarray, p: float) -> np.ndarray:
        """Activations H of a layer from Y = H_before W^T, and H W^T of the next layer."""
        matrix, bias = self.forward_matrices[layer], self.biases[layer]
        H, W = self.activations[layer], self.weights[layer + 1]
        bits = self._random_bits(p, layer, H.shape[1])
        Y_next = self._block(layer + 1, len(H), len(W))
        is_stored = self._has_gradient()

        def work(begin: int, end: int) -> None:
            own = H[begin:end] if is_stored else np.empty_like(H[begin:end])
            aggregate(
                matrix, begin, end, Y, own, bias, p, None if bits is None else bits[begin:end]
            )
            Y_next[begin:end] = linear(own, W)

        self._for_tiles(work, len(H))
        return Y_next

    def _output(self, matrix: sp.csr_array, Y: np.ndarray, bias: np.ndarray) -> Tensor:
        out = np.zeros((self.data.graph.n_nodes, Y.shape[1]), self.dtype)
        with np.errstate(all="ignore"):
            out[slice(None) if self.rows[-1] is None else self.rows[-1]] = matrix @ Y + bias
        return torch.from_numpy(out)

    def _random_bits(self, p: float, layer: int, width: int) -> np.ndarray | None:
        """The bits that ``Dropout`` draws for all nodes, in the rows of a layer."""
        if p == 0:
            return None
        bits = random_bits((self.data.graph.n_nodes, width), self.generator)
        rows = self.rows[layer + 1]
        return bits if rows is None else bits[rows]

    # -- backward pass --------------------------------------------------------------------

    def backward(self, gradient: Tensor) -> list[np.ndarray]:
        """Gradients of ``parameters()`` for the gradient of the output of the last forward pass."""
        rows = self.gradient_rows[-1]
        G = np.ascontiguousarray(gradient.numpy() if rows is None else gradient.numpy()[rows])
        of_weights, of_biases = [], [G.sum(0)]
        for layer in reversed(range(1, len(self.convs))):
            G, of_weight, of_bias = self._backward_layer(layer, G)
            of_weights.append(of_weight)
            of_biases.append(of_bias)
        of_weights.append(self._features_gradient(G))
        pairs = zip(of_weights[::-1], of_biases[::-1], self.convs, strict=True)
        return [g for *pair, conv in pairs for g in pair[: 1 + (conv.bias is not None)]]

    def _backward_layer(
        self, layer: int, G: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """From the gradient before the activation of a layer to that of the layer before.

        Also returns the gradients of the weight of this layer and of the bias of the layer before.
        """
        from .gcn_kernels import mask_gradient  # compiled by numba

        matrix, W = self.backward_matrices[layer], self.weights[layer]
        H, selection = self.activations[layer - 1], self.selections[layer]
        scale = self.dtype.type(1 / (1 - self.model.dropout.p) if self.stored_with_dropout else 1)
        G_next = self._block(layer, matrix.shape[0], W.shape[1])
        of_weight: dict[int, np.ndarray] = {}
        of_bias: dict[int, np.ndarray] = {}

        def work(begin: int, end: int) -> None:
            D, own = np.empty((end - begin, len(W)), self.dtype), G_next[begin:end]
            aggregate(matrix, begin, end, G, D)
            activations = H[begin:end] if selection is None else H[selection[begin:end]]
            of_weight[begin] = linear(D.T, activations.T)
            mask_gradient(activations, linear(D, W.T), scale, own)
            of_bias[begin] = np.ones(len(own), self.dtype) @ own

        self._for_tiles(work, len(G_next))
        return G_next, _sum_tiles(of_weight), _sum_tiles(of_bias)

    def _features_gradient(self, G: np.ndarray) -> np.ndarray:
        """Gradient of the weight of the first layer."""
        matrix = self.backward_matrices[0]
        D = self._block(0, matrix.shape[0], G.shape[1])
        self._for_tiles(lambda begin, end: aggregate(matrix, begin, end, G, D[begin:end]), len(D))
        X = self.x_transposed
        if not sp.issparse(X):
            return linear(D.T, X)
        out = np.empty((X.shape[0], D.shape[1]), self.dtype)
        self._for_tiles(lambda begin, end: aggregate(X, begin, end, D, out[begin:end]), len(out))
        return np.ascontiguousarray(out.T)

    # -- tiles ----------------------------------------------------------------------------

    def _block(self, number: int, n_rows: int, width: int) -> np.ndarray:
        """A C-contiguous block in one of the two buffers, which are used in turn."""
        return self.blocks[number % 2].reshape(-1)[: n_rows * width].reshape(n_rows, width)

    def _for_tiles(self, work: Callable[[int, int], None], n_rows: int) -> None:
        """Call ``work(begin, end)`` for all tiles of rows, in threads if there are several.

        The tiles, and so the rounding of sums, do not depend on the number of threads.
        """
        n_tiles = max(1, n_rows // TILE_ROWS)
        edges = [n_rows * i // n_tiles for i in range(n_tiles + 1)]

        def some(first: int, last: int) -> None:
            torch.set_num_threads(1)  # of oneDNN in this thread
            for tile in range(first, last):
                work(edges[tile], edges[tile + 1])

        if self.n_threads == 1:
            some(0, n_tiles)
        else:
            parallel_rows(some, n_tiles, min_rows=1)


class _Passes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, passes: GCNPasses, *parameters: Tensor) -> Tensor:
        ctx.passes = passes
        return passes.forward()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        found = ctx.passes.backward(gradients[0])
        return None, *map(torch.from_numpy, found)


def _features(
    x: Tensor, dtype: np.dtype, rows: np.ndarray | None, selection: np.ndarray | None
) -> tuple[Any, Any]:
    """Features of the rows of the first layer, and the transpose of those with a gradient."""
    X = to_numpy_or_scipy(x)
    if not is_sparse(x) and np.count_nonzero(X) <= SPARSE_DENSITY * X.size:
        X = sp.csr_array(X)
    X = X.astype(dtype, copy=False)
    X = X if rows is None else X[rows]
    if sp.issparse(X):
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    with_gradient = X if selection is None else X[selection]
    return X, sp.csr_array(with_gradient.T) if sp.issparse(X) else with_gradient.T


def _sum_tiles(tiles: dict[int, np.ndarray]) -> np.ndarray:
    """Sum in the order of the tiles, not in the order in which threads computed them."""
    first, *others = (tiles[begin] for begin in sorted(tiles))
    for other in others:
        first += other
    return first


# -- products, in one thread ------------------------------------------------------------


def linear(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x @ weight.T; in float32 by oneDNN, which uses AVX-512 on CPUs of all vendors."""
    fast = _scripted_linear() if x.dtype == np.float32 else None
    if fast is not None:
        return fast(torch.from_numpy(x), torch.from_numpy(weight)).numpy()
    with np.errstate(all="ignore"):  # a training that diverges is noticed by its loss
        return x @ weight.T


def _onednn_linear(x: Tensor, weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


@cache
def _scripted_linear() -> Callable[[Tensor, Tensor], Tensor] | None:
    """``_onednn_linear`` in TorchScript, which releases the GIL, unlike calls of ``torch.ops``.

    The operator is not public; None if this version of torch does not have it.
    """
    if not torch.backends.mkldnn.is_available():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.script(_onednn_linear)
    except (AttributeError, RuntimeError):
        return None


def aggregate(
    matrix: sp.csr_array,
    begin: int,
    end: int,
    F: np.ndarray,
    out: np.ndarray,
    bias: np.ndarray | None = None,
    p: float = 0.0,
    bits: np.ndarray | None = None,
) -> None:
    """out <- rows of matrix @ F, or of dropout(relu(matrix @ F + bias)) with a bias."""
    from . import gcn_kernels  # compiled by numba

    gcn_kernels.aggregate(
        matrix.indptr[begin : end + 1], matrix.indices, matrix.data, F,
        bias, bits, np.uint32(round(p * LEVELS)), F.dtype.type(1 / (1 - p)), out,
    )  # fmt: skip
