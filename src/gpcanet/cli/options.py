"""Options of the input and of the display, and those that several commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .console import Console
from .log_file import log_to_file
from .option_groups import option, option_names, panel_option
from .standard_input import STANDARD_INPUT, spool_standard_input

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..graph import Graph

#: Panels of the help.
FILES, METHOD, TRAINING, RUN = "Your files", "Method", "Training", "Running"


# -- options of several groups ----------------------------------------------------------------

Force = Annotated[bool, panel_option(RUN, "--force", help="Replace files that exist.")]
DataDir = Annotated[
    Path | None,
    panel_option(
        RUN,
        "--data-dir",
        help="Folder with dataset files [GPCANET_DATA_DIR].",
        exists=True,
        file_okay=False,
    ),
]
Offline = Annotated[
    bool, panel_option(RUN, "--offline", help="Do not use the network [GPCANET_OFFLINE].")
]
Quiet = Annotated[
    bool, panel_option(RUN, "--quiet", "-q", help="Print only results, errors and data warnings.")
]
AsJson = Annotated[bool, panel_option(RUN, "--json", help="Print results and errors as JSON.")]


@dataclass(frozen=True)
class Display:
    """How a command prints."""

    quiet: Quiet = False
    as_json: AsJson = False
    log_file: Path | None = option(
        RUN,
        "--log-file",
        help="File (.log or .txt) to which notes, warnings and errors are appended.",
    )

    def console(self, data: Input | None = None) -> Console:
        """The console of a command, which reads ``data``."""
        if self.log_file is not None:
            if data is not None:
                from ..files import check_outside_of_inputs

                check_outside_of_inputs([self.log_file], [data.features, data.edges, data.labels])
            log_to_file(self.log_file)
        return Console(quiet=self.quiet, as_json=self.as_json)


# -- input ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """The graph that a command reads: a dataset by name, or files.

    Fields have the names of the parameters of :func:`gpcanet.files.load_files`.
    """

    dataset: Annotated[
        str | None, typer.Argument(help="Name from `gpcanet datasets list`, instead of files.")
    ] = None
    features: Path | None = option(
        FILES,
        "--features",
        "-f",
        help="One row per node: csv, tsv, parquet, npy, npz, mtx, h5ad; a folder or a quoted "
        "pattern of tables; - for standard input.",
    )
    edges: Path | None = option(
        FILES,
        "--edges",
        "-e",
        help="One row per edge: a table (csv, tsv, parquet, folder, pattern), npy, npz or mtx.",
    )
    labels: Path | None = option(
        FILES, "--labels", "-l", help="One row per labelled node: a table, npy or npz."
    )
    id_column: str | None = option(
        FILES, "--id", help="Column of node ids in features and labels [id]."
    )
    source: str = option(
        FILES, "--source", default="source", help="Column of the first node of an edge."
    )
    target: str = option(
        FILES, "--target", default="target", help="Column of the second node of an edge."
    )
    weight: str | None = option(FILES, "--weight", help="Column of edge weights [weight].")
    label_column: str | None = option(
        FILES, "--label", help="Column of labels, in either file [label]."
    )
    split_column: str | None = option(
        FILES, "--split", help="Column with train, validation or test [split]."
    )
    ignore: list[str] | None = option(
        FILES, "--ignore", metavar="<str>", help="Column that is not a feature; repeatable."
    )
    one_hot: list[str] | None = option(
        FILES,
        "--one-hot",
        metavar="<str>",
        help="Column of categories to encode as columns of 0 and 1; repeatable.",
    )
    layer: str | None = option(FILES, "--layer", help="Layer of an h5ad file instead of X.")
    obsm: str | None = option(FILES, "--obsm", help="Array in obsm of an h5ad file instead of X.")
    obsp: str | None = option(
        FILES, "--obsp", help="Graph in obsp of an h5ad file [connectivities]."
    )
    neighbors: int | None = option(
        FILES,
        "--neighbors",
        help="Connect each node to this many nearest neighbours, instead of --edges.",
    )
    drop_unknown: bool = option(
        FILES,
        "--drop-unknown",
        default=False,
        help="Drop edges and labels of nodes without features.",
    )
    impute: bool = option(
        FILES,
        "--impute",
        default=False,
        help="Fill in missing features from the neighbours of a node.",
    )
    data_dir: DataDir = None
    offline: Offline = False

    @property
    def id_name(self) -> str:
        """Name of the id column in results."""
        return self.id_column or "id"

    @cached_property
    def files(self) -> dict[str, Path | None]:
        """The files by their names on the command line; standard input as a temporary file."""
        given = {"features": self.features, "edges": self.edges, "labels": self.labels}
        piped = [name for name, path in given.items() if path == STANDARD_INPUT]
        if len(piped) > 1:
            raise InputError(
                f"--{piped[0]} and --{piped[1]} are both standard input (-); give a file for one"
            )
        return given | {name: spool_standard_input() for name in piped}

    def load(
        self,
        console: Console,
        known: Graph | None = None,
        *,
        numeric_labels: bool = False,
        categories: Mapping[str, Sequence[str]] | None = None,
    ) -> Dataset:
        """Read the dataset and print a summary; edges may name nodes of ``known``.

        With ``known``, missing features remain NaN. Labels are classes or numbers. ``categories``
        are those of a model, by column.
        """
        given = [path for path in self.files.values() if path is not None]
        if self.dataset is not None and given:
            hint = "; put quotes around a pattern of files" if Path(self.dataset).exists() else ""
            raise InputError(
                f"give a dataset ({self.dataset}) or files ({given[0]}), not both{hint}"
            )
        with console.phase("reading"):
            if self.dataset is not None:
                data = self._load_named()
            else:
                data = self._load_files(known, numeric_labels, categories or {})
        if self.impute and known is None:
            from .missing_features import fill_missing

            with console.phase("filling in missing features"):
                data = fill_missing(data)
        console.note(f"{data.name}: {_sizes(data)}")
        for note in data.notes:
            if note not in console.warned:
                console.note(note)
        return data

    def check_no_file_options(self, source: str, allowed: Sequence[str] = ()) -> None:
        """Raise if an option applies to files, which are not read; ``source`` is read instead."""
        for name, shown in option_names(Input).items():
            is_given = getattr(self, name) not in (getattr(Input, name), [])
            if is_given and name not in ("data_dir", "offline", *allowed):
                raise InputError(f"{shown} applies to files only; leave it out for {source}")

    def _load_named(self) -> Dataset:
        from ..datasets import load, names

        assert self.dataset is not None
        self.check_no_file_options(f"the dataset {self.dataset}")
        if self.dataset not in names() and Path(self.dataset).exists():
            raise InputError(
                f"{self.dataset} is a file, not a dataset; give it as --features or --edges"
            )
        # Without the option, the environment decides.
        return load(self.dataset, self.data_dir, offline=self.offline or None)

    def _load_files(
        self,
        known: Graph | None,
        numeric_labels: bool,
        categories: Mapping[str, Sequence[str]],
    ) -> Dataset:
        from ..files import check_distinct_columns, load_files

        features, edges, labels = self.files.values()
        if features is None:
            raise InputError("give the name of a dataset, or --features and --edges")
        # h5ad files may contain edges.
        has_edges = edges is not None or features.suffix.lower() == ".h5ad"
        if not has_edges and self.neighbors is None:
            raise InputError("there are no edges; give --edges or --neighbors")
        options = option_names(Input)
        for group in (
            ("id_column", "label_column", "split_column"),
            ("source", "target", "weight"),
        ):
            check_distinct_columns({options[name]: getattr(self, name) for name in group})
        return load_files(
            features,
            edges,
            labels,
            id_column=self.id_column,
            source=self.source,
            target=self.target,
            weight=self.weight,
            label_column=self.label_column,
            split_column=self.split_column,
            ignore=self.ignore or (),
            one_hot=dict.fromkeys(self.one_hot or ()) | dict(categories),
            neighbors=self.neighbors,
            drop_unknown=self.drop_unknown,
            numeric_labels=numeric_labels,
            keep_missing=self.impute,
            known=known,
            layer=self.layer,
            obsm=self.obsm,
            obsp=self.obsp,
        )


def _sizes(data: Dataset) -> str:
    """Nodes, edges and features; for new nodes of a model, also edges to its training nodes."""
    from ..graph.assembly import count_of

    features = count_of(data.X.shape[1], "feature")
    if data.neighborhood is None:
        return f"{data.graph.summary()}, {features}"
    nodes = count_of(data.graph.n_nodes, "new node")
    edges = count_of(data.neighborhood.n_edges, "edge")
    return f"{nodes}, {edges}, {data.graph.n_edges:,} of them between new nodes, {features}"
