"""Deep models with every kind of layer."""

import torch
import torch_geometric.nn as pyg

from gpcanet.nn import GCN, GPCANet

DEPTH, WIDTH = 5, 8


class Stack(torch.nn.Module):
    """Convolutions with ReLU and batch normalisation, and a linear head."""

    def __init__(self, make, width=WIDTH):
        super().__init__()
        self.convs = torch.nn.ModuleList([make(10, WIDTH), *(make(width, WIDTH) for _ in range(4))])
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(width) for _ in range(DEPTH))
        self.head = torch.nn.Linear(width, 3)

    def forward(self, x, edge_index):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = torch.nn.functional.dropout(norm(conv(x, edge_index)).relu(), 0.5, self.training)
        return self.head(x)


class DeepGCN2(torch.nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.first = torch.nn.Linear(10, WIDTH)
        self.convs = torch.nn.ModuleList(
            pyg.GCN2Conv(WIDTH, 0.1, theta=0.5, layer=i + 1, shared_weights=shared)
            for i in range(DEPTH)
        )
        self.head = torch.nn.Linear(WIDTH, 3)

    def forward(self, x, edge_index):
        x = first = self.first(x).relu()
        for conv in self.convs:
            x = conv(x, first, edge_index).relu()
        return self.head(x)


class PredictThenPropagate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(10, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 3)
        )
        self.propagate = pyg.APPNP(5, 0.1)

    def forward(self, x, edge_index):
        return self.propagate(self.mlp(x), edge_index)


CONVOLUTIONS = {
    "GCNConv": lambda i, o: pyg.GCNConv(i, o),
    "GCNConv, improved": lambda i, o: pyg.GCNConv(i, o, improved=True, cached=True),
    "GraphConv": lambda i, o: pyg.GraphConv(i, o),
    "SAGEConv": lambda i, o: pyg.SAGEConv(i, o),
    "SAGEConv, no root": lambda i, o: pyg.SAGEConv(i, o, root_weight=False),
    "GATConv": lambda i, o: pyg.GATConv(i, o),
    "GATConv, heads": lambda i, o: pyg.GATConv(i, o // 2, heads=2),
    "GATConv, heads averaged": lambda i, o: pyg.GATConv(i, o, heads=3, concat=False),
    "GATv2Conv, heads": lambda i, o: pyg.GATv2Conv(i, o // 4, heads=4),
    "GATv2Conv, shared": lambda i, o: pyg.GATv2Conv(i, o, share_weights=True),
    "GINConv": lambda i, o: pyg.GINConv(
        torch.nn.Sequential(torch.nn.Linear(i, o), torch.nn.ReLU(), torch.nn.Linear(o, o))
    ),
    "ChebConv": lambda i, o: pyg.ChebConv(i, o, K=3),
    "TAGConv": lambda i, o: pyg.TAGConv(i, o, K=2),
    "SGConv": lambda i, o: pyg.SGConv(i, o, K=2, cached=False),
    "ClusterGCNConv": lambda i, o: pyg.ClusterGCNConv(i, o),
    "Linear": lambda i, o: _IgnoresEdges(i, o),
}

MODELS = {
    **{name: (lambda make=make: Stack(make)) for name, make in CONVOLUTIONS.items()},
    "GCN2Conv": lambda: DeepGCN2(True),
    "GCN2Conv, two weights": lambda: DeepGCN2(False),
    "APPNP": PredictThenPropagate,
    "our GCN": lambda: GCN(10, WIDTH, DEPTH, 3),
    "GPCANet": lambda: GPCANet(10, WIDTH, DEPTH, 3),
    "PyG GCN": lambda: pyg.GCN(10, WIDTH, DEPTH, 3, norm="batch", dropout=0.5),
    "PyG GCN, jumping": lambda: pyg.GCN(10, WIDTH, DEPTH, 3, jk="cat"),
    "PyG GraphSAGE": lambda: pyg.GraphSAGE(10, WIDTH, DEPTH, 3),
    "PyG GIN": lambda: pyg.GIN(10, WIDTH, DEPTH, 3),
    "PyG GAT": lambda: pyg.GAT(10, WIDTH, DEPTH, 3),
    "PyG GAT, v2, heads": lambda: pyg.GAT(10, WIDTH, DEPTH, 4, v2=True, heads=2),
    "PyG PNA": lambda: pyg.PNA(
        10, WIDTH, DEPTH, 3, aggregators=["mean", "max"], scalers=["identity"],
        deg=torch.tensor([0, 5, 20, 40]),
    ),
    "PyG EdgeCNN": lambda: pyg.EdgeCNN(10, WIDTH, DEPTH, 3),
    "lazy": lambda: pyg.GCN(-1, WIDTH, DEPTH, 3),
}  # fmt: skip


class _IgnoresEdges(torch.nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = torch.nn.Linear(i, o)

    def forward(self, x, edge_index):
        return self.linear(x)


def make_model(name):
    torch.manual_seed(0)
    return MODELS[name]()
