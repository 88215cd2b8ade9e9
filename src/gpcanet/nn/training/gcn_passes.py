"""Forward and backward pass of a plain GCN on a CPU, without the layers of torch.

A layer is H' = dropout(relu(P H W^T + b)). Bias, ReLU and dropout are fused with the sparse
product, the activations H' are the only stored values (an entry is positive where ReLU and dropout
kept it), and buffers are reused in all epochs.

Only nodes of the split have a loss or an accuracy. The last layers are therefore computed only on
these nodes and their neighbours, and the gradient, which starts from the training nodes, only
where it is not zero.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn.dense.linear import Linear

from ...linalg.parallel import parallel_rows
from ..conv import GCNConv
from ..dropout import LEVELS, Dropout, random_bits
from ..models import GCN
from ..propagation import GraphPropagation
from ..tensors import is_sparse, to_numpy_or_scipy
from .data import NodeData

#: Largest share of the nodes for which a layer is computed on these nodes only.
SUBSET_SHARE = 0.8

#: Largest density of features for which the sparse kernel is faster than a dense product.
SPARSE_DENSITY = 0.2


def is_plain_gcn(model: Any, data: NodeData) -> bool:
    """Whether ``GCNPasses`` computes the passes of this model.

    A plain GCN has ReLU, no normalisation layers and no jumping knowledge, and is on a CPU. Models
    with hooks must be called by torch.
    """
    if type(model) is not GCN or model.jk_mode is not None or type(model.act) is not torch.nn.ReLU:
        return False
    convs: list[Any] = list(model.convs)
    parameters = list(model.parameters())
    return (
        all(type(conv) is GCNConv and type(conv.lin) is Linear for conv in convs)
        and all(type(norm) is torch.nn.Identity for norm in model.norms)
        and type(model.dropout) is Dropout
        and model.dropout.p < 1
        and not any(is_lazy(p) for p in parameters)
        and all(p.device.type == "cpu" and p.dtype == data.x.dtype for p in parameters)
        and data.x.dtype in (torch.float32, torch.float64)
        and data.x.shape[1] == convs[0].lin.weight.shape[1]
        and not any(_has_hooks(module) for module in model.modules())
    )


def _has_hooks(module: torch.nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


class GCNPasses:
    """Passes of a plain GCN over the nodes of a split.

    Parameters
    ----------
    model : GCN
        A model for which ``is_plain_gcn`` holds.
    data : NodeData
        Features, graph and split; the features have the dtype of the model.
    P : GraphPropagation
        Propagation matrix of the graph, without ghost edges.
    generator : torch.Generator, optional
        Random numbers of dropout; None for the global ones of torch.
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
        self.rows = _receptive_fields(matrix, split, n_layers)
        self.gradient_rows = _receptive_fields(matrix, np.sort(data.train.numpy()), n_layers)
        self.forward_matrices = _submatrices(matrix, self.rows)
        transposed = sp.csr_array(matrix.T)
        self.backward_matrices = _submatrices(transposed, self.gradient_rows[::-1])[::-1]
        self.selections = list(map(_positions, self.gradient_rows, self.rows))
        n = data.graph.n_nodes
        sizes = [n if rows is None else len(rows) for rows in self.rows]
        widths = [conv.lin.weight.shape[0] for conv in self.convs]
        self.x, self.x_transposed = _features(data.x, self.dtype, self.rows[0], self.selections[0])
        # Torch aligns its memory to cache lines.
        self.activations = list(map(self._buffer, sizes[1:-1], widths[:-1]))
        self.scratch = self._buffer(n, max(widths))
        self.stored: Tensor | None = None
        self.stored_with_dropout = False

    def _buffer(self, n_rows: int, width: int) -> np.ndarray:
        return torch.empty((n_rows, width), dtype=self.convs[0].lin.weight.dtype).numpy()

    def run(self) -> Tensor:
        """Output of the model in its current mode; zero in rows of nodes outside the split.

        The output of the last call is returned again if no dropout was and is to be applied. After
        a change of the weights, call ``forget``.
        """
        dropout = self.model.training and self.model.dropout.p > 0
        if self.stored is None or dropout or self.stored_with_dropout:
            with torch.enable_grad():
                self.stored = _Passes.apply(self, *self.parameters())
            self.stored_with_dropout = dropout
        return self.stored

    def forget(self) -> None:
        """Forget the stored output because the weights have changed."""
        self.stored = None

    def parameters(self) -> list[Tensor]:
        """Weights and biases of all layers in their order."""
        return [p for conv in self.convs for p in (conv.lin.weight, conv.bias) if p is not None]

    def forward(self) -> Tensor:
        """Compute the output and store the activations of the hidden layers."""
        p = self.model.dropout.p if self.model.training else 0.0
        H: Any = self.x
        for layer, (conv, matrix) in enumerate(zip(self.convs, self.forward_matrices, strict=True)):
            W, bias = _weight_and_bias(conv)
            if sp.issparse(H):
                Y = self._view(H.shape[0], len(W))
                _multiply(H, np.ascontiguousarray(W.T), Y)
            else:
                Y = _linear(H, W)
            if layer == len(self.convs) - 1:
                return self._output(matrix, Y, bias)
            H = self.activations[layer]
            _multiply(matrix, Y, H, bias, p, self._random_bits(p, layer, H.shape[1]))
        raise AssertionError("a model has layers")

    def backward(self, gradient: Tensor) -> list[np.ndarray]:
        """Gradients of ``parameters()`` for the gradient of the output of the last forward pass."""
        scale = 1 / (1 - self.model.dropout.p) if self.stored_with_dropout else 1.0
        G = gradient.numpy()
        rows = self.gradient_rows[-1]
        G = np.ascontiguousarray(G if rows is None else G[rows])
        found: list[np.ndarray] = []
        for layer in reversed(range(len(self.convs))):
            W, _ = _weight_and_bias(self.convs[layer])
            if self.convs[layer].bias is not None:
                found.append(np.ones(len(G), self.dtype) @ G)
            matrix = self.backward_matrices[layer]
            D = self._view(matrix.shape[0], len(W))
            _multiply(matrix, G, D)
            if layer == 0:
                found.append(self._first_gradient(D))
                break
            H, selection = self.activations[layer - 1], self.selections[layer]
            H = H if selection is None else H[selection]
            found.append(_linear(D.T, H.T))
            G = _linear(D, W.T)
            parallel_rows(_kernels().mask_gradient, len(G), H, self.dtype.type(scale), G)
        return found[::-1]

    def _first_gradient(self, D: np.ndarray) -> np.ndarray:
        if not sp.issparse(self.x_transposed):
            return _linear(D.T, self.x_transposed)
        out = np.empty((self.x_transposed.shape[0], D.shape[1]), self.dtype)
        _multiply(self.x_transposed, D, out)
        return np.ascontiguousarray(out.T)

    def _output(self, matrix: sp.csr_array, Y: np.ndarray, bias: np.ndarray) -> Tensor:
        out = np.zeros((self.data.graph.n_nodes, Y.shape[1]), self.dtype)
        found = matrix @ Y + bias
        out[slice(None) if self.rows[-1] is None else self.rows[-1]] = found
        return torch.from_numpy(out)

    def _random_bits(self, p: float, layer: int, width: int) -> np.ndarray | None:
        """The bits that ``Dropout`` draws for all nodes, in the rows of a layer."""
        if p == 0:
            return None
        bits = random_bits((self.data.graph.n_nodes, width), self.generator)
        rows = self.rows[layer + 1]
        return bits if rows is None else bits[rows]

    def _view(self, n_rows: int, width: int) -> np.ndarray:
        """A C-contiguous block at the beginning of the scratch buffer."""
        return self.scratch.reshape(-1)[: n_rows * width].reshape(n_rows, width)


class _Passes(torch.autograd.Function):
    @staticmethod
    @np.errstate(all="ignore")  # a training that diverges is noticed by its loss
    def forward(ctx: Any, passes: GCNPasses, *parameters: Tensor) -> Tensor:
        ctx.passes = passes
        return passes.forward()

    @staticmethod
    @np.errstate(all="ignore")
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        found = ctx.passes.backward(gradients[0])
        return None, *map(torch.from_numpy, found)


# -- products -------------------------------------------------------------------------------


def _linear(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x @ weight.T; in float32 by oneDNN, which uses AVX-512 on the CPUs of all makers."""
    if x.dtype == np.float32 and torch.backends.mkldnn.is_available():
        arguments = torch.from_numpy(x), torch.from_numpy(weight), None, "none", [], ""
        return torch.ops.mkldnn._linear_pointwise(*arguments).numpy()
    return x @ weight.T


def _kernels() -> Any:
    from . import gcn_kernels  # numba takes time to load

    return gcn_kernels


def _multiply(
    matrix: sp.csr_array,
    F: np.ndarray,
    out: np.ndarray,
    bias: np.ndarray | None = None,
    p: float = 0.0,
    bits: np.ndarray | None = None,
) -> None:
    """out <- matrix @ F, or dropout(relu(matrix @ F + bias)) with a bias."""
    parallel_rows(
        _kernels().aggregate, matrix.shape[0],
        matrix.indptr, matrix.indices, matrix.data, F,
        bias, bits, np.uint32(round(p * LEVELS)), F.dtype.type(1 / (1 - p)), out,
    )  # fmt: skip


def _weight_and_bias(conv: Any) -> tuple[np.ndarray, np.ndarray]:
    W = conv.lin.weight.detach().numpy()
    bias = np.zeros(len(W), W.dtype) if conv.bias is None else conv.bias.detach().numpy()
    return W, bias


# -- rows that a layer needs ----------------------------------------------------------------


def _receptive_fields(
    matrix: sp.csr_array, nodes: np.ndarray, n_layers: int
) -> list[np.ndarray | None]:
    """Rows of the input of each layer, and of the output, on which these output rows depend.

    None stands for all rows.
    """
    n = matrix.shape[0]
    pattern = sp.csr_array((np.ones(matrix.nnz, np.float32), matrix.indices, matrix.indptr))
    fields: list[np.ndarray | None] = [nodes]
    for _ in range(n_layers):
        last = fields[0]
        if last is not None:
            chosen = np.zeros(n, np.float32)
            chosen[last] = 1
            last = np.flatnonzero(pattern @ chosen)
        fields.insert(0, None if last is None or len(last) > SUBSET_SHARE * n else last)
    return fields


def _submatrices(matrix: sp.csr_array, fields: list[np.ndarray | None]) -> list[sp.csr_array]:
    """For every two consecutive sets of rows, the matrix from the first to the second."""
    found = []
    for columns, rows in pairwise(fields):
        part = matrix if rows is None else matrix[rows]
        found.append(sp.csr_array(part if columns is None else part[:, columns]))
    return found


def _positions(nodes: np.ndarray | None, rows: np.ndarray | None) -> np.ndarray | None:
    """Positions of some nodes among sorted rows; None for all of them."""
    if nodes is None or (rows is not None and len(nodes) == len(rows)):
        return None
    return nodes if rows is None else np.searchsorted(rows, nodes)


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
