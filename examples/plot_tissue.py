"""
Domains of a tissue from spatial gene counts
============================================

Spatial transcriptomics counts genes at thousands of spots of a tissue. The counts of a spot are few
and noisy; spots next to each other mostly belong to the same domain. GPCA on the graph of adjacent
spots finds components that vary little in space, and a clustering of them finds the domains. The
tissue is generated, so the domains are known.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, confusion_matrix

from gpcanet import GPCA, Graph

# %%
# A hexagonal array of spots, five curved layers, and 300 genes of which 60 differ between layers.

rng = np.random.default_rng(0)
row, column = (index.ravel() for index in np.indices((60, 60)))
spots = np.c_[column + 0.5 * (row % 2), row * np.sqrt(3) / 2]
depth = spots[:, 1] + 6 * np.sin(spots[:, 0] / 9)
domain = np.digitize(depth, np.quantile(depth, [0.15, 0.4, 0.6, 0.85]))

rates = np.tile(rng.gamma(0.5, 0.6, size=300), (5, 1))
rates[:, :60] *= rng.lognormal(0, 0.45, size=(5, 60))
sequenced = rng.lognormal(0, 0.3, size=(len(spots), 1))  # differs from spot to spot
counts = rng.poisson(rates[domain] * sequenced)
print(f"{len(spots)} spots, {counts.sum(axis=1).mean():.0f} counts per spot")

# %%
# The usual normalisation, the graph of adjacent spots, and the embeddings. Each edge joins two
# spots at a distance of 1.

X = np.log1p(counts / counts.sum(axis=1, keepdims=True) * np.median(counts.sum(axis=1)))
edges = cKDTree(spots).query_pairs(1.1, output_type="ndarray")
graph = Graph.from_edge_index(edges.T, n_nodes=len(spots), each_once=True)
embeddings = {
    "PCA": GPCA(10).fit_transform(X),
    "GPCA": GPCA(10, alpha=20).fit_transform(X, graph=graph),
}

# %%
# k-means with the number of domains. The adjusted Rand index is 1 for a perfect agreement and 0
# for a random one. For the picture, clusters get the colour of the domain they share most with.


def clusters_of(Z):
    """Clusters, numbered like the domains they agree with best."""
    found = KMeans(5, n_init=5, random_state=0).fit_predict(Z)
    _, names = linear_sum_assignment(-confusion_matrix(found, domain))
    return names[found]


shown = {"true domains": domain}
for name, Z in embeddings.items():
    clusters = clusters_of(Z)
    shown[f"{name}: index {adjusted_rand_score(domain, clusters):.2f}"] = clusters

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
palette = ListedColormap(["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9"])
for axis, (title, values) in zip(axes, shown.items(), strict=True):
    axis.scatter(*spots.T, c=values, cmap=palette, s=9, lw=0, marker="h")
    axis.set_title(title, fontsize=11)
    axis.set_aspect("equal")
    axis.set_axis_off()
plt.show()
