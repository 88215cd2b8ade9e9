"""gpcanet explore writes the page of gpcanet.explore."""

import json
from pathlib import Path

import numpy as np
from own_files import N_NODES, make_source, write_edges, write_features, write_labels
from stored_page import read_page

IDS = np.array([f"paper {i:03d}" for i in range(N_NODES)], object)


def write_files():
    source = make_source(IDS)
    return [
        "-e", write_edges(source, Path("edges.csv")),
        "-f", write_features(source, Path("features.parquet")),
        "-l", write_labels(source, Path("labels.csv")),
    ]  # fmt: skip


def test_page_of_files(gpcanet):
    files = write_files()
    grid = ["-a", 0, "-a", 5, "-b", 0.1, "-k", 3, "--layout", "pca"]
    ended = gpcanet("explore", *files, *grid, "-o", "page.html", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["written"] == ["page.html"]
    assert found["bytes"] == Path("page.html").stat().st_size
    header, arrays = read_page(Path("page.html").read_text())
    assert header["ids"] == IDS.tolist()
    assert header["classes"] == ["blue", "green", "red"]
    assert (header["alphas"], header["betas"], header["components"]) == ([0, 5], [0.1], 3)
    assert set(arrays["part"].tolist()) == {1, 3}
    assert [score["accuracy"].keys() for score in found["scores"]] == [{"test"}, {"test"}]


def test_page_without_labels_has_one_beta(gpcanet):
    ended = gpcanet("explore", *write_files()[:4], "--max-nodes", 10)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("10 nodes on a page of ")
    header, _ = read_page(Path("explore.html").read_text())
    assert header["betas"] == [0]
    assert (header["shown"], header["layout"]) == (10, "tsne")


def test_what_cannot_be_written_is_refused_before_reading(gpcanet):
    assert gpcanet("explore", "cora", "-o", "page.png").complaint == (
        "page.png: the page must be an .html file"
    )
    Path("explore.html").write_text("mine")
    assert gpcanet("explore", "cora").complaint == (
        "explore.html exists; choose another name or use --force to replace it"
    )
    assert Path("explore.html").read_text() == "mine"


def test_bad_options_are_named(gpcanet):
    files = write_files()
    assert gpcanet("explore", *files, "--layout", "umap").complaint_after_notes == (
        "--layout 'umap' must be one of 'auto', 'pca', 'tsne'"
    )
    assert "--alpha -1.0 must be in" in gpcanet("explore", *files, "-a", -1).complaint_after_notes
    assert (
        "--max-nodes 0 must be"
        in gpcanet("explore", *files, "--max-nodes", 0).complaint_after_notes
    )
