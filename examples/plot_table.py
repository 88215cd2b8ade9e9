"""
A table without a graph: nearest neighbours
===========================================

Many tables have no edges. The graph of nearest neighbours takes their place: rows that look alike
are connected. With few labels this helps, because the unlabelled rows then take part.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

from gpcanet import GPCA
from gpcanet.datasets import neighbor_graph

X, y = load_digits(return_X_y=True)
graph = neighbor_graph(X, n_neighbors=10)
print(graph.summary())

# %%
# The embedding uses no label, so it is computed once.

embeddings = {
    "GPCA of the neighbour graph": GPCA(32, alpha=10).fit_transform(X, graph=graph),
    "PCA": GPCA(32).fit_transform(X),
}

# %%
# Accuracy on the remaining rows with 1 to 20 labels per class, for 20 random choices of labels.

counts = [1, 2, 5, 10, 20]
rng = np.random.default_rng(0)
scores = {name: np.zeros((len(counts), 20)) for name in embeddings}
for repeat in range(20):
    order = rng.permutation(len(y))
    rank = np.zeros(len(y), int)  # how many rows of the same class come before a row
    for label in np.unique(y):
        rows = order[y[order] == label]
        rank[rows] = np.arange(len(rows))
    for row, count in enumerate(counts):
        known = rank < count
        for name, Z in embeddings.items():
            head = RidgeClassifier().fit(Z[known] / Z.std(), y[known])
            scores[name][row, repeat] = 100 * head.score(Z[~known] / Z.std(), y[~known])

# %%
# The bands show the standard deviation over the choices of labels.

figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
for (name, values), colour, mark in zip(scores.items(), ["#0072B2", "#D55E00"], "os", strict=True):
    mean, deviation = values.mean(axis=1), values.std(axis=1)
    axis.fill_between(counts, mean - deviation, mean + deviation, color=colour, alpha=0.15, lw=0)
    axis.plot(counts, mean, mark + "-", color=colour, label=name)
axis.set_xscale("log")
axis.set_xticks(counts, [str(count) for count in counts])
axis.minorticks_off()
axis.set_xlabel("labels per class")
axis.set_title("Digits: accuracy of a ridge classifier in %", fontsize=11)
axis.legend(frameon=False, loc="lower right")
axis.spines[["top", "right"]].set_visible(False)
axis.grid(axis="y", color="#e0e0e0", lw=0.6)
plt.show()
