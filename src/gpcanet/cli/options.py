"""The options that several commands share, and what they say about the data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .console import Console

if TYPE_CHECKING:
    from ..datasets import Dataset

_FILES, _MODEL, _RUN = "Your files", "Method", "Running"


def _option(
    panel: str, *names: str, help: str, metavar: str | None = None
) -> typer.models.OptionInfo:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


DatasetName = Annotated[
    str | None, typer.Argument(help="A name from `gpcanet datasets list`, instead of files.")
]
RequiredName = Annotated[str, typer.Argument(help="A name from `gpcanet datasets list`.")]
Output = Annotated[
    Path | None, _option(_RUN, "--output", "-o", help="Results: .parquet, .csv or .npz.")
]

Features = Annotated[
    Path | None,
    _option(
        _FILES, "--features", "-f", help="A row per node: csv, tsv, parquet, npy, npz, mtx, h5ad."
    ),
]
Edges = Annotated[
    Path | None,
    _option(_FILES, "--edges", "-e", help="A row per edge: csv, tsv, parquet, npz, mtx."),
]
Labels = Annotated[
    Path | None,
    _option(_FILES, "--labels", "-l", help="A row per label: csv, tsv, parquet, npy, npz."),
]
IdColumn = Annotated[
    str | None, _option(_FILES, "--id", help="Column of node ids in features and labels [id].")
]
Source = Annotated[str, _option(_FILES, "--source", help="Column of one end of an edge.")]
Target = Annotated[str, _option(_FILES, "--target", help="Column of the other end.")]
Weight = Annotated[str | None, _option(_FILES, "--weight", help="Column of weights [weight].")]
LabelColumn = Annotated[
    str | None, _option(_FILES, "--label", help="Column of labels, in either file [label].")
]
SplitColumn = Annotated[
    str | None,
    _option(_FILES, "--split", help="Column with train, validation or test [split]."),
]
Ignore = Annotated[
    list[str] | None,
    _option(
        _FILES, "--ignore", metavar="<str>", help="Column that is no feature; repeat for more."
    ),
]
Neighbors = Annotated[
    int | None,
    _option(_FILES, "--neighbors", help="No edges: join each node to its K most similar."),
]
DropUnknown = Annotated[
    bool, _option(_FILES, "--drop-unknown", help="Drop edges and labels of nodes without features.")
]

Alpha = Annotated[
    float | None,
    _option(
        _MODEL,
        "--alpha",
        "-a",
        help="How much neighbours are drawn together; 0 ignores the graph, 1 to 50 is usual [10].",
    ),
]
Alphas = Annotated[
    list[float] | None,
    _option(
        _MODEL,
        "--alpha",
        "-a",
        metavar="<float>",
        help="As for embed; repeat it to average over several [5, 10 and 20].",
    ),
]
Components = Annotated[
    int | None, _option(_MODEL, "--components", "-k", help="Dimensions [128, or all if fewer].")
]
Beta = Annotated[
    float | None,
    _option(_MODEL, "--beta", "-b", help="Weight of labels in the embedding, 0 to 1 [0]."),
]
Normalization = Annotated[
    str | None,
    _option(_MODEL, "--normalization", help="sym (symmetric) or rw (random walk) [sym]."),
]
Iterations = Annotated[
    int | None,
    _option(
        _MODEL, "--iterations", help="Stop after this many steps, as the paper (5), not when exact."
    ),
]
Precision = Annotated[
    str | None,
    _option(
        _MODEL, "--precision", help="full, or half: large graphs in half the time, 3 digits [full]."
    ),
]
SavedModel = Annotated[
    Path | None, _option(_MODEL, "--model", help="Apply this saved model instead of fitting one.")
]
SaveModel = Annotated[
    Path | None, _option(_MODEL, "--save-model", help="Keep the fitted model (.safetensors).")
]

_TRAINING = "Training"
ModelName = Annotated[
    str,
    _option(
        _MODEL, "--model", "-m", help="gcn, sage, gat, gatv2, gin, appnp, sgc, mlp or gpcanet."
    ),
]
InitName = Annotated[
    str, _option(_MODEL, "--init", help="First weights: gpca, xavier, he or orthogonal.")
]
Layers = Annotated[int, _option(_MODEL, "--layers", "-L", help="Number of layers.")]
Hidden = Annotated[int, _option(_MODEL, "--hidden", help="Width of the hidden layers.")]
Dropout = Annotated[float, _option(_MODEL, "--dropout", help="Share of values dropped.")]
LayerAlpha = Annotated[
    list[float] | None,
    _option(
        _MODEL, "--alpha", "-a", metavar="<float>", help="Of gpcanet; repeat it, one a layer [1]."
    ),
]
Epochs = Annotated[int | None, _option(_TRAINING, "--epochs", help="At most so many [1000].")]
LearningRate = Annotated[float | None, _option(_TRAINING, "--lr", help="Of Adam [0.001].")]
WeightDecay = Annotated[
    float | None, _option(_TRAINING, "--weight-decay", help="Of Adam [0.0005].")
]
Patience = Annotated[
    int | None,
    _option(_TRAINING, "--patience", help="Stop after so many epochs without a gain [never]."),
]
EvalEvery = Annotated[
    int | None, _option(_TRAINING, "--eval-every", help="Epochs between two looks [1].")
]
Parts = Annotated[
    int | None,
    _option(_TRAINING, "--parts", help="Cut the graph into so many, for mini-batches [1]."),
]
PartsPerBatch = Annotated[
    int | None, _option(_TRAINING, "--parts-per-batch", help="Parts in a mini-batch [1].")
]
Device = Annotated[
    str | None, _option(_TRAINING, "--device", help="cpu, cuda, ... [a GPU if there is one].")
]
Checkpoint = Annotated[
    Path | None,
    _option(
        _TRAINING,
        "--checkpoint",
        help="Where the training stands (.safetensors); it goes on from there if it exists.",
    ),
]

MemoryLimit = Annotated[
    str | None,
    _option(
        _RUN,
        "--memory-limit",
        metavar="<size>",
        help="Most memory of an embedding beyond graph and features, as 1.5GiB.",
    ),
]
Force = Annotated[bool, _option(_RUN, "--force", help="Replace files that exist.")]
DataDir = Annotated[
    Path | None, _option(_RUN, "--data-dir", help="Folder with dataset files [GPCANET_DATA_DIR].")
]
Offline = Annotated[
    bool, _option(_RUN, "--offline", help="Never use the network [GPCANET_OFFLINE].")
]
Quiet = Annotated[
    bool, _option(_RUN, "--quiet", "-q", help="Only results, errors and warnings about the data.")
]
AsJson = Annotated[bool, _option(_RUN, "--json", help="Results as JSON on standard output.")]


def check_apart(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Raise if an output is the same file as an input or another output, links included."""
    for position, output in enumerate(outputs):
        for other in inputs:
            if _is_same_file(output, other):
                raise InputError(
                    f"{output} is the same file as the input {other}, which would be lost; choose "
                    f"another name"
                )
        for other in outputs[:position]:
            if _is_same_file(output, other):
                raise InputError(
                    f"{output} and {other} are the same file, but hold different results; choose "
                    f"another name for one"
                )


def _is_same_file(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:  # one of them does not exist yet
        return os.path.realpath(first) == os.path.realpath(second)


@dataclass(frozen=True)
class Results:
    """Where results go, and whether a saved model makes them."""

    output: Path | None
    model: Path | None
    save_model: Path | None
    force: bool
    memory_limit: str | None = None  # for a saved model as well as for a new one

    def check(
        self, settings: dict[str, Any], data: Input, *, checkpoint: Path | None = None
    ) -> None:
        """Raise before any work is done if it could not be finished, or not as asked."""
        from ..files import check_output
        from ..utils.atomic import check_target

        if self.model is not None and self.save_model is not None:
            raise InputError(
                "--model applies a saved model and --save-model keeps a new one; give one"
            )
        if self.model is not None and settings:
            raise InputError(f"{self.model} brings its own settings; leave out {min(settings)}")
        if self.output is not None:
            check_output(self.output, overwrite=self.force)
        if self.save_model is not None:
            if self.save_model.suffix != ".safetensors":
                raise InputError(f"{self.save_model}: models are saved as .safetensors")
            check_target(self.save_model, overwrite=self.force)
        if checkpoint is not None:
            check_target(checkpoint, overwrite=True)
        outputs = self.output, self.save_model, checkpoint
        inputs = data.features, data.edges, data.labels, self.model
        check_apart(
            [path for path in outputs if path is not None],
            [path for path in inputs if path is not None],
        )

    @property
    def written(self) -> list[str]:
        return [str(path) for path in (self.output, self.save_model) if path is not None]


@dataclass(frozen=True)
class Input:
    """Where a command gets its graph from: a dataset by name, or files."""

    dataset: str | None
    features: Path | None
    edges: Path | None
    labels: Path | None
    id_column: str | None
    source: str
    target: str
    weight: str | None
    label_column: str | None
    split_column: str | None
    ignore: tuple[str, ...]
    neighbors: int | None
    drop_unknown: bool
    data_dir: Path | None
    offline: bool | None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Input:
        """The input among all options of a command, which are named alike there."""
        told = {field.name: options[field.name] for field in fields(cls)}
        told["ignore"] = tuple(told["ignore"] or ())
        told["offline"] = told["offline"] or None  # not given: the environment decides
        return cls(**told)

    @property
    def id_name(self) -> str:
        return self.id_column or "id"

    def load(self, console: Console) -> Dataset:
        """The graph with its features, and a line about what it is."""
        given = [path for path in (self.features, self.edges, self.labels) if path is not None]
        if self.dataset is not None and given:
            raise InputError(f"give a dataset ({self.dataset}) or files ({given[0]}), not both")
        if self.dataset is not None:
            self._refuse_options_of_files()
        with console.phase("reading"):
            data = self._load_named(console) if self.dataset is not None else self._load_files()
        told = f"{data.name}: {data.graph.summary()}, {data.X.shape[1]:,} features"
        console.note(told)
        for note in data.notes:
            if note not in console.warned:
                console.note(note)
        return data

    def _refuse_options_of_files(self) -> None:
        given = {
            "--id": self.id_column,
            "--source": self.source != "source",
            "--target": self.target != "target",
            "--weight": self.weight,
            "--label": self.label_column,
            "--split": self.split_column,
            "--ignore": self.ignore,
            "--neighbors": self.neighbors,
            "--drop-unknown": self.drop_unknown,
        }
        for option, value in given.items():
            if value:
                raise InputError(f"{option} is for files; {self.dataset} has all it needs")

    def _load_named(self, console: Console) -> Dataset:
        from ..datasets import load

        assert self.dataset is not None
        return load(self.dataset, self.data_dir, offline=self.offline, progress=console.progress)

    def _load_files(self) -> Dataset:
        from ..files import load_files

        if self.features is None:
            raise InputError("give the name of a dataset, or --features and --edges")
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
            ignore=self.ignore,
            neighbors=self.neighbors,
            drop_unknown=self.drop_unknown,
        )
