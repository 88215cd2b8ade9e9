"""
Initialise a deep graph network
===============================

A plain GCN of 32 layers with random weights hardly learns: after a few layers all nodes look the
same. ``gpca_init_`` sets the weights from the features and the graph, layer by layer, and the
network keeps its nodes apart. If Cora cannot be had, the digits of scikit-learn replace it.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from gpcanet.datasets import DataUnavailableError, load
from gpcanet.nn import GCN, NodeData, Settings, effective_rank, gpca_init_, train, xavier_init_

try:
    dataset = load("cora")
except DataUnavailableError:
    dataset = load("digits")
data = NodeData.of(dataset)
print(f"{dataset.name}: {dataset.graph.summary()}")

# %%
# Two networks that differ only in their weights. The report of ``gpca_init_`` has one line per
# layer.


def network():
    torch.manual_seed(0)
    return GCN(data.x.shape[1], 64, num_layers=32, out_channels=data.n_classes)


nets = {"gpca_init_": network(), "xavier_init_": network()}
labels = {"head": "logistic", "y": data.y, "train_mask": data.train}
report = gpca_init_(nets["gpca_init_"], data.x, data.edge_index, **labels)
xavier_init_(nets["xavier_init_"])
print("\n".join(str(report).splitlines()[:4]))

# %%
# How many directions are left in the hidden features of a layer? The effective rank counts them.


def ranks(net):
    """Effective rank of the output of every hidden layer."""
    found = []
    hooks = [
        conv.register_forward_hook(lambda conv, inputs, out: found.append(effective_rank(out)))
        for conv in net.convs[:-1]
    ]
    with torch.no_grad():
        net(data.x, data.graph)
    for hook in hooks:
        hook.remove()
    return found


before_training = {name: ranks(net) for name, net in nets.items()}

# %%
# Then both are trained in the same way. The weights of ``gpca_init_`` predict well before the first
# epoch, so small steps are enough. With a learning rate of 0.001 the curve of Xavier's weights
# stays as it is, and that of ``gpca_init_`` falls for some epochs before it recovers.

results = {name: train(net, data, Settings(epochs=30, lr=1e-4)) for name, net in nets.items()}

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, colour, style in (("gpca_init_", "#0072B2", "-"), ("xavier_init_", "#D55E00", "--")):
    left.plot(np.arange(1, 32), before_training[name], style, color=colour, label=name)
    curve = results[name].curve
    accuracy = [100 * point["test"] for point in curve]
    right.plot([point["epoch"] for point in curve], accuracy, style, color=colour, label=name)
left.set_yscale("log")
left.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
left.minorticks_off()
left.set_xlabel("layer")
left.set_title("effective rank before training", fontsize=11)
right.set_ylim(0, 100)
right.set_xlabel("epoch")
right.set_title(f"test accuracy in %, 32 layers, {dataset.name}", fontsize=11)
left.legend(frameon=False, loc="lower left")
right.legend(frameon=False, loc="center right")
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#e0e0e0", lw=0.6)
plt.show()
