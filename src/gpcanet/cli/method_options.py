"""Options of the methods: settings of GPCA, of the estimators and of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..errors import InputError
from .option_groups import option, panel_option
from .options import METHOD, TRAINING

Beta = Annotated[
    float | None,
    panel_option(METHOD, "--beta", "-b", help="Weight of labels in the embedding, 0 to 1 [0]."),
]
Normalization = Annotated[
    str | None,
    panel_option(METHOD, "--normalization", help="sym (symmetric) or rw (random walk) [sym]."),
]
Alphas = Annotated[
    list[float] | None,
    panel_option(
        METHOD,
        "--alpha",
        "-a",
        metavar="<float>",
        help="Strength of graph regularisation; repeat it for several [seven from 0 to 50].",
    ),
]
Components = Annotated[
    int | None,
    panel_option(METHOD, "--components", "-k", help="Number of components [128, or all if fewer]."),
]
Precision = Annotated[
    str | None,
    panel_option(
        METHOD,
        "--precision",
        help="full, or half (half the time on large graphs, about 3 digits) [full].",
    ),
]


@dataclass(frozen=True)
class GPCASettings:
    """Settings that embed and classify share; fields are named as the estimators' parameters."""

    n_components: Components = None
    beta: Beta = None
    normalization: Normalization = None
    precision: Precision = None


@dataclass(frozen=True)
class EmbedSettings(GPCASettings):
    """Settings of GPCA."""

    alpha: float | None = option(
        METHOD,
        "--alpha",
        "-a",
        help="Strength of graph regularisation; 0 ignores the graph, 1 to 50 is usual [10].",
    )
    n_iter: int | None = option(
        METHOD, "--iterations", help="Fixed number of solver steps; the paper uses 5 [until exact]."
    )


@dataclass(frozen=True)
class Scaling:
    """Scaling of the features for embed and train."""

    standardize: bool = option(
        METHOD,
        "--standardize",
        default=False,
        help="Scale each column of the features to unit variance; not with --save-model.",
    )


@dataclass(frozen=True)
class ClassifySettings(GPCASettings):
    """Settings of GPCAClassifier."""

    alpha: Alphas = None


@dataclass(frozen=True)
class RegressSettings:
    """Settings of GPCARegressor."""

    n_components: Components = None
    alpha: Alphas = None
    normalization: Normalization = None
    precision: Precision = None


@dataclass(frozen=True)
class ClassMetric:
    """Score of predicted classes."""

    metric: str = option(
        METHOD,
        "--metric",
        default="accuracy",
        help="Score shown first: accuracy, macro-f1, roc-auc or log-loss.",
    )


@dataclass(frozen=True)
class NumberMetric:
    """Score of predicted numbers."""

    metric: str = option(
        METHOD, "--metric", default="r2", help="Score shown first: r2, mae or rmse."
    )


@dataclass(frozen=True)
class HoldOutSettings:
    """Which labels are held out if the data has no split."""

    test_share: float | None = option(
        METHOD, "--test-share", help="Share of labels held out if there is no split [0.2]."
    )
    seed: int | None = option(
        METHOD, "--seed", min=0, help="Random seed for the held-out labels [0]."
    )

    def checked_share(self) -> float:
        """The share of labels to hold out; raise if it is out of range."""
        from ..datasets.splits import TEST_SHARE

        share = TEST_SHARE if self.test_share is None else self.test_share
        if not 0 <= share < 1:
            raise InputError(f"--test-share {share} must be at least 0 and less than 1")
        return share


@dataclass(frozen=True)
class ExploreSettings:
    """Settings of ``explore``; fields are named as the parameters of GPCAPath."""

    n_components: int | None = option(
        METHOD, "--components", "-k", help="Number of components [64]."
    )
    alphas: Alphas = None
    betas: list[float] | None = option(
        METHOD,
        "--beta",
        "-b",
        metavar="<float>",
        help="Weight of labels, 0 to 1; repeat it for several [0, 0.2 and 0.5].",
    )
    normalization: Normalization = None


@dataclass(frozen=True)
class PageSettings:
    """What the page of ``explore`` shows."""

    layout: str = option(
        METHOD,
        "--layout",
        default="auto",
        help="pca (first two components), tsne, or auto: tsne up to 5,000 nodes.",
    )
    max_nodes: int = option(
        METHOD,
        "--max-nodes",
        default=200_000,
        help="Largest number of nodes shown; larger graphs are sampled.",
    )


@dataclass(frozen=True)
class NetworkSettings:
    """Model and initialisation of ``train``."""

    model: str = option(
        METHOD,
        "--model",
        "-m",
        default="gcn",
        help="gcn, sage, gat, gatv2, gin, appnp, sgc, mlp or gpcanet.",
    )
    init: str = option(
        METHOD,
        "--init",
        default="gpca",
        help="Initial weights: gpca, xavier, he, orthogonal, lsuv, virgo, spog or ginit.",
    )
    spectrum: str = option(
        METHOD,
        "--spectrum",
        default="auto",
        help="Scale of directions for gpca: auto, paper or 0 to 1.",
    )
    head: str = option(
        METHOD,
        "--head",
        default="ridge",
        help="Output layer for gpca: ridge, logistic or none (random).",
    )
    layers: int = option(METHOD, "--layers", "-L", default=2, help="Number of layers.")
    hidden: int = option(METHOD, "--hidden", default=128, help="Width of the hidden layers.")
    dropout: float = option(METHOD, "--dropout", default=0.5, help="Dropout probability.")


@dataclass(frozen=True)
class PropagationSettings:
    """Settings of the model gpcanet; ``normalization`` is also one of gcn."""

    alpha: list[float] | None = option(
        METHOD,
        "--alpha",
        "-a",
        metavar="<float>",
        help="Graph regularisation of gpcanet; repeat it for each layer [1].",
    )
    beta: Beta = None
    n_iter: int | None = option(METHOD, "--iterations", help="Number of fixed-point steps [5].")
    normalization: Normalization = None


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training loop."""

    epochs: int | None = option(TRAINING, "--epochs", help="Largest number of epochs [1000].")
    lr: float | None = option(TRAINING, "--lr", help="Learning rate of Adam [0.001].")
    weight_decay: float | None = option(
        TRAINING, "--weight-decay", help="Weight decay of Adam [0.0005]."
    )
    patience: int | None = option(
        TRAINING, "--patience", help="Epochs without improvement before it stops [no limit]."
    )
    eval_every: int | None = option(
        TRAINING, "--eval-every", help="Epochs between two evaluations [1]."
    )
    parts: int | None = option(
        TRAINING, "--parts", help="Number of graph partitions for mini-batches [1]."
    )
    parts_per_batch: int | None = option(
        TRAINING, "--parts-per-batch", help="Partitions per mini-batch [1]."
    )
    seed: int = option(
        TRAINING,
        "--seed",
        default=0,
        min=0,
        help="Random seed for weights, dropout and graph partitioning.",
    )
    device: str | None = option(
        TRAINING, "--device", help="cpu, cuda, ... [a GPU if there is one]."
    )
