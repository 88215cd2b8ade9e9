"""The page and its picture, from made-up results and from the committed ones."""

import copy
import json
import re
from pathlib import Path

import pytest

from benchmarks import markdown
from benchmarks.markdown_table import table
from benchmarks.page import SECTIONS, page
from benchmarks.runs import PAGE, PARTS, PICTURE, check_names, read_all, write_json, write_page

ROOT = Path(__file__).parent.parent.parent

MACHINE = {"cpu": "Abacus", "cores": 3, "memory_gib": 1.5, "system": "Linux", "load": 0.5}
VERSIONS = {"gpcanet": "9.9", "python": "3.11", "torch": None}


def timed(seconds, **more):
    return {"seconds": seconds, "first": 2 * seconds, "repeats": 4, **more}


def fit(seconds, gib, **more):
    return timed(seconds, peak_bytes=int((gib + 1) * 2**30), before_bytes=2**30, **more)


GRAPH = {"nodes": 1000, "edges": 5000}
FOUND = {
    "step": {
        **GRAPH,
        "columns": 128,
        "ordering_seconds": 0.09,
        "largest_difference": 8e-7,
        "ways": {
            "GPCANet": timed(0.05),
            "scipy CSR": timed(0.4),
            "torch": {"skipped": "torch is not installed"},
            "PyG": {"failed": "ValueError: a | b"},
        },
    },
    "bandwidth": {
        **GRAPH,
        "columns": 128,
        "triad": timed(1.0, bytes=24_000_000_000),
        "ways": {
            "GPCANet": timed(0.5, compulsory_bytes=3 * 10**9, gathered_bytes=24 * 10**9),
        },
    },
    "embed": {
        "graphs": {
            "citeseer": {"skipped": "cannot be had"},
            "cora": {
                **GRAPH,
                "features": 1433,
                "ways": {
                    "GPCA": timed(0.2, accuracy=0.831, random_accuracies=[0.8, 0.82]),
                    "GSVD": timed(1.0, accuracy=0.7, random_accuracies=[0.7]),
                },
                "classifier": timed(3.0, accuracy=0.849),
            },
            "generated": {**GRAPH, "features": 128, "ways": {"GPCA": timed(0.9)}},
        }
    },
    "path": {
        "alphas": [1.0, 5.0],
        "betas": [0.0, 0.1],
        "width": 64,
        "graphs": {
            "cora": {
                "ways": {"GPCAPath, all pairs": timed(0.5), "GPCA for every pair": timed(2.0)},
                "cosines": [{"alpha": 1.0, "beta": 0.0, "smallest_cosine": 0.999987}],
            }
        },
    },
    "command": {"graphs": {"cora": {"cold": 2.8, "warm": 2.3, "imports": 1.9, "repeats": 5}}},
    "generate": {"columns": 100, **GRAPH, "seconds": 37.2, "peak_bytes": 5 * 2**29},
    "products": {
        **GRAPH,
        "columns": 100,
        "components": 64,
        "ways": {
            "GPCA, 5 steps, half": fit(18.0, 1.5),
            "scipy CSR, 5 steps": {"failed": "took longer than 1,200 s"},
        },
    },
    "growth": {
        "edges_per_node": 25,
        "columns": 64,
        "components": 32,
        "over_edges": [
            {"way": "GPCA, exact", "wanted_edges": 1000, **fit(0.1, 0.01, edges=990)},
            {"way": "torch", "wanted_edges": 1000, **fit(0.3, 0.02, edges=990)},
            {"way": "GPCA, exact", "wanted_edges": 10**6, **fit(1.0, 0.1, edges=10**6)},
            {"way": "torch", "wanted_edges": 10**6, "failed": "was killed"},
        ],
        "over_columns": [{"way": "GPCA, exact", "columns": 8, **fit(0.2, 0.1, edges=9)}],
        "exponents": {"GPCA, exact": {"seconds": 1.01, "memory": 0.98, "points": 4}},
    },
}


def made_up():
    return {
        name: {
            "part": name,
            "size": "full",
            "repeats": 7,
            "date": "2026-01-02",
            "machine": dict(MACHINE),
            "versions": dict(VERSIONS),
            "results": copy.deepcopy(found),
        }
        for name, found in FOUND.items()
    }


def test_every_part_has_a_section_and_a_module():
    assert set(SECTIONS) == set(PARTS) == set(FOUND)


def test_the_page_tells_machine_numbers_ratios_and_what_is_missing():
    text = page(made_up())
    assert "3 cores of Abacus, 1.5 GiB, Linux; gpcanet 9.9, python 3.11; size full" in text
    for row in (
        "| GPCANet | 50 ms | 1.00 | 4 | 100 ms |",
        "| scipy CSR | 400 ms | 8.00 | 4 | 800 ms |",
        "| torch | skipped | | | |",
        "| GPCANet | 500 ms | 6.0 GB/s, 25.0 % | 48.0 GB/s, 200.0 % |",
        "| GPCA | 200 ms | 1.00 | 4 | 400 ms | 83.1 | 81.0 |",
        "| GSVD | 1 s | 5.00 | 4 | 2 s | 70.0 | 70.0 |",
        "| GPCA | 900 ms | 1.00 | 4 | 1.8 s |",
        "| GPCA for every pair | 2 s | 4.00 | 4 | 4 s |",
        "| cora | 2.3 s | 2.8 s | 1.9 s |",
        "| GPCA, 5 steps, half | 18 s | 1.00 | 4 | 2.50 GiB | 1.50 GiB |",
        "| 1,000 | 100 ms, 0.01 GiB | 300 ms, 0.02 GiB |",
        "| 1,000,000 | 1 s, 0.10 GiB | - |",
        "| GPCA, exact | 1.01 | 0.98 | 4 |",
    ):
        assert row in text.splitlines(), row
    assert "84.9 % in 3 s" in text
    assert "over all pairs: 0.999987" in text
    assert "2.50 GiB in all" in text
    left_out = text.split("## Left out")[1].strip().splitlines()
    assert left_out == [
        "- step: torch: skipped, torch is not installed",
        "- step: PyG: failed, ValueError: a | b",
        "- embed: citeseer: skipped, cannot be had",
        "- products: scipy CSR, 5 steps: failed, took longer than 1,200 s",
        "- growth: torch: failed, was killed",
    ]


def test_parts_of_different_machines_are_told_apart():
    results = made_up()
    results["growth"]["machine"]["cpu"] = "Slide rule"
    text = page(results)
    assert "- growth: 3 cores of Slide rule" in text
    assert "- step, bandwidth, embed, path, command, generate, products: 3 cores of Abacus" in text


@pytest.mark.parametrize("part", PARTS)
def test_any_part_alone_makes_a_page(part):
    text = page({part: made_up()[part]})
    assert text.count("\n## ") >= 2
    tables = re.findall(r"(?m)(?:^\|.*\n)+", text)
    for rows in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows.splitlines()}) == 1


def test_a_generator_that_was_not_measured_says_so():
    results = made_up()
    results["generate"]["results"] = {"columns": 3, "failed": "was killed"}
    assert "- generate: all of it: failed, was killed" in page(results)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2.5e-5, "25 us"),
        (0.0641, "64.1 ms"),
        (1.234, "1.23 s"),
        (61.7, "61.7 s"),
        (1234, "1,234 s"),
    ],
)
def test_seconds_have_three_digits(value, shown):
    assert markdown.seconds(value) == shown


def test_bars_in_a_reason_do_not_end_a_cell():
    assert table(("", "b"), [("a|b", "")]).splitlines()[-1] == r"| a\|b | |"


def test_files_come_back_as_they_were_written(tmp_path):
    results = made_up()
    for name, part in results.items():
        write_json(tmp_path / f"{name}.json", part, overwrite=False)
    assert read_all(tmp_path) == results
    assert list(read_all(tmp_path)) == list(PARTS)


def test_the_picture_is_beside_the_page_and_named_by_it(tmp_path):
    pytest.importorskip("matplotlib")
    written = write_page(made_up(), tmp_path / "new")
    assert written == [tmp_path / "new" / PAGE, tmp_path / "new" / PICTURE]
    assert written[1].read_bytes().startswith(b"\x89PNG")
    assert f"]({PICTURE})" in written[0].read_text()


def test_without_matplotlib_there_is_a_page_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.runs.find_spec", lambda name: None)
    assert write_page(made_up(), tmp_path) == [tmp_path / PAGE]


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="part 'steps' is not known; there are step, bandwidth"):
        check_names(["steps"], "full")
    with pytest.raises(ValueError, match="size 'huge' is not known; there are quick, small, full"):
        check_names(["step"], "huge")


# -- what is committed --------------------------------------------------------------------------


def test_the_committed_page_is_what_the_committed_results_make():
    results = read_all(ROOT / "benchmarks" / "results")
    assert set(results) == set(PARTS)
    assert (ROOT / "docs" / PAGE).read_text() == page(results)
    assert (ROOT / "docs" / PICTURE).is_file()


def test_the_committed_results_name_no_folder_of_a_machine():
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        text = json.dumps(json.loads(path.read_text())["results"])
        assert not re.search(r"/(home|root|tmp|work|Users)/", text), path.name
