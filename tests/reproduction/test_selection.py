"""What is chosen, by validation alone, and what the runs of it come to."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.cells import Setup, loading
from reproduction.entries import Entry
from reproduction.selection import Sample, choose, is_decided, paired, reported, wanted
from reproduction.summary import noise, summarise

SETUPS = tuple(Setup.of("gcn", "cora", layers=2, dropout=drop) for drop in (0, 0.2, 0.4, 0.5))
SELECT = (("public", 0), ("public", 1))
ENTRY = Entry(
    "table4", "paper", "lean", "cora", "2 layers, Xavier", SETUPS, SELECT,
    (*SELECT, ("public", 2), ("public", 3)),
)  # fmt: skip

FAILED = {"status": "failed", "reason": "ValueError: no", "seconds": 0.5}


def record(validation, test=0.5, **more):
    accuracy = {"train": 1.0, "validation": validation, "test": test}
    how = {"best_epoch": 7, "epochs": 9, "curve": [[1, 1.9, validation]], "seconds": 2.0}
    return {"status": "done", "accuracy": accuracy, **how, **more}


def records_of(scores, runs=SELECT, test=0.5):
    """A record for each setup and run; scores[setup][run] is its validation accuracy."""
    return {
        setup.cell(*run): record(score, test)
        for setup, row in zip(SETUPS, scores, strict=True)
        for run, score in zip(runs, row, strict=True)
    }


eighths = st.integers(0, 8).map(lambda count: count / 8)
tables = st.lists(st.tuples(eighths, eighths), min_size=4, max_size=4)


# -- choosing ------------------------------------------------------------------------------------


@settings(deadline=None)
@given(tables, st.lists(st.tuples(eighths, eighths), min_size=4, max_size=4))
def test_the_best_by_mean_validation_is_chosen_whatever_the_tests_say(scores, tests):
    means = [Fraction(a) + Fraction(b) for a, b in scores]
    expected = SETUPS[means.index(max(means))]  # of equals, the first
    records = records_of(scores)
    assert choose(ENTRY, records) == expected
    for setup, row in zip(SETUPS, tests, strict=True):
        for run, test in zip(SELECT, row, strict=True):
            records[setup.cell(*run)]["accuracy"]["test"] = test
    assert choose(ENTRY, records) == expected
    for found in records.values():
        del found["accuracy"]["test"]  # it is not even looked at
    assert choose(ENTRY, records) == expected


@settings(deadline=None)
@given(tables, st.permutations(range(4)))
def test_ties_go_to_the_first_of_the_pool(scores, order):
    pool = replace(ENTRY, candidates=tuple(SETUPS[place] for place in order))
    sums = {setup: sum(row) for setup, row in zip(SETUPS, scores, strict=True)}
    best = [setup for setup in pool.candidates if sums[setup] == max(sums.values())]
    assert choose(pool, records_of(scores)) == best[0]


def test_means_that_differ_by_rounding_alone_are_ties():
    rows = (372, 387, 407, 408, 363), (370, 377, 386, 399, 405)  # of 500 nodes
    runs = tuple(("public", seed) for seed in range(5))
    entry = replace(ENTRY, candidates=SETUPS[:2], select=runs, runs=runs)
    records = {
        setup.cell(*run): record(nodes / 500)
        for setup, row in zip(SETUPS, rows, strict=False)
        for run, nodes in zip(runs, row, strict=True)
    }
    assert sum(rows[0]) == sum(rows[1])
    assert choose(entry, records) == SETUPS[0]


def test_other_runs_do_not_count():
    records = records_of([(0.5, 0.5), (0.6, 0.6), (0.1, 0.1), (0.2, 0.2)])
    records[SETUPS[0].cell("public", 2)] = record(1.0)
    records[SETUPS[0].cell("random-0", 0)] = record(1.0)
    assert choose(ENTRY, records) == SETUPS[1]


@pytest.mark.parametrize("cell", ENTRY.cells_to_choose(), ids=str)
def test_nothing_is_chosen_while_a_run_is_missing(cell):
    records = records_of([(0.5, 0.5)] * 4)
    del records[cell]
    assert choose(ENTRY, records) is None
    assert not is_decided(ENTRY, records)
    assert wanted(ENTRY, records) == [cell]
    assert reported(ENTRY, records) is None


def test_a_candidate_that_failed_is_out_even_if_only_once():
    records = records_of([(0.5, 0.5), (0.9, 0.9), (0.6, 0.6), (0.6, 0.6)])
    records[SETUPS[1].cell("public", 1)] = FAILED
    assert is_decided(ENTRY, records)
    assert choose(ENTRY, records) == SETUPS[2]


def test_where_all_have_failed_nothing_is_chosen_nor_wanted():
    records = dict.fromkeys(ENTRY.cells_to_choose(), FAILED)
    assert choose(ENTRY, records) is None
    assert is_decided(ENTRY, records)
    assert wanted(ENTRY, records) == []
    assert reported(ENTRY, records) is None


def test_a_single_candidate_needs_no_choice():
    single = replace(ENTRY, candidates=SETUPS[2:3])
    assert single.cells_to_choose() == []
    assert choose(single, {}) == SETUPS[2]
    assert is_decided(single, {})
    assert wanted(single, {}) == [SETUPS[2].cell(*run) for run in ENTRY.runs]


def test_first_all_candidates_are_wanted_and_then_the_chosen_one():
    assert wanted(ENTRY, {}) == ENTRY.cells_to_choose()
    assert len(ENTRY.cells_to_choose()) == 8
    records = records_of([(0.1, 0.2), (0.9, 0.1), (0.8, 0.8), (0.5, 0.5)])
    assert wanted(ENTRY, records) == [SETUPS[2].cell("public", seed) for seed in (2, 3)]
    records[SETUPS[2].cell("public", 2)] = FAILED
    records[SETUPS[2].cell("public", 3)] = record(0.1)
    assert wanted(ENTRY, records) == []


# -- what it comes to ----------------------------------------------------------------------------


def test_the_runs_of_the_chosen_one_are_reported_and_failed_ones_counted():
    records = records_of([(0.1, 0.1), (0.75, 0.25), (0.2, 0.2), (0.3, 0.3)])
    records[SETUPS[1].cell("public", 0)]["accuracy"]["test"] = 0.8
    records[SETUPS[1].cell("public", 1)]["accuracy"]["test"] = 0.7
    assert reported(ENTRY, records) is None
    records[SETUPS[1].cell("public", 2)] = FAILED
    records[SETUPS[1].cell("public", 3)] = record(0.5, 0.6, best_epoch=3)
    found = reported(ENTRY, records)
    assert found["chosen"] == SETUPS[1]
    assert found["test"].values == pytest.approx((80, 70, 60))
    assert found["validation"].values == pytest.approx((75, 25, 50))
    assert found["best_epochs"] == [7, 7, 3]
    assert found["failed"] == 1
    assert found["runs"] == [("public", 0), ("public", 1), ("public", 3)]


def test_a_seed_that_is_named_twice_counts_twice():
    runs = (("public", 105), ("public", 105), ("public", 9195))
    entry = replace(ENTRY, candidates=SETUPS[:2], select=runs, runs=runs)
    records = {
        SETUPS[0].cell("public", 105): record(0.5, 0.8),
        SETUPS[0].cell("public", 9195): record(0.8, 0.5),
        SETUPS[1].cell("public", 105): record(0.6, 0.9),  # better, if it counts twice
        SETUPS[1].cell("public", 9195): record(0.7, 0.6),
    }
    found = reported(entry, records)
    assert found["chosen"] == SETUPS[1]
    assert found["test"].mean == pytest.approx((90 + 90 + 60) / 3)


def test_where_all_reported_runs_failed_there_is_no_number():
    single = replace(ENTRY, candidates=SETUPS[:1])
    records = dict.fromkeys(single.cells_to_report(SETUPS[0]), FAILED)
    assert reported(single, records) is None


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 100), min_size=2, max_size=30).filter(lambda v: np.std(v) > 1e-3),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_samples_are_those_of_scipy(values, level):
    sample = Sample(tuple(values))
    assert sample.mean == pytest.approx(np.mean(values))
    assert sample.sd == pytest.approx(np.std(values, ddof=1))
    expected = scipy.stats.t.interval(
        level, len(values) - 1, loc=np.mean(values), scale=scipy.stats.sem(values)
    )
    assert sample.interval(level) == pytest.approx(expected, abs=1e-9)


def test_one_value_has_no_spread_and_equal_ones_none_either():
    assert (Sample((81.1,)).mean, Sample((81.1,)).sd, Sample((81.1,)).interval()) == (81.1, 0, None)
    assert Sample((81.0,) * 5).interval() == (81.0, 81.0)


def test_paired_differences():
    assert paired((3.0, 5.0), (1.0, 6.0)).values == (2.0, -1.0)
    with pytest.raises(ValueError, match="shorter"):
        paired((1.0, 2.0), (1.0,))
    a, b = np.array([80.1, 81.5, 79.9, 82.0]), np.array([79.0, 81.0, 79.5, 80.2])
    expected = scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
    assert paired(a.tolist(), b.tolist()).interval() == pytest.approx(expected)


# -- all together --------------------------------------------------------------------------------


@pytest.fixture
def whole():
    """Records of ENTRY: dropout 0.2 is chosen, with a mean of 81."""
    records = records_of([(0.1, 0.1), (0.7, 0.7), (0.2, 0.2), (0.3, 0.3)], test=0.8)
    records |= {SETUPS[1].cell("public", seed): record(0.7, 0.82) for seed in (2, 3)}
    return records


#: Another way to begin, without which Table 4 compares nothing and is not told.
BESIDE = replace(ENTRY, row="2 layers, He")


def test_a_number_beside_the_published_one(whole):
    summary = summarise([ENTRY, BESIDE], whole)
    found, _ = summary["numbers"]
    assert (found["mean"], found["sd"]) == (81.0, 1.155)
    assert found["values"] == [80.0, 80.0, 82.0, 82.0]
    assert found["published"] == [80.62, 0.37]
    assert found["difference"] == 0.38
    theirs = 0.37 * math.sqrt(4 / 3)
    assert found["noise"] == pytest.approx(noise(theirs, 4, Sample((80, 80, 82, 82))), abs=1e-3)
    assert found["verdict"] == "within noise"
    assert found["chosen"] == {"dropout": 0.2}
    assert (found["candidates"], found["select_seeds"], found["failed"]) == (4, 2, 0)
    assert summary["total"] == {"runs": 10, "seconds": 20.0}
    assert summary["missing"] == summary["failed"] == summary["machines"] == []
    assert summary["unreachable"] == {}


@pytest.mark.parametrize(
    ("table", "row", "published", "runs"),
    [
        ("table1", "GCN", [80.62, 0.9], 4),
        ("table3", "GCN", [80.62, 0.9], 4),
        ("table3", "GPCANet", [80.64, 0.33], 5),
    ],
)
def test_published_spreads_divide_by_the_number_of_runs(whole, table, row, published, runs):
    (found,) = summarise([replace(ENTRY, experiment=table, row=row)], whole)["numbers"]
    assert found["published"] == published
    sd = published[1] * math.sqrt(runs / (runs - 1))
    assert found["noise"] == pytest.approx(noise(sd, runs, Sample((80, 80, 82, 82))), abs=1e-3)


def test_runs_that_serve_two_entries_are_paid_once(whole):
    again = replace(ENTRY, experiment="table1", row="GCN")
    summary = summarise([ENTRY, BESIDE, again], whole)
    assert summary["total"] == {"runs": 10, "seconds": 20.0}
    assert [cost["runs"] for cost in summary["cost"]] == [10, 10]


def test_what_is_missing_and_what_failed_is_told(whole):
    whole[SETUPS[0].cell("public", 0)] = FAILED
    other = replace(ENTRY, dataset="pubmed", candidates=tuple(
        Setup.of("gcn", "pubmed", layers=2, dropout=drop) for drop in (0, 0.5)
    ))  # fmt: skip
    summary = summarise([ENTRY, other], whole)
    # A way to begin by itself compares nothing: it is not told, but named as missing.
    assert summary["numbers"] == []
    assert [name["dataset"] for name in summary["missing"]] == ["cora", "pubmed"]
    assert [failure["reason"] for failure in summary["failed"]] == ["ValueError: no"]


def test_data_that_could_not_be_had_and_machines_are_told(whole):
    whole[loading("pubmed")] = {**FAILED, "reason": "no such host"}
    whole[loading("cora")] = record(0.0)
    for number, cell in enumerate(ENTRY.cells_to_choose()):
        whole[cell]["machine"] = ("4 cores", "2 cores")[number % 2]
    summary = summarise([ENTRY], whole)
    assert summary["unreachable"] == {"pubmed": "no such host"}
    assert summary["machines"] == ["2 cores", "4 cores"]
    assert summary["failed"] == []


def test_all_labels_alone_are_no_matter_of_fewer_labels(whole):
    every = replace(ENTRY, experiment="fewer", row="2 layers, Xavier, 20 labels a class")
    few = replace(every, row="2 layers, Xavier, 5 labels a class", runs=(("fewer-5", 0),))
    assert summarise([every, few], whole)["numbers"] == []
    whole[SETUPS[1].cell("fewer-5", 0)] = record(0.6)
    rows = [found["row"] for found in summarise([every, few], whole)["numbers"]]
    assert rows == [every.row, few.row]


def test_random_splits_are_named_run_by_run(whole):
    random = replace(ENTRY, experiment="random", row="GCN", runs=(("random-3", 3), ("random-7", 7)))
    whole |= {SETUPS[1].cell(*run): record(0.6) for run in random.runs}
    (found,) = summarise([random], whole)["numbers"]
    assert (found["runs"], found["splits"]) == (["random-3/3", "random-7/7"], ["random"])
