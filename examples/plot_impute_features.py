"""
Fill in missing features from neighbours
========================================

Sensors in a field measure the temperature, and many values are missing. ``GraphImputer`` keeps what
was measured and sets every other value to the mean of its neighbours: the smoothest surface through
the measurements. The field is generated, so the error is known.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer

from gpcanet import GraphImputer
from gpcanet.datasets import neighbor_graph

rng = np.random.default_rng(0)
places = rng.uniform(size=(3000, 2))
truth = 12 + 4 * np.sin(5 * places[:, 0]) * np.cos(4 * places[:, 1]) + 3 * places[:, 1]
measured = truth + 0.3 * rng.standard_normal(len(truth))
graph = neighbor_graph(places, n_neighbors=8)
print(graph.summary())

# %%
# Nine of ten values are missing.

X = measured[:, None].copy()
X[rng.random(len(X)) < 0.9] = np.nan
filled = GraphImputer().fit_transform(X, graph=graph)

# %%
# The error for other shares, compared with the mean of the column. The measurements have an error
# of 0.3 themselves.


def error(imputer, share, **arguments):
    """Root mean square error of the filled-in values."""
    hidden = np.random.default_rng(1).random(len(measured)) < share
    values = imputer.fit_transform(np.where(hidden, np.nan, measured)[:, None], **arguments)
    return np.sqrt(np.mean((values[hidden, 0] - truth[hidden]) ** 2))


shares = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98])
by_graph = [error(GraphImputer(), share, graph=graph) for share in shares]
by_mean = [error(SimpleImputer(), share) for share in shares]

# %%

figure, axes = plt.subplots(
    1, 3, figsize=(11, 3.4), width_ratios=[1, 1.2, 1.1], layout="constrained"
)
known = ~np.isnan(X[:, 0])
limits = {"vmin": measured.min(), "vmax": measured.max(), "cmap": "viridis", "lw": 0}
axes[0].scatter(*places[~known].T, s=3, color="#dddddd", lw=0)
axes[0].scatter(*places[known].T, s=10, c=X[known, 0], **limits)
axes[0].set_title("measured: one of ten", fontsize=11)
dots = axes[1].scatter(*places.T, s=8, c=filled[:, 0], **limits)
axes[1].set_title("filled in over the graph", fontsize=11)
figure.colorbar(dots, ax=axes[1], label="temperature in °C")
for axis in axes[:2]:
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_color("#cccccc")
axes[2].plot(100 * shares, by_mean, "s--", color="#D55E00", label="mean of the column")
axes[2].plot(100 * shares, by_graph, "o-", color="#0072B2", label="GraphImputer")
axes[2].set_ylim(0)
axes[2].set_xlabel("missing values in %")
axes[2].set_title("root mean square error in °C", fontsize=11)
axes[2].legend(frameon=False, loc="center left")
axes[2].spines[["top", "right"]].set_visible(False)
plt.show()
