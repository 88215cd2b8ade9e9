"""Selection by validation accuracy, and the accuracies of the selected setting."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.cells import PUBLIC, Setup, Split
from reproduction.experiments import Row, RowSpec, public_runs
from reproduction.selection import (
    Sample,
    completed,
    is_decided,
    missing_cells,
    paired,
    select,
)

SETUPS = tuple(Setup.of("gcn", "cora", layers=2, dropout=drop) for drop in (0, 0.2, 0.4, 0.5))
SELECT = public_runs([0, 1])
ROW = Row("table4", "paper", "cora", "gcn", layers=2, init="xavier")
SPEC = RowSpec(ROW, "lean", SETUPS, SELECT, public_runs(range(4)))

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


# -- selection -----------------------------------------------------------------------------------


@settings(deadline=None)
@given(tables, st.lists(st.tuples(eighths, eighths), min_size=4, max_size=4))
def test_best_mean_validation_accuracy_is_selected_for_any_test_accuracy(scores, tests):
    means = [Fraction(a) + Fraction(b) for a, b in scores]
    expected = SETUPS[means.index(max(means))]  # of equals, the first
    records = records_of(scores)
    assert select(SPEC, records) == expected
    for setup, row in zip(SETUPS, tests, strict=True):
        for run, test in zip(SELECT, row, strict=True):
            records[setup.cell(*run)]["accuracy"]["test"] = test
    assert select(SPEC, records) == expected
    for found in records.values():
        del found["accuracy"]["test"]  # test accuracies are not read
    assert select(SPEC, records) == expected


@settings(deadline=None)
@given(tables, st.permutations(range(4)))
def test_first_of_equal_candidates_is_selected(scores, order):
    pool = replace(SPEC, candidates=tuple(SETUPS[place] for place in order))
    sums = {setup: sum(row) for setup, row in zip(SETUPS, scores, strict=True)}
    best = [setup for setup in pool.candidates if sums[setup] == max(sums.values())]
    assert select(pool, records_of(scores)) == best[0]


def test_means_that_differ_by_rounding_are_equal():
    rows = (372, 387, 407, 408, 363), (370, 377, 386, 399, 405)  # of 500 nodes
    runs = public_runs(range(5))
    spec = replace(SPEC, candidates=SETUPS[:2], selection_runs=runs, runs=runs)
    records = {
        setup.cell(*run): record(nodes / 500)
        for setup, row in zip(SETUPS, rows, strict=False)
        for run, nodes in zip(runs, row, strict=True)
    }
    assert sum(rows[0]) == sum(rows[1])
    assert select(spec, records) == SETUPS[0]


def test_other_runs_do_not_count():
    records = records_of([(0.5, 0.5), (0.6, 0.6), (0.1, 0.1), (0.2, 0.2)])
    records[SETUPS[0].cell(PUBLIC, 2)] = record(1.0)
    records[SETUPS[0].cell(Split(random_seed=0), 0)] = record(1.0)
    assert select(SPEC, records) == SETUPS[1]


@pytest.mark.parametrize("cell", SPEC.selection_cells(), ids=str)
def test_nothing_is_selected_while_a_run_is_missing(cell):
    records = records_of([(0.5, 0.5)] * 4)
    del records[cell]
    assert select(SPEC, records) is None
    assert not is_decided(SPEC, records)
    assert missing_cells(SPEC, records) == [cell]
    assert completed(SPEC, records) is None


def test_candidate_with_one_failed_run_is_excluded():
    records = records_of([(0.5, 0.5), (0.9, 0.9), (0.6, 0.6), (0.6, 0.6)])
    records[SETUPS[1].cell(PUBLIC, 1)] = FAILED
    assert is_decided(SPEC, records)
    assert select(SPEC, records) == SETUPS[2]


def test_nothing_is_selected_if_all_candidates_failed():
    records = dict.fromkeys(SPEC.selection_cells(), FAILED)
    assert select(SPEC, records) is None
    assert is_decided(SPEC, records)
    assert missing_cells(SPEC, records) == []
    assert completed(SPEC, records) is None


def test_single_candidate_needs_no_selection_runs():
    single = replace(SPEC, candidates=SETUPS[2:3])
    assert single.selection_cells() == []
    assert select(single, {}) == SETUPS[2]
    assert is_decided(single, {})
    assert missing_cells(single, {}) == [SETUPS[2].cell(*run) for run in SPEC.runs]


def test_selection_cells_come_before_final_cells():
    assert missing_cells(SPEC, {}) == SPEC.selection_cells()
    assert len(SPEC.selection_cells()) == 8
    records = records_of([(0.1, 0.2), (0.9, 0.1), (0.8, 0.8), (0.5, 0.5)])
    assert missing_cells(SPEC, records) == [SETUPS[2].cell(PUBLIC, seed) for seed in (2, 3)]
    records[SETUPS[2].cell(PUBLIC, 2)] = FAILED
    records[SETUPS[2].cell(PUBLIC, 3)] = record(0.1)
    assert missing_cells(SPEC, records) == []


# -- accuracies ----------------------------------------------------------------------------------


def test_completed_runs_are_returned_and_failed_ones_counted():
    records = records_of([(0.1, 0.1), (0.75, 0.25), (0.2, 0.2), (0.3, 0.3)])
    records[SETUPS[1].cell(PUBLIC, 0)]["accuracy"]["test"] = 0.8
    records[SETUPS[1].cell(PUBLIC, 1)]["accuracy"]["test"] = 0.7
    assert completed(SPEC, records) is None
    records[SETUPS[1].cell(PUBLIC, 2)] = FAILED
    records[SETUPS[1].cell(PUBLIC, 3)] = record(0.5, 0.6, best_epoch=3)
    found = completed(SPEC, records)
    assert found.setup == SETUPS[1]
    assert found.test.values == pytest.approx((80, 70, 60))
    assert found.validation.values == pytest.approx((75, 25, 50))
    assert [record["best_epoch"] for record in found.records] == [7, 7, 3]
    assert found.n_failed == 1
    assert found.runs == public_runs([0, 1, 3])


def test_repeated_seed_counts_twice():
    runs = public_runs([105, 105, 9195])
    spec = replace(SPEC, candidates=SETUPS[:2], selection_runs=runs, runs=runs)
    records = {
        SETUPS[0].cell(PUBLIC, 105): record(0.5, 0.8),
        SETUPS[0].cell(PUBLIC, 9195): record(0.8, 0.5),
        SETUPS[1].cell(PUBLIC, 105): record(0.6, 0.9),  # better, if it counts twice
        SETUPS[1].cell(PUBLIC, 9195): record(0.7, 0.6),
    }
    found = completed(spec, records)
    assert found.setup == SETUPS[1]
    assert found.test.mean == pytest.approx((90 + 90 + 60) / 3)


def test_no_result_if_all_final_runs_failed():
    single = replace(SPEC, candidates=SETUPS[:1])
    records = dict.fromkeys(single.final_cells(SETUPS[0]), FAILED)
    assert completed(single, records) is None


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 100), min_size=2, max_size=30).filter(lambda v: np.std(v) > 1e-3),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_statistics_of_a_sample_equal_scipy(values, level):
    sample = Sample(tuple(values))
    assert sample.mean == pytest.approx(np.mean(values))
    assert sample.sd == pytest.approx(np.std(values, ddof=1))
    expected = scipy.stats.t.interval(
        level, len(values) - 1, loc=np.mean(values), scale=scipy.stats.sem(values)
    )
    assert sample.interval(level) == pytest.approx(expected, abs=1e-9)


def test_single_value_has_no_interval():
    assert (Sample((81.1,)).mean, Sample((81.1,)).sd, Sample((81.1,)).interval()) == (81.1, 0, None)
    assert Sample((81.0,) * 5).interval() == (81.0, 81.0)


def test_paired_differences():
    assert paired((3.0, 5.0), (1.0, 6.0)).values == (2.0, -1.0)
    with pytest.raises(ValueError, match="shorter"):
        paired((1.0, 2.0), (1.0,))
    a, b = np.array([80.1, 81.5, 79.9, 82.0]), np.array([79.0, 81.0, 79.5, 80.2])
    expected = scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
    assert paired(a.tolist(), b.tolist()).interval() == pytest.approx(expected)
