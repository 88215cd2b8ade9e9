"""Draw docs/images/path.png, the figure of guide-path.md: ``python docs/plot_path.py``."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from gpcanet import GPCAPath
from gpcanet.datasets import load
from gpcanet.linalg import Propagation
from gpcanet.plotting import plot_path

ALPHAS = np.geomspace(0.1, 100, 25)
BLUE, ORANGE = "#1f5fa8", "#d9730d"


def measure():
    """The path, and validation and test accuracy and roughness for each alpha."""
    data = load("cora")
    path = GPCAPath(64, alphas=ALPHAS).fit(data.X, graph=data.graph)
    P = Propagation(data.graph.indptr, data.graph.indices)
    rows = []
    for alpha in ALPHAS:
        Z = path.embedding(alpha)
        unit = normalize(Z)
        head = LogisticRegression(max_iter=1000).fit(unit[data.train], data.y[data.train])
        correct = head.predict(unit) == data.y
        accuracies = correct[data.validation].mean(), correct[data.test].mean()
        roughness = np.sum(Z * (Z - P @ Z)) / np.sum(Z * Z)
        rows.append((*accuracies, roughness))
    validation, test, roughness = zip(*rows, strict=True)
    return path, 100 * np.array(validation), 100 * np.array(test), roughness


def draw(file):
    """Draw the figure and write it to a file."""
    path, validation, test, roughness = measure()
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    plot_path(path, ax=axes[0]).set_ylabel("")
    axes[0].set_yticks([20, 50, 100, 200, 500], ["20", "50", "100", "200", "500"])
    axes[0].yaxis.set_minor_locator(plt.NullLocator())
    axes[0].set_title("Eigenvalues no. 1, 2, 4, ... 64", fontsize=10)

    axes[1].semilogx(ALPHAS, test, color=BLUE, lw=1.8, label="test (1,000 nodes)")
    axes[1].semilogx(ALPHAS, validation, color=ORANGE, lw=1.8, label="validation (500 nodes)")
    best = int(np.argmax(validation))
    axes[1].plot(ALPHAS[best], validation[best], "o", color=ORANGE)
    axes[1].annotate(
        f"best on validation:\nalpha = {ALPHAS[best]:.0f}", (ALPHAS[best], validation[best]),
        xytext=(0, -14), textcoords="offset points", ha="center", va="top", fontsize=9,
        color=ORANGE,
    )  # fmt: skip
    axes[1].set_ylim(min(test.min(), validation.min()) - 2, max(test.max(), validation.max()) + 3)
    axes[1].legend(frameon=False, loc="lower right", fontsize=9)
    axes[1].set_title("Accuracy of a logistic head, per cent", fontsize=10)

    axes[2].loglog(ALPHAS, roughness, color=BLUE, lw=1.8)
    axes[2].set_yticks([0.005, 0.01, 0.05, 0.1, 0.5], ["0.005", "0.01", "0.05", "0.1", "0.5"])
    axes[2].yaxis.set_minor_locator(plt.NullLocator())
    axes[2].set_title(r"Roughness  tr$(Z^T L Z)$ / tr$(Z^T Z)$", fontsize=10)
    for axis in axes:
        axis.set_xlabel("alpha")
        axis.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        axis.grid(axis="y", color="#dddddd", lw=0.6)
        axis.set_axisbelow(True)
    figure.savefig(file, dpi=140)


if __name__ == "__main__":
    draw(Path(__file__).parent / "images" / "path.png")
