"""Summaries of records: results, missing rows, failures and costs."""

from dataclasses import replace

import pytest

from reproduction.cells import PUBLIC, Run, Setup, Split, loading_cell
from reproduction.experiments import Row, RowSpec, public_runs
from reproduction.results import Cost, NearTies, Result, Summary
from reproduction.summary import summarize

SETUPS = tuple(Setup.of("gcn", "cora", layers=2, dropout=drop) for drop in (0, 0.2, 0.4, 0.5))
ROW = Row("table4", "paper", "cora", "gcn", layers=2, init="xavier")
SPEC = RowSpec(ROW, "lean", SETUPS, public_runs([0, 1]), public_runs(range(4)))

#: A second initialisation, without which Table 4 compares nothing and is not shown.
OTHER_INIT = replace(SPEC, row=replace(ROW, init="he"))

FAILED = {"status": "failed", "reason": "ValueError: no", "seconds": 0.5}


def record(validation, test=0.5):
    accuracy = {"train": 1.0, "validation": validation, "test": test}
    curve = [[1, 1.9, validation]]
    how = {"best_epoch": 7, "epochs": 9, "curve": curve, "seconds": 2.0}
    return {"status": "done", "accuracy": accuracy, **how}


@pytest.fixture
def records():
    """Records of SPEC: dropout 0.2 is selected, with a mean test accuracy of 81."""
    validation = zip(SETUPS, (0.1, 0.7, 0.2, 0.3), strict=True)
    found = {s.cell(PUBLIC, seed): record(v, 0.8) for s, v in validation for seed in (0, 1)}
    found |= {SETUPS[1].cell(PUBLIC, seed): record(0.7, 0.82) for seed in (2, 3)}
    return found


def test_result_of_the_selected_setting(records):
    summary = summarize([SPEC, OTHER_INIT], records)
    found, _ = summary.results
    assert found == Result(
        row=ROW, pool="lean", fingerprint=SPEC.fingerprint(), values=(80.0, 80.0, 82.0, 82.0),
        mean=81.0, sd=1.155, interval=(79.16, 82.84), validation=70.0, selected={"dropout": 0.2},
        n_candidates=4, n_selection_seeds=2, best_epoch=7, seconds_per_run=2.0,
        curves=(((1, 70.0),),) * 4,
    )  # fmt: skip
    assert (summary.n_runs, summary.seconds) == (10, 20.0)
    assert summary.missing == summary.failed == summary.machines == ()
    assert summary.unavailable == {}
    assert Summary.from_json(summary.to_json()) == summary


def test_near_ties_are_counted_with_their_range(records):
    for seed, test in ((0, 0.6), (1, 0.7)):
        records[SETUPS[3].cell(PUBLIC, seed)] = record(0.696, test)
    found = summarize([SPEC, OTHER_INIT], records).results[0]
    assert found.near_ties == NearTies(2, 65.0, 80.0)


def test_runs_shared_by_rows_count_once_in_the_total(records):
    gcn = replace(SPEC, row=Row("table1", "paper", "cora", "gcn"))
    summary = summarize([SPEC, OTHER_INIT, gcn], records)
    assert (summary.n_runs, summary.seconds) == (10, 20.0)
    assert summary.costs == tuple(
        Cost(table, "paper", "cora", 10, 20.0) for table in ("table4", "table1")
    )


def test_missing_rows_and_failures_are_listed(records):
    records[SETUPS[0].cell(PUBLIC, 0)] = FAILED
    candidates = tuple(Setup.of("gcn", "pubmed", layers=2, dropout=drop) for drop in (0, 0.5))
    other = replace(SPEC, row=replace(ROW, dataset="pubmed"), candidates=candidates)
    summary = summarize([SPEC, other], records)
    # A single initialisation compares nothing: it counts as missing.
    assert summary.results == ()
    assert summary.missing == (SPEC.row, other.row)
    assert [failure.reason for failure in summary.failed] == ["ValueError: no"]


def test_unavailable_data_and_machines_are_listed(records):
    records[loading_cell("pubmed")] = {**FAILED, "reason": "no such host"}
    records[loading_cell("cora")] = record(0.0)
    for number, cell in enumerate(SPEC.selection_cells()):
        records[cell]["machine"] = ("4 cores", "2 cores")[number % 2]
    summary = summarize([SPEC], records)
    assert summary.unavailable == {"pubmed": "no such host"}
    assert summary.machines == ("2 cores", "4 cores")
    assert summary.failed == ()


def test_all_labels_alone_are_not_shown_as_fewer_labels(records):
    every = replace(SPEC, row=replace(ROW, experiment="fewer", labels_per_class=20))
    few = replace(
        SPEC,
        row=replace(ROW, experiment="fewer", labels_per_class=5),
        runs=(Run(Split(labels_per_class=5), 0),),
    )
    assert summarize([every, few], records).results == ()
    records[SETUPS[1].cell(Split(labels_per_class=5), 0)] = record(0.6)
    rows = [found.row for found in summarize([every, few], records).results]
    assert rows == [every.row, few.row]


def test_runs_on_random_splits_are_kept(records):
    runs = tuple(Run(Split(random_seed=seed), seed) for seed in (3, 7))
    random = replace(SPEC, row=Row("random", "paper", "cora", "gcn"), runs=runs)
    records |= {SETUPS[1].cell(*run): record(0.6) for run in runs}
    (found,) = summarize([random], records).results
    assert found.runs == runs
