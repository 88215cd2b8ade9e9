"""SPoGInit: a search for scales of the weights of a deep GCN (Wang et al., 2025)."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data.data import BaseData

from ...utils.checks import check_number
from ..propagation import EdgeInput, GraphPropagation, to_graph
from .forward_pass import check_arguments, check_one_graph, preserved_state, run_model
from .layer_weights import LayerWeights, ModelWeights
from .model_input import ModelInput, read_input
from .random import XAVIER
from .report import InitReport

#: Smallest number of layers for which the second and the second-last layer are different ones.
MIN_LAYERS = 4

#: Weights of the forward, the backward and the variation term of the objective.
TERMS = torch.tensor([1.0, 10.0, 1.0], dtype=torch.float64)

#: First step of a scale, its factor of decay, and the number of steps between decays.
STEP, DECAY, DECAY_EVERY = 0.05, 0.7, 20

#: Step of the finite difference of the objective.
DIFFERENCE = 1e-5

#: Steps without an improvement after which the search stops.
PATIENCE = 20


@torch.no_grad()
def spog_init_(
    model: torch.nn.Module,
    x: Tensor | BaseData,
    edge_index: EdgeInput = None,
    edge_weight: Tensor | None = None,
    *,
    n_steps: int = 40,
    seed: int = 0,
) -> InitReport:
    """Set Xavier weights times a scale per layer, found by a search over the graph.

    Source: S. Wang, Y. Chen, Y. Zhang, R. Sun, T. Ding, "Exploring and Improving Initialization
    for Deep Graph Neural Networks: A Signal Propagation Perspective", TMLR 2025, as in the
    authors' code for GCNs on ogbn-arxiv (github.com/YChen-zzz/Code-for-SPoGInit). The objective
    is the sum of three terms, for random features and labels that are new in each step:

    - ``(|H_1| / |H_(L-1)| - 1)^2``, where H_l is the input of layer l + 1
    - ``10 (|G_2| / |G_(L-1)| - 1)^2``, where G_l is the gradient of the loss for the weight
      of layer l
    - ``(E(X) - E(H_(L-1)))^2``, where E is half the mean of ``u^T (I - P) u / u^T u`` over the
      columns u

    Each step changes all scales by the same amount, up or down by the sign of one random difference
    (the authors' code computes three and uses the last). The scales with the smallest objective are
    used.

    The search applies to models of at least 4 layers that are all GCNConv and run once each. Other
    models get Xavier weights, and the report states it. All layers are set that ``gpca_init_`` can
    set, output layers as well; biases are left alone. The loss is the mean over all nodes, not
    only those of a training set.

    Parameters
    ----------
    model, x, edge_index, edge_weight
        As in ``gpca_init_``. Of ``x`` only the shape is used.
    n_steps : int
        Steps of the search. Each takes two forward and two backward passes, in float64 on the CPU,
        so that a seed gives the same weights on every device.
    seed : int
        Random seed of the weights and of the search.

    Examples
    --------
    >>> import torch_geometric.nn as pyg
    >>> x, edges = torch.randn(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    >>> model = pyg.GCN(3, 8, num_layers=4, out_channels=2)
    >>> spog_init_(model, x, edges, n_steps=2).n_set
    4
    """
    given = check_arguments(model, x, edge_index, edge_weight, None)
    check_one_graph(given, "SPoGInit needs", "use another initialiser")
    check_number("n_steps", n_steps, 1, advice="40 are usual", integer=True)
    weights = ModelWeights("spog", model, seed)
    with preserved_state(model), weights.recorded_runs() as runs:
        output = run_model(model, given)
    order = {found.name: found for found in runs}
    reason = _why_not_searched(runs, output, given.x.shape[0])
    with weights.restored_on_error():
        for found in order.values():
            weights.draw_(found, XAVIER, reason)
        if not reason:
            data = x if isinstance(x, BaseData) else None
            search = _Search(model, list(order), given, data, n_classes=output.shape[1])
            scales = search.run(n_steps, weights.generator)
            for found, scale in zip(order.values(), scales.tolist(), strict=True):
                for matrix in found.matrices:
                    matrix.mul_(scale)
    return weights.report()


def _why_not_searched(runs: list[LayerWeights], output: Any, n_nodes: int) -> str:
    """Return the reason if SPoGInit is not defined for a model."""
    is_sequence = len({found.name for found in runs}) == len(runs) >= MIN_LAYERS
    if not is_sequence or not all(isinstance(found.layer.module, pyg.GCNConv) for found in runs):
        return f"Xavier weights, as SPoGInit needs at least {MIN_LAYERS} layers, all GCNConv"
    shape = tuple(output.shape) if isinstance(output, Tensor) else ()
    if len(shape) != 2 or shape[0] != n_nodes or shape[1] < 2:
        return "Xavier weights, as SPoGInit needs outputs for at least two classes at every node"
    return ""


class _Search:
    """Search for one scale per layer, on a copy of a model in float64 on the CPU."""

    def __init__(
        self,
        model: torch.nn.Module,
        names: list[str],
        given: ModelInput,
        data: BaseData | None,
        n_classes: int,
    ) -> None:
        self.model = copy.deepcopy(model).cpu().double().eval()
        self.weights = ModelWeights("spog", self.model)
        self.layers = [self.weights.layers[name] for name in names]
        self.start = [[matrix.clone() for matrix in layer.matrices] for layer in self.layers]
        self.shape, self.n_classes = given.x.shape, n_classes
        edges, weights = given.edge_index, given.edge_weight
        self.edges = edges.cpu() if isinstance(edges, Tensor) else edges
        self.edge_weight = None if weights is None else weights.cpu().double()
        self.data = None if data is None else data.clone().cpu().apply(_in_double)
        self.P = GraphPropagation(to_graph(self.edges, self.edge_weight, self.shape[0]))

    def run(self, n_steps: int, generator: torch.Generator) -> Tensor:
        """Return the scales with the smallest objective."""
        scales = torch.ones(len(self.layers), dtype=torch.float64)
        target = self.variation(self.draw_data(generator)[0])
        best, best_scales, since_best, size = torch.inf, scales, 0, STEP
        for step in range(n_steps):
            x, y = self.draw_data(generator)
            direction = torch.randn(len(scales), generator=generator, dtype=torch.float64)
            value = self.objective(scales, x, y, target)
            since_best += 1
            if value < best:
                best, best_scales, since_best = value, scales, 0
            if since_best >= PATIENCE:
                break
            change = self.objective(scales + DIFFERENCE * direction, x, y, target) - value
            scales = scales - size * torch.sign(change * direction)
            if step % DECAY_EVERY == 0:
                size *= DECAY
        return best_scales

    def input_with(self, x: Tensor) -> ModelInput:
        """Return the input of the model with these features."""
        if self.data is None:
            return ModelInput(x, self.edges, self.edge_weight, None)
        self.data.x = x
        return read_input(self.model, self.data, None, None, None)

    def draw_data(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return random features and labels."""
        x = torch.randn(self.shape, generator=generator, dtype=torch.float64)
        return x, torch.randint(self.n_classes, self.shape[:1], generator=generator)

    def objective(self, scales: Tensor, x: Tensor, y: Tensor, target: Tensor) -> float:
        """Return the sum of the three terms for these scales, features and labels."""
        for layer, start, scale in zip(self.layers, self.start, scales.tolist(), strict=True):
            layer.copy_scaled_(start, scale)
        inputs: list[Tensor] = []
        weights = [self.layers[1].parameters[0], self.layers[-2].parameters[0]]
        record = self.weights.before_each_run(lambda _, H, *__: inputs.append(H.detach()))
        with torch.enable_grad(), record:
            output = run_model(self.model, self.input_with(x))
            gradients = torch.autograd.grad(cross_entropy(output, y), weights)
        forward = inputs[1].norm() / inputs[-1].norm() - 1
        backward = gradients[0].norm() / gradients[1].norm() - 1
        variation = target - self.variation(inputs[-1])
        return float((TERMS * torch.stack([forward, backward, variation]).square()).sum())

    def variation(self, H: Tensor) -> Tensor:
        """Half the mean of u^T (I - P) u / u^T u over the columns u; 0 for a zero column."""
        energies = (H * (H - self.P @ H)).sum(0)
        return 0.5 * (energies / H.square().sum(0)).nan_to_num(0.0).mean()


def _in_double(value: Tensor) -> Tensor:
    return value.double() if value.is_floating_point() else value
