"""The page and its figures, from artificial results and from the committed ones."""

import copy
import importlib
import json
import re
from pathlib import Path

import pytest

from benchmarks.page import page
from benchmarks.parts import (
    FIGURES,
    PAGE,
    PARTS,
    check_names,
    read_results,
    write_json,
    write_page,
)
from benchmarks.tables import markdown_table, seconds

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
        "methods": {
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
        "methods": {
            "GPCANet": timed(0.5, compulsory_bytes=3 * 10**9, gathered_bytes=24 * 10**9),
        },
    },
    "embed": {
        "graphs": {
            "citeseer": {"skipped": "cannot be had"},
            "cora": {
                **GRAPH,
                "features": 1433,
                "methods": {
                    "GPCA": timed(0.2, accuracy=0.831, random_accuracies=[0.8, 0.82]),
                    "GSVD": timed(1.0, accuracy=0.7, random_accuracies=[0.7]),
                },
                "classifier": timed(3.0, accuracy=0.849),
            },
            "generated": {**GRAPH, "features": 128, "methods": {"GPCA": timed(0.9)}},
        }
    },
    "eigen": {
        "alpha": 10.0,
        "tol": 1e-6,
        "graphs": {
            "cora": {"64": {"methods": {"block Lanczos": timed(0.04), "ARPACK": timed(0.05)}}},
        },
    },
    "path": {
        "alphas": [1.0, 5.0],
        "betas": [0.0, 0.1],
        "components": 64,
        "graphs": {
            "cora": {
                "methods": {
                    "GPCAPath, all pairs": timed(0.5),
                    "GPCA for every pair": timed(2.0),
                    "GPCA once": timed(0.25),
                },
                "first_call": {
                    "GPCAPath, all pairs": {"seconds": 1.5, "repeats": 5},
                    "GPCA for every pair": {"seconds": 2.5, "repeats": 5},
                },
                "cosines": [{"alpha": 1.0, "beta": 0.0, "smallest_cosine": 0.999987}],
            }
        },
    },
    "command": {"graphs": {"cora": {"seconds": 2.3, "imports": 1.9, "repeats": 5}}},
    "first_use": {"graphs": {"generated": {"first": 16.9, "second": 4.4, "repeats": 1}}},
    "generate": {"columns": 100, **GRAPH, "seconds": 37.2, "peak_bytes": 5 * 2**29},
    "large_graph": {
        **GRAPH,
        "columns": 100,
        "components": 64,
        "methods": {
            "GPCA, 5 steps, half": fit(18.0, 1.5),
            "scipy CSR, 5 steps": {"failed": "took longer than 1,200 s"},
        },
    },
    "growth": {
        "edges_per_node": 25,
        "columns": 64,
        "components": 32,
        "over_edges": [
            {"method": "GPCA, exact", "requested_edges": 1000, **fit(0.1, 0.01, edges=990)},
            {"method": "torch", "requested_edges": 1000, **fit(0.3, 0.02, edges=990)},
            {"method": "GPCA, exact", "requested_edges": 10**6, **fit(1.0, 0.1, edges=10**6)},
            {"method": "torch", "requested_edges": 10**6, "failed": "was killed"},
        ],
        "over_columns": [{"method": "GPCA, exact", "columns": 8, **fit(0.2, 0.1, edges=9)}],
        "exponents": {"GPCA, exact": {"seconds": 1.01, "memory": 0.98, "points": 4}},
    },
    "gcn_epoch": {
        "nodes": 1000,
        "layers": 3,
        "hidden": 256,
        "methods": {"GPCANet": fit(1.5, 0.5, loss=1.62816)},
    },
    "prediction": {
        "graphs": {
            "cora": {
                **GRAPH,
                "metric": "accuracy",
                "methods": {
                    "GPCAClassifier": {
                        "scores": [0.80, 0.84],
                        "calibration_errors": [0.02, 0.04],
                        "seconds": 0.9,
                    },
                    "SGC": {"scores": [0.70], "calibration_errors": [0.1]},
                    "GCN": {"failed": "ImportError: no torch"},
                },
            },
            "graphs in a folder": {"skipped": "no folder"},
        },
        "generated": {
            "arxiv size": {
                **GRAPH,
                "labels": 500,
                "score": 0.9,
                "seconds": 12.0,
                "processor_seconds": 20.0,
                "peak_bytes": 2**30,
            },
            "products size": {"failed": "took longer than 1,200 s"},
        },
        "busy": {"cora": {"quiet": 1.0, "busy": 1.5}},
    },
    "training": {
        "networks": 5,
        "hidden": 128,
        "graphs": {
            "cora, 15 layers, dropout 0.5": {
                "epochs": 5,
                "methods": {
                    "layer by layer": timed(9.0),
                    "train": timed(3.0),
                    "train_many": timed(1.5),
                },
                "largest_difference": 2e-6,
            },
            "pubmed, 15 layers, dropout 0": {"failed": "was killed"},
        },
    },
    "cluster_gcn": {
        "nodes": 1000,
        "methods": {"whole graph": fit(400, 1.0, accuracy=0.941, epochs=60)},
    },
    "deep_gcn": {
        "cells": [
            {
                "dataset": "cora",
                "layers": 2,
                "method": "gpca",
                "lr": 0.001,
                "dropout": 0.5,
                "weight_decay": 0.005,
                "ranks": [40.0],
                "runs": [
                    {"test": 0.80, "first": 0.7, "best_epoch": 10, "epoch_95": 3},
                    {"test": 0.82, "first": 0.8, "best_epoch": 20, "epoch_95": 5},
                ],
            },
            {"dataset": "cora", "layers": 2, "method": "he", "failed": "was killed"},
        ],
    },
    "architectures": {
        "cells": [
            {
                "dataset": "cora",
                "method": "GAT",
                "layers": 8,
                "init": "default",
                "layers_set": "",
                "runs": [{"test": 0.7, "first": 0.1}, {"test": 0.72, "first": 0.1}],
            },
            {
                "dataset": "cora",
                "method": "GAT",
                "layers": 8,
                "init": "gpca",
                "layers_set": "8 of 8",
                "runs": [{"test": 0.8, "first": 0.75}],
            },
        ],
    },
    "tissue": {
        "genes": 1000,
        "domains": 8,
        "components": 20,
        "alpha": 10.0,
        "time_limit": 600.0,
        "tissues": [
            {
                "spots": 3000,
                "methods": {
                    "gpca(adata)": timed(0.6, cpu_seconds=0.9, extra_bytes=2**28, agreement=0.857),
                    "st-graphpca": {"failed": "took longer than 600 s"},
                },
            }
        ],
    },
    "explore": {
        "features": 64,
        "graphs": {
            "3000": {
                "nodes": 3000,
                "edges": 15000,
                "methods": {
                    "explore": {
                        "layout": "tsne",
                        "seconds": 3.0,
                        "cpu": 4.0,
                        "bytes": 600_000,
                        "open_seconds": 1.0,
                        "frames_per_second": 59.9,
                        "frame_seconds": 0.0021,
                        "hover_seconds": 1e-4,
                    },
                    "Bokeh": {"bytes": 2_300_000, "open_seconds": 0.8, "frames_per_second": 14.53},
                },
            }
        },
    },
    "workers": {
        "nodes": 1000,
        "edges": 4000,
        "columns": 64,
        "methods": {
            "local": {"seconds": 2.0, "cpu_seconds": 4.0, "moved_bytes": 0},
            "2 workers": {
                "start_seconds": 3.0,
                "seconds": 2.5,
                "cpu_seconds": 5.0,
                "moved_bytes": 16,
                "difference": 2e-7,
            },
        },
    },
    "worker_memory": {
        "nodes": 1000,
        "edges": 4000,
        "columns": 64,
        "workers": 2,
        "columns_per_solve": 8,
        "steps": 5,
        "components": 16,
        "limit_bytes": 2**29,
        "X_bytes": 2**30,
        "F_bytes": 2**31,
        "planned_bytes": 2**28,
        "worker_peaks": [2**27, 2**28],
        "client_peak": 2**27,
        "seconds": 90.0,
        "cpu_seconds": 80.0,
    },
    "id_mapping": {
        "nodes": 1000,
        "edges": 4000,
        "workers": 2,
        "methods": {
            "sorted keys": {
                "seconds": 2.0,
                "cpu_seconds": 3.0,
                "peaks": [2**28, 2**29],
                "checksum": 7,
            },
        },
    },
    "distributed": {
        "triad_rate": 2e10,
        "disk_write_rate": 5e8,
        "disk_read_rate": 1e9,
        "generation": {"seconds": 20.0, "cpu_seconds": 9.0, "bytes": 10**10, "peak_bytes": 2**29},
        "embedding": {
            "nodes": 10**6,
            "edges": 10**9,
            "columns": 32,
            "columns_per_solve": 16,
            "workers": 2,
            "memory_limit": "6GiB",
            "steps": 5,
            "components": 16,
            "seconds": 100.0,
            "stages": {"verifying": 10.0, "solving": 60.0, "multiplying": 5.0, "writing": 6.0},
            "solves": [[40.0, 8.0], [50.0, 9.0]],
            "cpu_seconds": 90.0,
            "planned_bytes": 2**32,
            "planned_seconds": 80.0,
            "step_bytes": 10**11,
            "solution_bytes": 10**9,
            "result_bytes": 10**9,
            "worker_peaks": [2**31, 2**30],
            "client_peak": 2**28,
            "moved_bytes": 80,
            "explained": 0.8,
        },
    },
}


def artificial():
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
    assert set(PARTS) == set(FOUND)
    for part, module in PARTS.items():
        assert callable(importlib.import_module(f"benchmarks.{module}").run)
        others = artificial()
        del others[part]
        headings = [set(re.findall("(?m)^## .*", page(parts))) for parts in (artificial(), others)]
        assert len(headings[0] - headings[1]) == 1


def test_page_has_machine_numbers_ratios_and_omissions():
    text = page(artificial())
    assert "3 cores of Abacus, 1.5 GiB, Linux; gpcanet 9.9, python 3.11; size full" in text
    for row in (
        "| GPCANet | 50 ms | 1.00 | 4 | 100 ms |",
        "| scipy CSR | 400 ms | 8.00 | 4 | 800 ms |",
        "| torch | skipped | | | |",
        "| GPCANet | 500 ms | 6.0 GB/s, 25.0 % | 48.0 GB/s, 200.0 % |",
        "| GPCA | 200 ms | 1.00 | 4 | 400 ms | 83.1 | 81.0 |",
        "| GSVD | 1 s | 5.00 | 4 | 2 s | 70.0 | 70.0 |",
        "| GPCA | 900 ms | 1.00 | 4 | 1.8 s |",
        "| GPCAPath, all pairs | 500 ms | 2.00 | 4 | 1.5 s |",
        "| F | 2.00 GiB | 4.0 |",
        "| largest private memory of a worker | 0.25 GiB | 0.5 |",
        "| sorted keys | 2 s | 3 s | 0.50 GiB |",
        "| 2 workers | 2.5 s | 5 s | 1.25 | 16 | 3 s | 2e-07 |",
        "| solving | 50 s | 500.0 GB | memory, read | 50.0 % |",
        "| writing F | 9 s | 1.0 GB | disk, written | 22.2 % |",
        "| GPCA for every pair | 2 s | 8.00 | 4 | 2.5 s |",
        "| GPCA once | 250 ms | 1.00 | 4 | |",
        "| cora | 2.3 s | 1.9 s |",
        "| cora | 82.0 (80.0), 2 | 70.0 (70.0), 1 | - |",
        "| cora | 3.0 | 10.0 | - |",
        "| cora | 900 ms | - | - |",
        "| arxiv size | 1,000 | 5,000 | 500 | 90.0 | 12 s | 20 s | 1.00 GiB |",
        "| cora | 1 s | 1.5 s | 1.50 |",
        "| generated | 16.9 s | 4.4 s | 12.5 s |",
        "| GPCANet | 1.5 s | 1.00 | 4 | 0.50 GiB | 1.62816 |",
        "| cora, 15 layers, dropout 0.5 | 5 | 9 s | 3 s (3.0x) | 1.5 s (6.0x) | 2e-06 |",
        "| whole graph | 400 s | 1.00 | 4 | 60 | 94.1 % | 2.00 GiB |",
        "| cora | GAT | 8 | 71.0 (1.4) | | | 80.0 | 75.0 | 8 of 8 |",
        "| cora | 2 | gpca | 81.0 (1.4) | 75.0 | 15 | 4 | 0.001, 0.5, 0.005 |",
        "| GPCA, 5 steps, half | 18 s | 1.00 | 4 | 2.50 GiB | 1.50 GiB |",
        "| 1,000 | 100 ms, 0.01 GiB | 300 ms, 0.02 GiB |",
        "| 1,000,000 | 1 s, 0.10 GiB | - |",
        "| GPCA, exact | 1.01 | 0.98 | 4 |",
        "| gpca(adata) | 600 ms | 900 ms | 0.25 GiB | 0.86 |",
        "| 3,000 nodes: explore | t-SNE | 3 s (4 s) | 0.6 MB | 1 s | 60 | 2.1 ms | under 200 us |",
        "| 3,000 nodes: Bokeh | | | 2.3 MB | 800 ms | 15 | | |",
    ):
        assert row in text.splitlines(), row
    assert "84.9 % in 3 s" in text
    assert "over all pairs: 0.999987" in text
    assert "2.50 GiB of memory" in text
    omitted = text.split("## Omitted")[1].strip().splitlines()
    assert omitted == [
        "- step: torch: skipped, torch is not installed",
        "- step: PyG: failed, ValueError: a | b",
        "- embed: citeseer: skipped, cannot be had",
        "- large_graph: scipy CSR, 5 steps: failed, took longer than 1,200 s",
        "- growth: torch: failed, was killed",
        "- prediction: cora: GCN: failed, ImportError: no torch",
        "- prediction: graphs in a folder: skipped, no folder",
        "- prediction: products size: failed, took longer than 1,200 s",
        "- training: pubmed, 15 layers, dropout 0: failed, was killed",
        "- deep_gcn: he: failed, was killed",
        "- tissue: st-graphpca: failed, took longer than 600 s",
    ]


def test_parts_of_different_machines_are_distinguished():
    results = artificial()
    results["growth"]["machine"]["cpu"] = "Slide rule"
    text = page(results)
    assert "- growth: 3 cores of Slide rule" in text
    assert (
        "- step, bandwidth, embed, eigen, path, command, first_use, generate, large_graph, " in text
    )


@pytest.mark.parametrize("part", PARTS)
def test_page_of_a_single_part(part):
    text = page({part: artificial()[part]})
    assert text.count("\n## ") >= 2
    tables = re.findall(r"(?m)(?:^\|.*\n)+", text)
    for rows in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows.splitlines()}) == 1


def test_the_page_states_equal_positions_only_if_both_methods_ran():
    results = artificial()["id_mapping"]
    assert "same positions" not in page({"id_mapping": results})
    methods = results["results"]["methods"]
    methods["Dask DataFrame"] = {"skipped": "dask is not installed"}
    assert "same positions" not in page({"id_mapping": results})
    methods["Dask DataFrame"] = methods["sorted keys"]
    assert "\nBoth gave the same positions. Memory is" in page({"id_mapping": results})


def test_failed_generation_is_shown():
    results = artificial()
    results["generate"]["results"] = {"columns": 3, "failed": "was killed"}
    assert "- generate: the whole part: failed, was killed" in page(results)


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
    assert seconds(value) == shown


def test_vertical_bars_are_escaped():
    assert markdown_table(("", "b"), [("a|b", "")]).splitlines()[-1] == r"| a\|b | |"


def test_results_round_trip_through_files(tmp_path):
    results = artificial()
    for name, part in results.items():
        write_json(tmp_path / f"{name}.json", part, overwrite=False)
    assert read_results(tmp_path) == results
    assert list(read_results(tmp_path)) == list(PARTS)


def test_figures_are_written_and_linked(tmp_path):
    pytest.importorskip("matplotlib")
    written = write_page(artificial(), tmp_path / "new")
    paths = [path for path, _ in FIGURES.values()]
    assert written == [tmp_path / "new" / path for path in (PAGE, *paths)]
    for path in paths:
        assert (tmp_path / "new" / path).read_bytes().startswith(b"\x89PNG")
        assert f"]({path})" in written[0].read_text()


def test_page_is_written_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.parts.find_spec", lambda name: None)
    assert write_page(artificial(), tmp_path) == [tmp_path / PAGE]


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="part 'steps' is unknown; use step, bandwidth"):
        check_names(["steps"], "full")
    with pytest.raises(ValueError, match="size 'huge' is unknown; use quick, small, full"):
        check_names(["step"], "huge")


# -- committed results --------------------------------------------------------------------------


def test_committed_page_is_made_from_the_committed_results():
    results = read_results(ROOT / "benchmarks" / "results")
    assert set(results) == set(PARTS)
    assert (ROOT / "docs" / PAGE).read_text() == page(results)
    for path, _ in FIGURES.values():
        assert (ROOT / "docs" / path).is_file()


def test_committed_results_contain_no_local_paths():
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        text = json.dumps(json.loads(path.read_text())["results"])
        assert not re.search(r"/(home|root|tmp|work|Users)/", text), path.name


def test_parts_without_a_recorded_machine_say_so():
    results = artificial()
    results["deep_gcn"]["machine"] = None
    text = page(results)
    assert "- deep_gcn: machine and date were not recorded" in text
    assert ", deep_gcn 0.5" not in text
    assert ", cluster_gcn 0.5" in text
