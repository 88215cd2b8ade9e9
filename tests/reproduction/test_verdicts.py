"""Comparison with the published numbers and on random splits."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.cells import Run, Split
from reproduction.experiments import Row
from reproduction.results import Result
from reproduction.sections import section
from reproduction.selection import Sample
from reproduction.verdicts import (
    TOLERANCE,
    compare_with_published,
    noise,
    paired_comparisons,
    verdict,
)


@settings(deadline=None)
@given(
    st.floats(0.01, 5),
    st.integers(2, 9),
    st.lists(st.floats(70, 90), min_size=2, max_size=9).filter(lambda v: np.std(v) > 1e-2),
)
def test_noise_is_welchs_half_width_plus_half_a_point(sd, runs, values):
    ours = Sample(tuple(values))
    half_width = noise(sd, runs, ours) - TOLERANCE
    welch = scipy.stats.ttest_ind_from_stats(
        half_width, sd, runs, 0, np.std(values, ddof=1), len(values), equal_var=False
    )
    assert welch.pvalue == pytest.approx(0.05, rel=1e-6)
    assert TOLERANCE == 0.5


def test_single_run_has_no_deviation():
    half_width = 3.182446 * 0.6 / math.sqrt(4)  # Student's t with three degrees of freedom
    assert noise(0.6, 4, Sample((81.0,))) == pytest.approx(half_width + 0.5)
    assert noise(0.0, 4, Sample((81.0,))) == noise(None, 4, Sample((81.0,))) == 0.5
    assert noise(0.0, 5, Sample((81.0, 81.0))) == 0.5


def test_missing_published_deviation_is_replaced_by_ours():
    ours = Sample((80.0, 81.0, 82.0))
    assert noise(None, 4, ours) == noise(ours.sd, 4, ours) != noise(0.0, 4, ours)


@pytest.mark.parametrize("within", [0.0, 0.1, 1.9])
def test_verdicts_at_the_limits(within):
    assert verdict(within, within) == verdict(-within, within) == "within noise"
    assert verdict(0.0, within) == "within noise"
    assert verdict(math.nextafter(within, math.inf), within) == "better"
    assert verdict(math.nextafter(-within, -math.inf), within) == "worse"


# -- random splits -------------------------------------------------------------------------------


def result(
    method, values, experiment="random", protocol="paper", dataset="cora", runs=None, **more
):
    fields = {name: more.pop(name) for name in ("supervised", "layers", "init") if name in more}
    seeds = range(len(values)) if runs is None else runs
    sample = Sample(tuple(values))
    return Result(
        row=Row(experiment, protocol, dataset, method, **fields),
        pool="full", fingerprint="", values=tuple(values), mean=sample.mean, sd=sample.sd,
        interval=sample.interval(), validation=80.0, selected={},
        n_candidates=more.get("n_candidates", 60), n_selection_seeds=more.get("n_seeds", 5),
        best_epoch=1, seconds_per_run=1.0,
        runs=tuple(Run(Split(random_seed=seed), seed) for seed in seeds),
    )  # fmt: skip


GCN = result("gcn", [80.0, 70.0, 75.0])


@pytest.mark.parametrize(
    ("fields", "mean", "sd", "n_runs"),
    [
        ({"experiment": "table1", "method": "gcn"}, 80.62, 0.9, 4),
        ({"experiment": "table3", "method": "gcn"}, 80.62, 0.9, 4),
        ({"experiment": "table3", "method": "gpcanet"}, 80.64, 0.33, 5),
        ({"experiment": "table4", "method": "gcn", "layers": 2, "init": "xavier"}, 80.62, 0.37, 4),
        ({"experiment": "table4", "dataset": "ogbn-arxiv", "method": "gcn", "layers": 2,
          "init": "gpca"}, 69.76, None, 4),
    ],
)  # fmt: skip
def test_published_deviations_are_corrected_for_the_number_of_runs(fields, mean, sd, n_runs):
    found = compare_with_published(result(values=[80.0, 80.0, 82.0, 82.0], **fields))
    assert found.published == (mean, sd, n_runs)
    assert found.difference == pytest.approx(81 - mean)
    corrected = None if sd is None else sd * math.sqrt(n_runs / (n_runs - 1))
    assert found.noise == pytest.approx(noise(corrected, n_runs, Sample((80, 80, 82, 82))))
    assert found.verdict == verdict(found.difference, found.noise)


@pytest.mark.parametrize(
    "fields",
    [
        {"experiment": "table4", "method": "gcn", "layers": 2, "init": "he"},
        {"experiment": "table4", "method": "gcn", "layers": 4, "init": "gpca"},
        {"experiment": "table2", "dataset": "ogbn-arxiv", "method": "gpca"},
        {"experiment": "random", "method": "gcn"},
    ],
)
def test_rows_without_a_published_number_are_not_compared(fields):
    assert compare_with_published(result(values=[80.0, 81.0], **fields)) is None


@pytest.mark.parametrize(
    ("values", "difference", "expected"),
    [
        ([81.0, 71.1, 75.9], 1.0, "better"),  # the same difference on every split
        ([79.0, 68.9, 74.1], -1.0, "worse"),
        ([82.0, 69.0, 75.5], 0.5, "within noise"),
        ([80.0, 70.0, 75.0], 0.0, "within noise"),
    ],
)
def test_results_are_compared_run_by_run(values, difference, expected):
    (found,) = paired_comparisons([result("gpca", values), GCN])
    assert (found.first.row.method, found.second.row.method) == ("gpca", "gcn")
    assert len(found.difference.values) == 3
    assert found.difference.mean == pytest.approx(difference)
    assert found.verdict == expected
    if difference:
        interval = scipy.stats.ttest_rel(values, GCN.values).confidence_interval(0.95)
        assert found.difference.interval() == pytest.approx(tuple(interval))
    assert found.means == pytest.approx((sum(values) / 3, 75.0))


def test_every_protocol_is_compared_with_the_gcn_of_the_paper():
    gpca = [result("gpca", [81.0, 71.0, 77.0], protocol=name) for name in ("paper", "ours")]
    found = paired_comparisons([*gpca, result("gcn", [1.0, 2.0, 3.0], protocol="ours"), GCN])
    assert [c.first.row.protocol for c in found] == ["paper", "ours"]
    assert [c.difference.mean for c in found] == [pytest.approx(4 / 3)] * 2


def test_other_rows_are_compared_within_their_protocol():
    ours = result("gpca", [81.0, 71.0, 77.0], protocol="ours", supervised=True)
    assert paired_comparisons([ours, result("gpca", [80.0, 70.0, 75.0])]) == []
    other = result("gpca", [80.0, 70.0, 75.0], protocol="ours")
    (found,) = paired_comparisons([ours, other])
    assert (found.first, found.second) == (ours, other)


def test_effort_of_the_selection_is_shown():
    lean = result("gcn", [80.0, 70.0, 75.0], n_candidates=8, n_seeds=1)
    *_, table = section("random", [result("gpca", [81.0, 71.0, 77.0]), lean])
    ((_, _, first, second, *_),) = table.rows
    assert (first.details, second.details) == (("60 x 5 seeds",), ("8 x 1 seed",))


@pytest.mark.parametrize(
    ("values", "seeds"),
    [([81.0, 71.1, 75.9], (0, 1, 2)), ([75.9, 81.0, 71.1], (2, 0, 1)), ([75.9, 81.0], (2, 0))],
    ids=["in order", "in another order", "one failed"],
)
def test_runs_are_matched_by_split_and_seed(values, seeds):
    (found,) = paired_comparisons([result("gpca", values, runs=seeds), GCN])
    partners = [GCN.values[seed] for seed in seeds]
    interval = scipy.stats.ttest_rel(values, partners).confidence_interval(0.95)
    assert len(found.difference.values) == len(seeds)
    assert found.difference.mean == pytest.approx(np.mean(values) - np.mean(partners))
    assert found.difference.interval() == pytest.approx(tuple(interval))


def test_initialisations_are_compared_with_gpca_at_the_same_depth():
    rows = [(2, "gpca"), (2, "xavier"), (2, "he"), (15, "gpca")]
    results = [
        result("gcn", [80.0, 81.0 + i, 82.0], layers=layers, init=init)
        for i, (layers, init) in enumerate(rows)
    ]
    found = [(c.first.row, c.second.row) for c in paired_comparisons(results)]
    assert found == [(results[0].row, results[1].row), (results[0].row, results[2].row)]


def test_unrelated_rows_are_not_compared():
    values = [81.0, 71.0, 77.0]
    assert paired_comparisons([]) == paired_comparisons([GCN]) == []
    for other in (
        result("gpca", values, experiment="table1"),
        result("gpca", values, dataset="pubmed"),
    ):
        assert paired_comparisons([GCN, other]) == []


def test_single_split_has_no_interval():
    (found,) = paired_comparisons([result("gpca", [99.0]), result("gcn", [50.0])])
    assert (found.difference.interval(), found.verdict) == (None, "within noise")
