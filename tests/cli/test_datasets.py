"""gpcanet datasets list, info and fetch."""

import json
import os

import pytest

from gpcanet.datasets import about, names

DATA_DIR = os.environ.get("GPCANET_DATA_DIR")


@pytest.fixture
def loaded(monkeypatch):
    """Names of the datasets that were asked for."""
    asked = []

    def load(name, *args, **kwargs):
        asked.append(name)
        raise AssertionError("nothing was to be fetched")

    monkeypatch.setattr("gpcanet.cli.datasets.load", load)
    return asked


def test_list_shows_every_dataset_with_its_size(gpcanet):
    ended = gpcanet("datasets", "list")
    heading, *rows = ended.out.splitlines()
    assert heading.split() == ["name", "nodes", "edges", "features", "classes", "download"]
    assert [row.split()[0] for row in rows] == names()
    assert "2,708       5,278     1,433        7      0.6 MB" in ended.out
    assert rows[names().index("digits")].endswith("none")
    assert max(map(len, ended.out.splitlines())) <= 80
    assert ended.err == ""


def test_list_as_json_is_complete(gpcanet):
    values = json.loads(gpcanet("datasets", "list", "--json").out)["datasets"]
    assert [row["name"] for row in values] == names()
    assert all(row["licence"] and row["citation"] for row in values)
    assert values[0]["n_nodes"] == 2708


@pytest.mark.parametrize("name", names())
def test_info_has_licence_and_citation(gpcanet, name):
    of = about(name)
    ended = gpcanet("datasets", "info", name)
    assert ended.code == 0
    rows = dict(line.split("  ", 1) for line in ended.out.splitlines())
    found = {key: value.strip() for key, value in rows.items()}
    assert found["licence"] == of.licence
    assert found["cite"] == of.citation
    assert found["source"] == of.source
    assert found["split"] == of.split
    assert found["nodes, edges"] == f"{of.n_nodes:,}, {of.n_edges:,}"
    values = json.loads(gpcanet("datasets", "info", name, "--json").out)
    assert (values["licence"], values["citation"]) == (of.licence, of.citation)


def test_unknown_name_is_an_error_before_any_download(gpcanet, loaded):
    for args in (["fetch", "digits", "nope"], ["info", "nope"]):
        complaint = gpcanet("datasets", *args).complaint
        assert complaint == f"dataset 'nope' is unknown; use one of {', '.join(names())}"
    assert loaded == []
    assert "names" in gpcanet("datasets", "fetch").complaint


def test_fetch_of_a_dataset_without_download(gpcanet):
    ended = gpcanet("datasets", "fetch", "digits")
    assert (ended.code, ended.out) == (0, "ready: digits\n")
    assert "digits: 1,797 nodes" in ended.err
    ended = gpcanet("datasets", "fetch", "digits", "--json", "--quiet")
    assert (json.loads(ended.out), ended.err) == ({"fetched": ["digits"]}, "")


def test_offline_says_what_to_do(gpcanet, tmp_path):
    complaint = gpcanet("datasets", "fetch", "cora").complaint
    assert "cora" in complaint
    assert "offline" in complaint.lower()
    assert not list((tmp_path / "cache").rglob("*.part"))
    complaint = gpcanet("datasets", "fetch", "cora", "--data-dir", "nowhere").complaint
    assert complaint.startswith("Invalid value for '--data-dir': dir 'nowhere' does not exist")


@pytest.mark.real_data
@pytest.mark.skipif(not DATA_DIR, reason="GPCANET_DATA_DIR is not set")
def test_data_dir_is_used_without_a_network(gpcanet):
    ended = gpcanet("datasets", "fetch", "cora", "citeseer", "--data-dir", DATA_DIR)
    assert (ended.code, ended.out) == (0, "ready: cora, citeseer\n")
