"""All options, declared once, in the groups that the commands take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, MissingFeatureError, UnknownNodeError
from .console import Console
from .option_groups import option_names

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..graph import Graph

#: Panels of the help.
FILES, METHOD, TRAINING, RUN = "Your files", "Method", "Training", "Running"


def option(panel: str, *names: str, help: str, **settings: Any) -> typer.models.OptionInfo:
    """Declare an option in a panel of the help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


# -- options of several groups ----------------------------------------------------------------

Force = Annotated[bool, option(RUN, "--force", help="Replace files that exist.")]
DataDir = Annotated[
    Path | None,
    option(
        RUN,
        "--data-dir",
        help="Folder with dataset files [GPCANET_DATA_DIR].",
        exists=True,
        file_okay=False,
    ),
]
Offline = Annotated[
    bool, option(RUN, "--offline", help="Do not use the network [GPCANET_OFFLINE].")
]
Quiet = Annotated[
    bool, option(RUN, "--quiet", "-q", help="Print only results, errors and data warnings.")
]
AsJson = Annotated[bool, option(RUN, "--json", help="Print results as JSON.")]
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
Components = Annotated[
    int | None,
    option(METHOD, "--components", "-k", help="Number of components [128, or all if fewer]."),
]
Precision = Annotated[
    str | None,
    option(
        METHOD, "--precision", help="full, or half: large graphs in half the time, 3 digits [full]."
    ),
]


@dataclass(frozen=True)
class Display:
    """How a command prints."""

    quiet: Quiet = False
    as_json: AsJson = False

    def console(self) -> Console:
        return Console(quiet=self.quiet, as_json=self.as_json)


# -- input ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """The graph that a command reads: a dataset by name, or files.

    Fields have the names of the parameters of :func:`gpcanet.files.load_files`.
    """

    dataset: Annotated[
        str | None,
        typer.Argument(help="Name from `gpcanet datasets list`, instead of files."),
    ] = None
    features: Annotated[
        Path | None,
        option(
            FILES,
            "--features",
            "-f",
            help="One row per node: csv, tsv, parquet, npy, npz, mtx, h5ad.",
        ),
    ] = None
    edges: Annotated[
        Path | None,
        option(FILES, "--edges", "-e", help="One row per edge: csv, tsv, parquet, npz, mtx."),
    ] = None
    labels: Annotated[
        Path | None,
        option(FILES, "--labels", "-l", help="One row per label: csv, tsv, parquet, npy, npz."),
    ] = None
    id_column: Annotated[
        str | None, option(FILES, "--id", help="Column of node ids in features and labels [id].")
    ] = None
    source: Annotated[
        str, option(FILES, "--source", help="Column of the first node of an edge.")
    ] = "source"
    target: Annotated[
        str, option(FILES, "--target", help="Column of the second node of an edge.")
    ] = "target"
    weight: Annotated[
        str | None, option(FILES, "--weight", help="Column of edge weights [weight].")
    ] = None
    label_column: Annotated[
        str | None,
        option(FILES, "--label", help="Column of labels, in either file [label]."),
    ] = None
    split_column: Annotated[
        str | None,
        option(FILES, "--split", help="Column with train, validation or test [split]."),
    ] = None
    ignore: Annotated[
        list[str] | None,
        option(
            FILES, "--ignore", metavar="<str>", help="Column that is not a feature; repeatable."
        ),
    ] = None
    neighbors: Annotated[
        int | None,
        option(
            FILES, "--neighbors", help="Instead of edges: number of nearest neighbours to connect."
        ),
    ] = None
    drop_unknown: Annotated[
        bool,
        option(FILES, "--drop-unknown", help="Drop edges and labels of nodes without features."),
    ] = False
    impute: Annotated[
        bool,
        option(FILES, "--impute", help="Fill in missing features from the neighbours of a node."),
    ] = False
    data_dir: DataDir = None
    offline: Offline = False

    @property
    def id_name(self) -> str:
        """Name of the id column in results."""
        return self.id_column or "id"

    @property
    def files(self) -> dict[str, Path | None]:
        return {"features": self.features, "edges": self.edges, "labels": self.labels}

    def load(
        self, console: Console, known: Graph | None = None, *, numeric_labels: bool = False
    ) -> Dataset:
        """Read the dataset and print a summary; edges may name nodes of ``known``.

        With ``known``, missing features remain NaN. Labels are classes or numbers.
        """
        given = [path for path in self.files.values() if path is not None]
        if self.dataset is not None and given:
            raise InputError(f"give a dataset ({self.dataset}) or files ({given[0]}), not both")
        with console.phase("reading"):
            named = self.dataset is not None
            data = self._load_named() if named else self._load_files(known, numeric_labels)
        if self.impute and known is None:
            from .missing_features import fill_missing

            with console.phase("filling in missing features"):
                data = fill_missing(data)
        console.note(f"{data.name}: {data.graph.summary()}, {data.X.shape[1]:,} features")
        for note in data.notes:
            if note not in console.warned:
                console.note(note)
        return data

    def _load_named(self) -> Dataset:
        from ..datasets import load

        assert self.dataset is not None
        for name, option in option_names(Input).items():
            is_given = getattr(self, name) not in (getattr(Input, name), [])
            if is_given and name not in ("data_dir", "offline"):
                raise InputError(
                    f"{option} applies to files only; leave it out for the dataset {self.dataset}"
                )
        # Without the option, the environment decides.
        return load(self.dataset, self.data_dir, offline=self.offline or None)

    def _load_files(self, known: Graph | None, numeric_labels: bool) -> Dataset:
        from ..files import check_distinct_columns, load_files

        if self.features is None:
            raise InputError("give the name of a dataset, or --features and --edges")
        # h5ad files may contain edges.
        has_edges = self.edges is not None or self.features.suffix.lower() == ".h5ad"
        if not has_edges and self.neighbors is None:
            raise InputError("there are no edges; give --edges or --neighbors")
        options = option_names(Input)
        for group in (
            ("id_column", "label_column", "split_column"),
            ("source", "target", "weight"),
        ):
            check_distinct_columns({options[name]: getattr(self, name) for name in group})
        try:
            return load_files(
                self.features,
                self.edges,
                self.labels,
                id_column=self.id_column,
                source=self.source,
                target=self.target,
                weight=self.weight,
                label_column=self.label_column,
                split_column=self.split_column,
                ignore=self.ignore or (),
                neighbors=self.neighbors,
                drop_unknown=self.drop_unknown,
                numeric_labels=numeric_labels,
                keep_missing=self.impute,
                known=known,
            )
        except MissingFeatureError as error:
            raise InputError(f"{error.problem}; fill it in, or use --impute") from error
        except UnknownNodeError as error:
            advice = f"add it there or use --drop-unknown{error.hint}"
            raise InputError(f"{error.problem}; {advice}") from error


# -- settings of the methods ------------------------------------------------------------------


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

    alpha: Annotated[
        list[float] | None,
        option(
            METHOD,
            "--alpha",
            "-a",
            metavar="<float>",
            help="Strength of graph regularisation; repeat it to try several [0 to 50].",
        ),
    ] = None


@dataclass(frozen=True)
class RegressSettings:
    """Settings of GPCARegressor."""

    n_components: Components = None
    alpha: Annotated[
        list[float] | None,
        option(
            METHOD,
            "--alpha",
            "-a",
            metavar="<float>",
            help="Strength of graph regularisation; repeat it for several [seven from 0 to 50].",
        ),
    ] = None
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
        """The share of labels to hold out; raise if it is not one."""
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
            help="Initial weights: gpca, xavier, he, orthogonal, lsuv, virgo or spog.",
        ),
    ] = "gpca"
    spectrum: Annotated[
        str,
        option(METHOD, "--spectrum", help="Scale of directions for gpca: auto, paper or 0 to 1."),
    ] = "auto"
    head: Annotated[
        str,
        option(METHOD, "--head", help="Output layer for gpca: logistic, ridge or none (random)."),
    ] = "logistic"
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
    n_iter: Iterations = None
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
