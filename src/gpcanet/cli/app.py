"""The commands and their help. Heavy modules are imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from . import method_options as m
from . import options as o
from .cluster_options import ClusterOptions
from .console import Console, print_result
from .entry import make_app, run_app
from .option_groups import add_command
from .output_options import ModelFiles, PageFile, TrainingFiles

app = make_app(
    "gpcanet",
    help="Node embeddings in closed form: graph-regularised PCA, without GPU and epochs.\n\n"
    "gpcanet demo\n\n"
    "gpcanet classify cora\n\n"
    "gpcanet embed -e edges.csv -f papers.csv -o embedding.csv\n\n"
    "edges.csv has the columns source and target, papers.csv the column id and numbers. "
    "gpcanet COMMAND --help shows all options.",
    invoke_without_command=True,
    add_completion=True,
)
datasets_app = typer.Typer(
    name="datasets", help="List, describe and download datasets.", invoke_without_command=True
)
app.add_typer(datasets_app)

DatasetName = Annotated[str, typer.Argument(help="Name from `gpcanet datasets list`.")]


def run() -> None:
    """Run the command line."""
    run_app(app, "gpcanet")


def _print_version(requested: bool) -> None:
    if requested:
        print_result(f"gpcanet {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    _help_without_command(context)


@datasets_app.callback()
def _help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print_result(context.get_help())


@add_command(app)
def demo(
    display: o.Display,
    figure: Annotated[Path, typer.Option("--figure", help="File of the figure.")] = Path(
        "demo.png"
    ),
    force: o.Force = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
) -> None:
    """Classify the papers of Cora and plot their embeddings.

    Compares the features alone, the graph alone, and GPCA. If Cora is not available, it uses the
    digits dataset of scikit-learn.
    """
    from .demo import run

    run(display.console(), figure, force=force, data_dir=data_dir, offline=offline or None)


@add_command(app)
def embed(
    data: o.Input,
    settings: m.EmbedSettings,
    scaling: m.Scaling,
    files: ModelFiles,
    cluster: ClusterOptions,
    display: o.Display,
) -> None:
    """Embed the nodes of a graph and write one row per node.

    gpcanet embed cora -o cora.parquet

    gpcanet embed --edges edges.csv --features papers.parquet -o out.parquet

    gpcanet embed -e edges/ -f papers/ --workers 2 --scratch run -o out
    """
    from .embed import run

    run(display.console(data), data, settings, scaling, files, cluster)


@add_command(app)
def classify(
    data: o.Input,
    settings: m.ClassifySettings,
    held_out: m.HoldOutSettings,
    scoring: m.ClassMetric,
    files: ModelFiles,
    display: o.Display,
) -> None:
    """Predict the class of every node from the labels of some.

    Reports the accuracy on held-out labels.

    gpcanet classify cora

    gpcanet classify -e edges.csv -f papers.parquet -l topics.csv -o out.csv

    gpcanet classify cora --model net.safetensors -o out.csv
    """
    from .classify import run

    run(display.console(data), data, settings, held_out, scoring.metric, files)


@add_command(app)
def regress(
    data: o.Input,
    settings: m.RegressSettings,
    held_out: m.HoldOutSettings,
    scoring: m.NumberMetric,
    files: ModelFiles,
    display: o.Display,
) -> None:
    """Predict a number for every node from the numbers of some.

    Labels are the numbers; empty cells are predicted. Reports R^2 on held-out numbers.

    gpcanet regress -e edges.csv -f houses.parquet --label price -o out.csv

    gpcanet regress --model prices.safetensors -e edges.csv -f new.parquet -o out.csv
    """
    from .regress import run

    run(display.console(data), data, settings, held_out, scoring.metric, files)


@add_command(app)
def explore(
    data: o.Input,
    settings: m.ExploreSettings,
    shown: m.PageSettings,
    held_out: m.HoldOutSettings,
    file: PageFile,
    display: o.Display,
) -> None:
    """Write a page on which the nodes move as alpha and beta change.

    The page is one HTML file that works offline.

    gpcanet explore cora

    gpcanet explore -e edges.csv -f papers.parquet -l topics.csv -o page.html
    """
    from .explore import run

    run(display.console(data), data, settings, shown, held_out, file)


@add_command(app)
def train(
    data: o.Input,
    network: m.NetworkSettings,
    propagation: m.PropagationSettings,
    training: m.TrainingSettings,
    scaling: m.Scaling,
    files: TrainingFiles,
    display: o.Display,
) -> None:
    """Train a graph neural network that is initialised by GPCA.

    gpcanet train cora --layers 15 --init gpca

    gpcanet train cora --model gpcanet --alpha 10 --save-model net.safetensors
    """
    from .train import run

    run(display.console(data), data, network, propagation, training, scaling, files)


@datasets_app.command("list")
def datasets_list(as_json: o.AsJson = False) -> None:
    """List names and sizes."""
    from .datasets import show_list

    show_list(Console(as_json=as_json))


@datasets_app.command("info")
def datasets_info(name: DatasetName, as_json: o.AsJson = False) -> None:
    """Show content, source, split, licence and citation."""
    from .datasets import show_info

    show_info(Console(as_json=as_json), name)


@datasets_app.command("fetch")
def datasets_fetch(
    names: Annotated[list[str], typer.Argument(help="Names from `gpcanet datasets list`.")],
    data_dir: o.DataDir = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Download and verify datasets, for use without a network."""
    from .datasets import fetch

    fetch(Console(quiet=quiet, as_json=as_json), names, data_dir)
