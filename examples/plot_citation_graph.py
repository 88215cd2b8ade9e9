"""
Classify the papers of a citation graph
=======================================

Cora has 2,708 papers with a bag of words each, 5,278 citations and 140 known topics. GPCA projects
the words to a few components that vary little along citations, so that a linear classifier on them
uses both. If Cora cannot be had, the digits of scikit-learn, connected to their nearest neighbours,
replace it.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE
from sklearn.preprocessing import normalize

from gpcanet import GPCAClassifier, GPCAPath
from gpcanet.datasets import DataUnavailableError, load

try:
    data = load("cora")
except DataUnavailableError:
    data = load("digits")
print(f"{data.name}: {data.graph.summary()}")

# %%
# How strong should the graph be?
# -------------------------------
# ``GPCAPath`` embeds the nodes for many values of alpha. A logistic regression on 20 labels per
# class (5 for the digits) shows what each is worth. ``alpha = 0`` is PCA, without the graph.

alphas = [0, 0.5, 1, 2, 5, 10, 20, 50]
path = GPCAPath(n_components=64, alphas=alphas).fit(data.X, graph=data.graph)


def accuracies(Z):
    """Validation and test accuracy of a linear classifier on the training labels, in %."""
    Z = normalize(Z)
    head = LogisticRegression(C=10).fit(Z[data.train], data.y[data.train])
    correct = head.predict(Z) == data.y
    return 100 * correct[data.validation].mean(), 100 * correct[data.test].mean()


validation, test = zip(*(accuracies(path.embedding(alpha)) for alpha in alphas), strict=True)

# %%
# The classifier that chooses its settings
# ----------------------------------------
# ``GPCAClassifier`` chooses alpha and all other settings by the validation nodes.

model = GPCAClassifier()
model.fit(data.X, data.visible_labels(), graph=data.graph, validation=data.validation)
correct = model.transduction_ == data.y
print(f"test accuracy {correct[data.test].mean():.1%}")

# %%
# A map of the papers
# -------------------
# t-SNE of the embedding. Nearby papers are similar in words and citations; most errors are
# between two topics.

places = TSNE(max_iter=250, early_exaggeration=2, angle=0.8, random_state=0).fit_transform(
    path.embedding(10)
)
wrong = data.test[~correct[data.test]]

colours = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A500",
           "#999999", "#7A5195", "#5C4033"]  # fmt: skip
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.6), width_ratios=[3, 2], layout="constrained"
)
for code, name in enumerate(data.class_names):
    left.scatter(*places[data.y == code].T, s=6, lw=0, color=colours[code], label=name)
left.scatter(*places[wrong].T, s=22, facecolors="none", edgecolors="black", lw=0.6, label="error")
left.set_axis_off()
left.set_title(f"{data.name}: t-SNE of GPCA, alpha = 10", fontsize=11)
left.legend(
    frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 0.02), fontsize=8,
    markerscale=1.6, columnspacing=1, handletextpad=0.2,
)  # fmt: skip
positions = range(len(alphas))
right.plot(positions, test, "o-", color="#0072B2", label="test")
right.plot(positions, validation, "s--", color="#E69F00", label="validation")
right.set_xticks(positions, [f"{alpha:g}" for alpha in alphas])
right.set_xlabel("alpha (0: PCA without the graph)")
right.set_title("Accuracy of a linear classifier in %", fontsize=11)
right.legend(frameon=False, loc="lower right")
right.spines[["top", "right"]].set_visible(False)
right.grid(axis="y", color="#e0e0e0", lw=0.6)
plt.show()
