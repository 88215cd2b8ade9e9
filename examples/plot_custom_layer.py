"""
Initialise a PyG layer of your own
==================================

The initialisers know the layers of PyG. For a layer of your own, ``register_layer`` names its
weights; what it aggregates is found by running it. The graph is generated.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import torch
import torch_geometric.nn as pyg

from gpcanet.datasets import block_model
from gpcanet.nn import NodeData, Settings, gpca_init_, register_layer, train

data = NodeData.of(block_model(600, 2400, n_features=32, n_classes=8, feature_noise=3.0))

# %%
# A layer that adds the mean of the neighbours to the node, before the weights.


class MeanConv(pyg.MessagePassing):
    def __init__(self, in_channels, out_channels):
        super().__init__(aggr="mean")
        self.lin = torch.nn.Linear(in_channels, out_channels)

    def forward(self, x, edge_index):
        return self.lin(x + self.propagate(edge_index, x=x))


register_layer(MeanConv, "lin")

# %%
# Six of these layers, with PyTorch's weights and with those of ``gpca_init_``.


class Net(torch.nn.Module):
    def __init__(self, n_layers):
        super().__init__()
        widths = [data.x.shape[1], *[32] * (n_layers - 1), data.n_classes]
        self.convs = torch.nn.ModuleList(MeanConv(*pair) for pair in pairwise(widths))

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = conv(x, edge_index).relu()
        return self.convs[-1](x, edge_index)


torch.manual_seed(0)
plain, initialised = Net(6), Net(6)
report = gpca_init_(initialised, data.x, data.edge_index, head="ridge", y=data.y,
                    train_mask=data.train)  # fmt: skip
print(report)

# %%
# Epoch 0 is the accuracy before training.

figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for net, name, colour, style in (
    (initialised, "gpca_init_", "#0072B2", "-"),
    (plain, "weights of torch.nn.Linear", "#D55E00", "--"),
):
    curve = train(net, data, Settings(epochs=20)).curve
    accuracy = [100 * point["test"] for point in curve]
    axis.plot([point["epoch"] for point in curve], accuracy, style, color=colour, label=name)
axis.set_ylim(0, 100)
axis.set_xticks(range(0, 21, 5))
axis.set_xlabel("epoch")
axis.set_title("Six layers of MeanConv: test accuracy in %", fontsize=11)
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
axis.grid(axis="y", color="#e0e0e0", lw=0.6)
plt.show()
