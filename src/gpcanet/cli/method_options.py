"""Options of the methods: settings of GPCA, of the estimators and of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..errors import InputError
from .options import METHOD, TRAINING, option

Beta = Annotated[
    float | None,
    option(METHOD, "--beta", "-b", help="Weight of labels in the embedding, 0 to 1 [0]."),
]
Normalization = Annotated[
    str | None,
    option(METHOD, "--normalization", help="sym (symmetric) or rw (random walk) [sym]."),
]
Iterations = Annotated[
    int | None,
    option(
        METHOD,
        "--iterations",
        help="Fixed number of solver steps; the paper uses 5 [until exact].",
    ),
]
NetworkIterations = Annotated[
    int | None, option(METHOD, "--iterations", help="Number of fixed-point steps [5].")
]
Alphas = Annotated[
    list[float] | None,
    option(
        METHOD,
        "--alpha",
        "-a",
        metavar="<float>",
        help="Strength of graph regularisation; repeat it for several [seven from 0 to 50].",
    ),
]
Components = Annotated[
    int | None,
    option(METHOD, "--components", "-k", help="Number of components [128, or all if fewer]."),
]
Precision = Annotated[
    str | None,
    option(
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

    alpha: Annotated[
        float | None,
        option(
            METHOD,
            "--alpha",
            "-a",
            help="Strength of graph regularisation; 0 ignores the graph, 1 to 50 is usual [10].",
        ),
    ] = None
    n_iter: Iterations = None


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

    metric: Annotated[
        str,
        option(
            METHOD, "--metric", help="Score shown first: accuracy, macro-f1, roc-auc or log-loss."
        ),
    ] = "accuracy"


@dataclass(frozen=True)
class NumberMetric:
    """Score of predicted numbers."""

    metric: Annotated[
        str, option(METHOD, "--metric", help="Score shown first: r2, mae or rmse.")
    ] = "r2"


@dataclass(frozen=True)
class HoldOutSettings:
    """Which labels are held out if the data has no split."""

    test_share: Annotated[
        float | None,
        option(METHOD, "--test-share", help="Share of labels held out if there is no split [0.2]."),
    ] = None
    seed: Annotated[
        int | None,
        option(METHOD, "--seed", min=0, help="Random seed for the held-out labels [0]."),
    ] = None

    def checked_share(self) -> float:
        """The share of labels to hold out; raise if it is out of range."""
        from ..datasets.splits import TEST_SHARE

        share = TEST_SHARE if self.test_share is None else self.test_share
        if not 0 <= share < 1:
            raise InputError(f"--test-share {share} must be at least 0 and less than 1")
        return share


@dataclass(frozen=True)
class NetworkSettings:
    """Model and initialisation of ``train``."""

    model: Annotated[
        str,
        option(
            METHOD, "--model", "-m", help="gcn, sage, gat, gatv2, gin, appnp, sgc, mlp or gpcanet."
        ),
    ] = "gcn"
    init: Annotated[
        str,
        option(
            METHOD,
            "--init",
            help="Initial weights: gpca, xavier, he, orthogonal, lsuv, virgo, spog or ginit.",
        ),
    ] = "gpca"
    spectrum: Annotated[
        str,
        option(METHOD, "--spectrum", help="Scale of directions for gpca: auto, paper or 0 to 1."),
    ] = "auto"
    head: Annotated[
        str,
        option(METHOD, "--head", help="Output layer for gpca: ridge, logistic or none (random)."),
    ] = "ridge"
    layers: Annotated[int, option(METHOD, "--layers", "-L", help="Number of layers.")] = 2
    hidden: Annotated[int, option(METHOD, "--hidden", help="Width of the hidden layers.")] = 128
    dropout: Annotated[float, option(METHOD, "--dropout", help="Dropout probability.")] = 0.5


@dataclass(frozen=True)
class PropagationSettings:
    """Settings of the model gpcanet; ``normalization`` is also one of gcn."""

    alpha: Annotated[
        list[float] | None,
        option(
            METHOD,
            "--alpha",
            "-a",
            metavar="<float>",
            help="Graph regularisation of gpcanet; repeat it for each layer [1].",
        ),
    ] = None
    beta: Beta = None
    n_iter: NetworkIterations = None
    normalization: Normalization = None


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training loop."""

    epochs: Annotated[
        int | None, option(TRAINING, "--epochs", help="Largest number of epochs [1000].")
    ] = None
    lr: Annotated[float | None, option(TRAINING, "--lr", help="Learning rate of Adam [0.001].")] = (
        None
    )
    weight_decay: Annotated[
        float | None, option(TRAINING, "--weight-decay", help="Weight decay of Adam [0.0005].")
    ] = None
    patience: Annotated[
        int | None,
        option(
            TRAINING, "--patience", help="Epochs without improvement before it stops [no limit]."
        ),
    ] = None
    eval_every: Annotated[
        int | None, option(TRAINING, "--eval-every", help="Epochs between two evaluations [1].")
    ] = None
    parts: Annotated[
        int | None,
        option(TRAINING, "--parts", help="Number of graph partitions for mini-batches [1]."),
    ] = None
    parts_per_batch: Annotated[
        int | None, option(TRAINING, "--parts-per-batch", help="Partitions per mini-batch [1].")
    ] = None
    seed: Annotated[
        int,
        option(
            TRAINING,
            "--seed",
            min=0,
            help="Random seed for weights, dropout and graph partitioning.",
        ),
    ] = 0
    device: Annotated[
        str | None, option(TRAINING, "--device", help="cpu, cuda, ... [a GPU if there is one].")
    ] = None
