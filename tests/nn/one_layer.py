"""Models of one layer and a head, and a layer of every kind."""

import torch
from torch.nn import Linear

N_IN, N_OUT, N_RELATIONS = 10, 6, 3


class OneLayer(torch.nn.Module):
    """One convolution with a ReLU, and a linear head."""

    def __init__(self, conv, width=N_OUT, **arguments):
        super().__init__()
        self.conv, self.head, self.arguments = conv, Linear(width, 3), arguments

    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index, **self.arguments).relu())


def edge_types(edge_index):
    return (edge_index[0] * 7 + edge_index[1] * 5) % N_RELATIONS


def arguments_of(name, edge_index):
    """Further arguments of a layer with this name."""
    has_types = "RGCN" in name or "relations" in name
    return {"edge_type": edge_types(edge_index)} if has_types else {}


def zero_biases(conv):
    for name, parameter in conv.named_parameters():
        if name.endswith("bias"):
            parameter.data.zero_()
