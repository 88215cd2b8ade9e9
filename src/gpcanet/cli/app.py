"""The commands, and how any of them ends.

Heavy modules are imported inside the commands, so that help is there at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from . import options as o
from .console import Console, put
from .entry import run_app

app = typer.Typer(
    name="gpcanet",
    help="Node embeddings in closed form: graph-regularised PCA, without GPU and without epochs.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
datasets_app = typer.Typer(
    name="datasets",
    help="Published datasets: what there is, and fetching it.",
    invoke_without_command=True,
)
app.add_typer(datasets_app)


def main() -> None:
    """Run the command line."""
    run_app(app, "gpcanet")


def _show_version(wanted: bool) -> None:
    if wanted:
        put(f"gpcanet {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    _help_if_alone(context)


@datasets_app.callback()
def _help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        put(context.get_help())


@app.command()
def demo(
    picture: Annotated[
        Path, typer.Option("--picture", help="Where to draw the embeddings.")
    ] = Path("demo.png"),
    force: o.Force = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Classify the papers of Cora and draw them, in seconds.

    Compares features alone, the graph alone, and GPCA. Where Cora cannot be had, uses the
    digits that come with scikit-learn.
    """
    from .demo import run

    run(
        Console(quiet=quiet, as_json=as_json),
        picture,
        force=force,
        data_dir=data_dir,
        offline=offline or None,
    )


@app.command()
def embed(
    dataset: o.DatasetName = None,
    output: o.Output = None,
    features: o.Features = None,
    edges: o.Edges = None,
    labels: o.Labels = None,
    id_column: o.IdColumn = None,
    source: o.Source = "source",
    target: o.Target = "target",
    weight: o.Weight = None,
    label_column: o.LabelColumn = None,
    split_column: o.SplitColumn = None,
    ignore: o.Ignore = None,
    neighbors: o.Neighbors = None,
    drop_unknown: o.DropUnknown = False,
    components: o.Components = None,
    alpha: o.Alpha = None,
    beta: o.Beta = None,
    normalization: o.Normalization = None,
    iterations: o.Iterations = None,
    precision: o.Precision = None,
    model: o.SavedModel = None,
    save_model: o.SaveModel = None,
    memory_limit: o.MemoryLimit = None,
    force: o.Force = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Embed the nodes of a graph and write a row per node.

    gpcanet embed cora -o cora.parquet

    gpcanet embed --edges edges.csv --features papers.parquet -o out.parquet
    """
    data = o.Input.of(locals())
    from .embed import run

    settings = {
        "n_components": components,
        "alpha": alpha,
        "beta": beta,
        "normalization": normalization,
        "n_iter": iterations,
        "solver": None if iterations is None else "fixed-point",
        "precision": precision,
    }
    results = o.Results(output, model, save_model, force, memory_limit)
    run(Console(quiet=quiet, as_json=as_json), data, _given(settings), results)


@app.command()
def classify(
    dataset: o.DatasetName = None,
    output: o.Output = None,
    features: o.Features = None,
    edges: o.Edges = None,
    labels: o.Labels = None,
    id_column: o.IdColumn = None,
    source: o.Source = "source",
    target: o.Target = "target",
    weight: o.Weight = None,
    label_column: o.LabelColumn = None,
    split_column: o.SplitColumn = None,
    ignore: o.Ignore = None,
    neighbors: o.Neighbors = None,
    drop_unknown: o.DropUnknown = False,
    components: o.Components = None,
    alpha: o.Alphas = None,
    beta: o.Beta = None,
    normalization: o.Normalization = None,
    test_share: Annotated[
        float | None,
        typer.Option(help="Without a split: share of labels kept back for the report [0.2]."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Decides which labels are kept back [0].")
    ] = None,
    precision: o.Precision = None,
    model: o.SavedModel = None,
    save_model: o.SaveModel = None,
    memory_limit: o.MemoryLimit = None,
    force: o.Force = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Predict the class of every node from the labels of some.

    Reports how well that goes, on labels that were kept back.

    gpcanet classify cora

    gpcanet classify -e edges.csv -f papers.parquet -l topics.csv -o out.csv
    """
    data = o.Input.of(locals())
    from .classify import run

    settings = {
        "n_components": components,
        "alpha": alpha,
        "beta": beta,
        "normalization": normalization,
        "precision": precision,
    }
    holding_out = {"test_share": test_share, "seed": seed}
    results = o.Results(output, model, save_model, force, memory_limit)
    console = Console(quiet=quiet, as_json=as_json)
    run(console, data, _given(settings), results, _given(holding_out))


@app.command()
def train(
    dataset: o.DatasetName = None,
    output: o.Output = None,
    features: o.Features = None,
    edges: o.Edges = None,
    labels: o.Labels = None,
    id_column: o.IdColumn = None,
    source: o.Source = "source",
    target: o.Target = "target",
    weight: o.Weight = None,
    label_column: o.LabelColumn = None,
    split_column: o.SplitColumn = None,
    ignore: o.Ignore = None,
    neighbors: o.Neighbors = None,
    drop_unknown: o.DropUnknown = False,
    model: o.ModelName = "gcn",
    init: o.InitName = "gpca",
    layers: o.Layers = 2,
    hidden: o.Hidden = 128,
    dropout: o.Dropout = 0.5,
    alpha: o.LayerAlpha = None,
    beta: o.Beta = None,
    iterations: o.Iterations = None,
    normalization: o.Normalization = None,
    epochs: o.Epochs = None,
    learning_rate: o.LearningRate = None,
    weight_decay: o.WeightDecay = None,
    patience: o.Patience = None,
    eval_every: o.EvalEvery = None,
    parts: o.Parts = None,
    parts_per_batch: o.PartsPerBatch = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, dropout and parts.")] = 0,
    device: o.Device = None,
    checkpoint: o.Checkpoint = None,
    force: o.Force = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Train a graph network, its first weights set by GPCA.

    gpcanet train cora --layers 15 --init gpca

    gpcanet train cora --model gpcanet --alpha 10 --layers 1
    """
    data = o.Input.of(locals())
    from .train import run

    run(
        Console(quiet=quiet, as_json=as_json),
        data,
        model_name=model,
        init=init,
        shape={"layers": layers, "hidden": hidden, "dropout": dropout},
        gpca=_given(
            {"alpha": alpha, "beta": beta, "n_iter": iterations, "normalization": normalization}
        ),
        settings=_given(
            {
                "epochs": epochs,
                "lr": learning_rate,
                "weight_decay": weight_decay,
                "patience": patience,
                "eval_every": eval_every,
                "parts": parts,
                "parts_per_batch": parts_per_batch,
                "seed": seed,
                "device": device,
            }
        ),
        results=o.Results(output, None, None, force),
        checkpoint=checkpoint,
    )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """What the user has set; the estimators know the defaults of the rest."""
    return {name: value for name, value in options.items() if value not in (None, [])}


@datasets_app.command("list")
def datasets_list(as_json: o.AsJson = False) -> None:
    """Names and sizes."""
    from .datasets import show_list

    show_list(Console(as_json=as_json))


@datasets_app.command("info")
def datasets_info(name: o.RequiredName, as_json: o.AsJson = False) -> None:
    """Content, source, split, licence and citation."""
    from .datasets import show_info

    show_info(Console(as_json=as_json), name)


@datasets_app.command("fetch")
def datasets_fetch(
    names: Annotated[list[str], typer.Argument(help="Names from `gpcanet datasets list`.")],
    data_dir: o.DataDir = None,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Download datasets to the cache, checked, for use without a network."""
    from .datasets import fetch

    fetch(Console(quiet=quiet, as_json=as_json), names, data_dir)
