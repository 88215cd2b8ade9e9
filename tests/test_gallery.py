"""Every example of the gallery runs without a warning and draws one figure or names a picture."""

import runpy

import matplotlib as mpl
import pytest
import torch  # noqa: F401  (loaded here, so that its threads are limited below)
from guide_blocks import ROOT
from threadpoolctl import threadpool_limits

EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


def test_there_is_an_example_for_every_topic():
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_draws_a_figure(script, monkeypatch, tmp_path):
    """Without network and cache: digits replace Cora."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPCANET_OFFLINE", "1")
    monkeypatch.setenv("GPCANET_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    with threadpool_limits(1):  # on a busy machine, threads would wait for each other
        runpy.run_path(str(script))
    figures = [plt.figure(number) for number in plt.get_fignums()]
    has_picture = "sphinx_gallery_thumbnail_path" in script.read_text()
    assert len(figures) == (0 if has_picture else 1)
    axes = [axis for figure in figures for axis in figure.axes]
    assert all(axis.get_title() for axis in axes if axis.get_label() != "<colorbar>")
    plt.close("all")
