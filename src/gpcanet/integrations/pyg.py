"""GPCA as a transform of PyTorch Geometric."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import BaseTransform

from ..errors import InputError, InputTypeError
from ..estimators.gpca import GPCA
from ..graph import Graph
from ..nn.tensors import is_sparse, to_numpy_or_scipy
from ..utils.labels import UNLABELED


class AddGPCA(BaseTransform):
    """Add the embedding of the nodes by :class:`gpcanet.GPCA` to a PyG ``Data``.

    Parameters
    ----------
    n_components : int or float, optional
        Number of components, as in :class:`gpcanet.GPCA`.
    alpha : float
        Strength of the graph regularisation.
    beta : float
        Share of the regularisation given to ghost edges between nodes of equal label. Only the
        labels of ``train_mask`` are used.
    attr_name : str, optional
        Attribute that gets the embedding; "x" replaces the features. None concatenates it to
        ``x``.
    **settings
        Further parameters of :class:`gpcanet.GPCA`.

    Notes
    -----
    The components are those of the one graph that is transformed. Embeddings of several graphs
    are comparable if these are one ``Batch``, or by ``GPCA.transform``.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.transforms import Compose, NormalizeFeatures
    >>> from gpcanet.integrations.pyg import AddGPCA
    >>> ring = torch.arange(6)
    >>> edge_index = torch.stack([ring, ring.roll(1)])
    >>> edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    >>> data = Data(x=torch.eye(6), edge_index=edge_index)
    >>> Compose([NormalizeFeatures(), AddGPCA(2, alpha=5)])(data).gpca.shape
    torch.Size([6, 2])
    """

    def __init__(
        self,
        n_components: int | float | None = None,
        alpha: float = 10.0,
        *,
        beta: float = 0.0,
        attr_name: str | None = "gpca",
        **settings: Any,
    ) -> None:
        self.gpca = GPCA(n_components, alpha=alpha, beta=beta, **settings)
        self.gpca.check_parameters()
        self.attr_name = attr_name

    def forward(self, data: Data) -> Data:
        """Return the data with the embedding; called by ``__call__`` with a shallow copy."""
        if isinstance(data, HeteroData):
            raise InputTypeError("AddGPCA needs one type of nodes; use data.to_homogeneous() first")
        if not isinstance(data, Data):
            raise InputTypeError(f"AddGPCA needs a PyG Data object, not {type(data).__name__}")
        x = data.x
        if not isinstance(x, Tensor):
            raise InputError("data has no features; set data.x")
        y = self._labels(data) if self.gpca.beta else None
        Z = self.gpca.fit_transform(to_numpy_or_scipy(x), y, graph=Graph.from_pyg(data))
        embedding = torch.from_numpy(np.ascontiguousarray(Z)).to(x.device)
        if self.attr_name is None:
            dense = x.to_dense() if is_sparse(x) else x
            dtype = dense.dtype if dense.is_floating_point() else embedding.dtype
            data.x = torch.cat([dense.to(dtype), embedding.to(dtype)], dim=1)
        else:
            data[self.attr_name] = embedding
        return data

    def _labels(self, data: Data) -> np.ndarray:
        """Labels of the training nodes; other nodes are unlabelled."""
        y, mask = data.y, data.get("train_mask")
        if not isinstance(y, Tensor):
            raise InputError(f"beta={self.gpca.beta} needs labels; set data.y, or use beta=0")
        if not isinstance(mask, Tensor):
            raise InputError(
                f"beta={self.gpca.beta} uses the labels of data.train_mask, which is missing; set "
                f"it, for example by RandomNodeSplit, or use beta=0"
            )
        if mask.dtype != torch.bool or tuple(mask.shape) != (data.num_nodes,):
            raise InputError(
                f"data.train_mask of shape {tuple(mask.shape)} and dtype {mask.dtype} must have "
                f"one boolean per node; if it has several splits, set one of its columns"
            )
        if not mask.any():
            raise InputError("data.train_mask selects no node; select at least one")
        known, labels = mask.cpu().numpy(), y.detach().cpu().numpy()
        if labels.shape[0] != len(known):
            raise InputError(
                f"data.y of shape {tuple(y.shape)} must have one label for each of "
                f"{len(known)} nodes"
            )
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.ndim == 1 and labels.dtype.kind in "iub":
            return np.where(known, labels, UNLABELED)
        targets = labels.astype(np.float64)
        targets[~known] = np.nan
        return targets

    def __repr__(self) -> str:
        settings = {"attr_name": self.attr_name, **self.gpca.get_params()}
        defaults = {"attr_name": "gpca", **GPCA().get_params()}
        shown = [f"{name}={v!r}" for name, v in settings.items() if v != defaults[name]]
        return f"{type(self).__name__}({', '.join(shown)})"
