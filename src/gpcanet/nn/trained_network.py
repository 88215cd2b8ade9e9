"""TrainedNetwork: a network with the classes and features it was trained on, for predictions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..datasets import Dataset
from ..errors import InputError, InputTypeError
from ..estimators.heads import fit_temperature
from ..estimators.training_nodes import TrainingNodes
from ..graph import Graph
from ..utils.labels import UNLABELED
from .conv import uses_ghost_edges
from .init.forward_pass import preserved_state
from .models import GPCANet
from .tensors import check_finite_features, check_module, to_feature_tensor
from .training.data import (
    NodeData,
    check_output,
    densify_if_needed,
    prepare_edges,
    translating_torch_errors,
)

#: Message if a network that needs training labels has none.
NO_TRAINING_LABELS = (
    "a GPCANet with beta > 0 needs its training labels to predict; give the data it was trained "
    "on, by TrainedNetwork.of(model, data)"
)


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network with the names of its classes and features.

    ``save_model`` writes it to a file and ``load_model`` reads it. Use ``TrainedNetwork.of`` to
    create it from a model and the data that the model was trained on.

    Attributes
    ----------
    model : torch.nn.Module
        The network.
    classes : ndarray or None
        Class of each output; None means 0, 1, ...
    feature_names : ndarray or None
        Names of the features, if known.
    training_nodes : TrainingNodes or None
        Graph and training labels of a ``GPCANet`` with beta > 0, which needs them to predict.
    notes : dict
        JSON values that are kept with the network, such as the settings of the training.
    temperature : float
        The outputs are divided by it before the softmax; ``calibrated`` chooses it.

    Examples
    --------
    >>> from gpcanet.datasets import block_model
    >>> from gpcanet.nn import GCN, Settings, train
    >>> data = block_model(200, 800, n_features=8, n_classes=2)
    >>> model = GCN(8, 16, num_layers=2, out_channels=2)
    >>> result = train(model, data, Settings(epochs=30, lr=0.01))
    >>> network = TrainedNetwork.of(model, data)
    >>> network.predict_proba(data).shape
    (200, 2)
    >>> correct = network.predict(data)[data.test] == data.y[data.test]
    >>> bool(correct.mean() == result.accuracy["test"])
    True
    """

    model: torch.nn.Module
    classes: np.ndarray | None = None
    feature_names: np.ndarray | None = None
    training_nodes: TrainingNodes | None = field(default=None, repr=False)
    notes: dict[str, Any] = field(default_factory=dict)
    temperature: float = 1.0

    @classmethod
    def of(
        cls, model: torch.nn.Module, data: Any = None, notes: dict[str, Any] | None = None
    ) -> TrainedNetwork:
        """Create it from a model and the data that it was trained on.

        Parameters
        ----------
        model : torch.nn.Module
            Called as ``model(x, edge_index)``, as in ``train``.
        data : Dataset, NodeData or torch_geometric.data.Data, optional
            A ``Dataset`` supplies the names of classes and features. A ``GPCANet`` with beta > 0
            requires the data, because it uses the training labels to predict.
        notes : dict, optional
            JSON values to keep with the network.
        """
        check_module(model)
        classes = feature_names = training_nodes = None
        if isinstance(data, Dataset):
            feature_names = data.feature_names
            if data.class_names is not None:  # the last classes may have no labelled node
                classes = data.class_names[: getattr(model, "out_channels", None)]
        if data is not None and uses_labels(model):
            nodes = NodeData.of(data)
            training_nodes = TrainingNodes(nodes.graph, None, None, nodes.visible_labels.numpy())
        return cls(model, classes, feature_names, training_nodes, notes or {})

    def calibrated(self, data: Any) -> TrainedNetwork:
        """Return the same network with calibrated probabilities.

        The temperature has the largest likelihood of the labels of the validation nodes.

        Parameters
        ----------
        data : Dataset, NodeData or torch_geometric.data.Data
            The data that the network was trained on, with their split.
        """
        nodes = NodeData.of(data)
        probabilities = replace(self, temperature=1.0).predict_proba(data)
        rows, codes = nodes.validation.cpu().numpy(), nodes.y[nodes.validation].cpu().numpy()
        known = codes < probabilities.shape[1]
        if not known.any():
            return self
        return replace(self, temperature=fit_temperature(probabilities[rows[known]], codes[known]))

    @property
    def n_features(self) -> int | None:
        """Number of features; None if the model does not state it."""
        return getattr(self.model, "in_channels", None)

    def predict(self, data: Any) -> np.ndarray:
        """Return the class of every node of a graph; the arguments are those of predict_proba."""
        codes = self.predict_proba(data).argmax(axis=1)
        return codes if self.classes is None else self.classes[codes]

    def predict_proba(self, data: Any) -> np.ndarray:
        """Return the probability of each class for every node of a graph.

        Parameters
        ----------
        data : Dataset, NodeData or torch_geometric.data.Data
            Features and graph: those of the training or any other with the same features. Labels
            and split are not used.

        Returns
        -------
        probabilities : ndarray of shape (n_nodes, n_classes)
        """
        x, graph = _features_and_graph(data)
        if x.dim() != 2 or x.shape[0] != graph.n_nodes:
            raise InputError(
                f"features of shape {tuple(x.shape)} for {graph.n_nodes} nodes; give one row per "
                f"node"
            )
        if self.n_features not in (None, -1, x.shape[1]):
            raise InputError(
                f"the data have {x.shape[1]} features, but the network was trained on "
                f"{self.n_features}; give the same features"
            )
        check_finite_features(x)
        self._check_feature_names(data)
        weight = next(self.model.parameters(), x)
        y = torch.from_numpy(self._labels(graph))
        labelled, nothing = torch.nonzero(y >= 0).flatten(), torch.empty(0, dtype=torch.int64)
        nodes = NodeData(x.to(weight.dtype), graph, y, labelled, nothing, nothing).to(weight.device)
        with torch.no_grad(), preserved_state(self.model), translating_torch_errors(nodes):
            nodes = densify_if_needed(self.model, nodes)
            output = prepare_edges(self.model, nodes).run(self.model, nodes.x)
        check_output(output, graph.n_nodes)
        if self.classes is not None and output.shape[1] != len(self.classes):
            raise InputError(
                f"the model has {output.shape[1]} outputs for {len(self.classes)} classes; give "
                f"one class per output"
            )
        if output.dtype in (torch.float16, torch.bfloat16):  # numpy has no bfloat16
            output = output.float()
        return torch.softmax(output / self.temperature, 1).cpu().numpy()

    def _labels(self, graph: Graph) -> np.ndarray:
        """Training labels of the nodes of a graph, -1 for all nodes if they are not used."""
        if not uses_labels(self.model):
            return np.full(graph.n_nodes, UNLABELED)
        if self.training_nodes is None:
            raise InputError(NO_TRAINING_LABELS)
        known = self.training_nodes.in_graph(graph)
        if known is None or known.labels is None:
            raise InputError(
                "a GPCANet with beta > 0 uses labels of its training graph and cannot predict on "
                "another graph; give that graph, or train with beta=0"
            )
        return known.labels_of_graph()

    def _check_feature_names(self, data: Any) -> None:
        """Raise if the features are known to be others, or in another order."""
        given = data.feature_names if isinstance(data, Dataset) else None
        if self.feature_names is None or given is None:
            return
        if self.feature_names.tolist() != given.tolist():
            raise InputError(
                f"the features of {data.name} are not those of the network in the same order; "
                f"give the columns {', '.join(map(str, self.feature_names[:3]))}, ... in this order"
            )


def uses_labels(model: torch.nn.Module) -> bool:
    """Whether a network uses the labels of training nodes to predict."""
    return isinstance(model, GPCANet) and uses_ghost_edges(model)


def _features_and_graph(data: Any) -> tuple[Tensor, Graph]:
    if isinstance(data, NodeData):
        return data.x, data.graph
    if isinstance(data, Dataset):
        return to_feature_tensor(data.X), data.graph
    x = getattr(data, "x", None)
    if not isinstance(x, Tensor):
        raise InputTypeError(
            f"data is a {type(data).__name__} without a tensor x of features; give a Dataset, a "
            f"NodeData or a PyG Data"
        )
    return x, Graph.from_pyg(data)
