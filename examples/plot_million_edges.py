"""
A million edges on a laptop
===========================

The time of GPCA is linear in nodes and edges, and needs no GPU. Here are graphs of up to 100,000
nodes and a million edges, generated with eight classes and noisy features.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from gpcanet import GPCA
from gpcanet.datasets import block_model

sizes = [10_000, 30_000, 100_000, 300_000, 1_000_000]
seconds, accuracies = [], {"PCA": [], "GPCA": []}
for n_edges in sizes:
    data = block_model(n_edges // 10, n_edges, n_features=32, n_classes=8, feature_noise=4.0)
    durations = []
    for _ in range(2):  # the first call on a large graph also loads or compiles kernels
        start = time.perf_counter()
        Z = GPCA(16, alpha=10).fit_transform(data.X, graph=data.graph)
        durations.append(time.perf_counter() - start)
    seconds.append(min(durations))
    train = data.train[:500]
    for name, embedding in {"GPCA": Z, "PCA": GPCA(16).fit_transform(data.X)}.items():
        scaled = embedding / embedding.std()
        head = LogisticRegression(max_iter=200).fit(scaled[train], data.y[train])
        accuracies[name].append(head.score(scaled[data.test], data.y[data.test]))
    print(f"{data.graph.n_edges:>9,} edges: {seconds[-1]:.2f} s")

# %%
# Left: the time of ``fit_transform``, the shorter of two calls. Right: the accuracy of a logistic
# regression on 500 labels.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.loglog(sizes, seconds, "o-", color="#0072B2", label="measured")
slope = np.array(sizes) / sizes[-1] * seconds[-1]
left.loglog(sizes, slope, ":", color="#666666", label="linear in the edges")
left.set_title("seconds", fontsize=11)
for (name, values), colour, mark in zip(
    accuracies.items(), ["#D55E00", "#0072B2"], "so", strict=True
):
    right.semilogx(sizes, np.multiply(values, 100), mark + "-", color=colour, label=name)
right.set_ylim(0, 100)
right.set_title("accuracy in %", fontsize=11)
for axis in (left, right):
    axis.set_xlabel("edges")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#e0e0e0", lw=0.6)
plt.show()
