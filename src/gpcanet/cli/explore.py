"""The command ``gpcanet explore``."""

from __future__ import annotations

import webbrowser

import numpy as np

from ..datasets.splits import hold_out
from ..estimators.path import GPCAPath
from ..explorer import default_path, explore
from .console import Console
from .method_options import ExploreSettings, HoldOutSettings, PageSettings
from .option_groups import given_options
from .options import Input
from .output_options import PageFile


def run(
    console: Console,
    data: Input,
    settings: ExploreSettings,
    shown: PageSettings,
    held_out: HoldOutSettings,
    file: PageFile,
) -> None:
    file.check(data)
    test_share = held_out.checked_share()
    dataset = data.load(console)
    if np.any(dataset.y >= 0) and not dataset.has_split:
        dataset = hold_out(dataset, held_out.seed or 0, test=test_share)
    path: GPCAPath = default_path(dataset).set_params(**given_options(settings))
    with console.phase("embedding"):
        page = explore(dataset, path=path, layout=shown.layout, max_nodes=shown.max_nodes)
    with console.phase("writing"):
        page.save(file.output, overwrite=file.force)
    if file.open_page:
        webbrowser.open(file.output.resolve().as_uri())
    size = file.output.stat().st_size
    values = {
        **page.facts,
        "bytes": size,
        "notes": list(dataset.notes),
        "seconds": console.seconds,
        "written": [str(file.output)],
    }
    console.result(
        values,
        f"{page.facts['shown']:,} nodes on a page of {size / 1e6:.1f} MB: {file.output} "
        f"({sum(console.seconds.values()):.1f} s)",
    )
