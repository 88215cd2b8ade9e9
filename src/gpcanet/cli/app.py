"""The commands, and how any of them ends.

Heavy modules are imported inside the commands, so that help is there at once.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import UserError
from . import evidence
from . import options as o
from .console import Console, escaped, put

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
app.command()(evidence.reproduce)
app.command()(evidence.report)

BAD_INPUT, INTERRUPTED = 2, 128 + signal.SIGINT

#: Any complaint of typer's about the command line; some versions bring a click of their own.
UsageError: Any = typer.BadParameter.__base__

#: How errors of the library name what is an option here.
OPTION_WORDS = {
    "allow it to be replaced": "use --force to replace it",
    "have unknown nodes dropped": "use --drop-unknown",
    "a file of them, or a number of neighbors": "--edges or --neighbors",
    "n_components=": "--components ",
    "memory_limit=": "--memory-limit ",
    "id_column and": "--id and",
    "label_column": "--label",
    "split_column": "--split",
    "data_dir names": "--data-dir names",
    "n_iter is for": "--iterations is for",
}


def main() -> None:
    """Run the command line. 0: done, 2: bad input, 130: interrupted, 1: internal error."""
    # A terminated process cleans up behind itself like an interrupted one.
    signal.signal(signal.SIGTERM, _raise_interrupt)
    _mend_streams()
    try:
        if app(standalone_mode=False) == INTERRUPTED:  # typer has caught it
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        _end("interrupted; nothing was left half-written", INTERRUPTED)
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "gpcanet"
        _end(f"{error.format_message().rstrip('.?')}; see {command} --help", BAD_INPUT)
    except (UserError, OSError) as error:
        if "GPCANET_DEBUG" in os.environ:
            raise
        _end(describe(error), BAD_INPUT)
    except MemoryError:
        _end("not enough memory for this graph; --memory-limit makes do with less", BAD_INPUT)


def describe(error: Exception) -> str:
    """One sentence for a person at a terminal."""
    if isinstance(error, OSError) and error.strerror:
        named = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{named}"
    sentence = str(error)
    for words, option in OPTION_WORDS.items():
        sentence = sentence.replace(words, option)
    return sentence


def _mend_streams() -> None:
    """A closed stream swallows what is printed; a letter it cannot show is no error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _raise_interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _end(sentence: str, code: int) -> None:
    print(f"gpcanet: {escaped(' '.join(sentence.split()))}", file=sys.stderr)
    sys.exit(code)


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


@app.command()
def bench(
    parts: Annotated[
        str,
        typer.Option(
            help="Some of step, bandwidth, path, embed, command, generate, products, growth, "
            "with commas between [all]."
        ),
    ] = "",
    size: Annotated[
        str,
        typer.Option(help="quick (a minute, means nothing), small (minutes) or full (an hour)."),
    ] = "small",
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Times each is run again [by size: 1, 3 or 7].")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for a JSON file a part.")] = Path("bench"),
    docs: Annotated[
        Path | None, typer.Option(help="Folder for the page and its picture [that of --out].")
    ] = None,
    work_dir: Annotated[
        Path | None, typer.Option(help="Folder for generated graphs, kept [the cache].")
    ] = None,
    page_only: Annotated[
        bool, typer.Option("--page-only", help="Measure nothing; write the page anew.")
    ] = False,
    force: o.Force = False,
    data_dir: o.DataDir = None,
    offline: o.Offline = False,
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Measure speed and memory beside what one would use instead.

    Peers that are not installed are skipped by name; pip install 'gpcanet[bench]' brings them.
    """
    from .bench import run

    run(
        Console(quiet=quiet, as_json=as_json),
        [part.strip() for part in parts.split(",") if part.strip()],
        size=size,
        repeats=repeats,
        out=out,
        docs=docs,
        work_dir=work_dir,
        page_only=page_only,
        force=force,
        data_dir=data_dir,
        offline=offline or None,
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
