"""What is within noise, better or worse: beside the paper, and on random splits."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.selection import Sample
from reproduction.summary import TOLERANCE, comparisons, noise, verdict


@settings(deadline=None)
@given(
    st.floats(0.01, 5),
    st.integers(2, 9),
    st.lists(st.floats(70, 90), min_size=2, max_size=9).filter(lambda v: np.std(v) > 1e-2),
)
def test_beyond_noise_is_what_welch_calls_significant_and_half_a_point(sd, runs, values):
    ours = Sample(tuple(values))
    reach = noise(sd, runs, ours) - TOLERANCE
    welch = scipy.stats.ttest_ind_from_stats(
        reach, sd, runs, 0, np.std(values, ddof=1), len(values), equal_var=False
    )
    assert welch.pvalue == pytest.approx(0.05, rel=1e-6)
    assert TOLERANCE == 0.5


def test_one_run_has_no_spread_of_its_own():
    reach = 3.182446 * 0.6 / math.sqrt(4)  # Student's t with three degrees of freedom
    assert noise(0.6, 4, Sample((81.0,))) == pytest.approx(reach + 0.5)
    assert noise(0.0, 4, Sample((81.0,))) == noise(None, 4, Sample((81.0,))) == 0.5
    assert noise(0.0, 5, Sample((81.0, 81.0))) == 0.5


def test_where_the_paper_tells_no_spread_ours_stands_in():
    ours = Sample((80.0, 81.0, 82.0))
    assert noise(None, 4, ours) == noise(ours.sd, 4, ours) != noise(0.0, 4, ours)


@pytest.mark.parametrize("within", [0.0, 0.1, 1.9])
def test_verdicts_at_their_boundaries(within):
    assert verdict(within, within) == verdict(-within, within) == "within noise"
    assert verdict(0.0, within) == "within noise"
    assert verdict(math.nextafter(within, math.inf), within) == "better"
    assert verdict(math.nextafter(-within, -math.inf), within) == "worse"


# -- random splits -------------------------------------------------------------------------------


def number(row, values, protocol="paper", experiment="random", dataset="cora", runs=None):
    return {
        "experiment": experiment, "protocol": protocol, "dataset": dataset, "row": row,
        "mean": sum(values) / len(values), "values": values,
        "runs": runs or [f"random-{i}/{i}" for i in range(len(values))],
        "candidates": 60, "select_seeds": 5,
    }  # fmt: skip


GCN = number("GCN", [80.0, 70.0, 75.0])


@pytest.mark.parametrize(
    ("values", "difference", "word"),
    [
        ([81.0, 71.1, 75.9], 1.0, "better"),  # on every split, whatever the splits do
        ([79.0, 68.9, 74.1], -1.0, "worse"),
        ([82.0, 69.0, 75.5], 0.5, "within noise"),
        ([80.0, 70.0, 75.0], 0.0, "within noise"),
    ],
)
def test_comparisons_are_run_for_run(values, difference, word):
    (found,) = comparisons([number("GPCA", values), GCN])
    assert (found["one"], found["other"], found["splits"]) == ("GPCA", "GCN", 3)
    assert found["difference"] == pytest.approx(difference)
    assert found["verdict"] == word
    low, high = scipy.stats.ttest_rel(values, GCN["values"]).confidence_interval(0.95)
    if difference:
        assert found["interval"] == pytest.approx([low, high], abs=0.006)
    assert found["means"] == [sum(values) / 3, 75.0]


def test_every_protocol_is_compared_with_the_gcn_of_the_paper():
    numbers = [number("GPCA", [81.0, 71.0, 77.0], protocol) for protocol in ("paper", "ours")]
    found = comparisons([*numbers, number("GCN", [1.0, 2.0, 3.0], "ours"), GCN])
    assert [(one["protocol"], one["difference"]) for one in found] == [
        ("paper", pytest.approx(1.33)),
        ("ours", pytest.approx(1.33)),
    ]


def test_other_rows_are_compared_within_their_protocol():
    ours = number("Supervised GPCA", [81.0, 71.0, 77.0], "ours")
    assert comparisons([ours, number("GPCA", [80.0, 70.0, 75.0])]) == []
    (found,) = comparisons([ours, number("GPCA", [80.0, 70.0, 75.0], "ours")])
    assert (found["one"], found["other"]) == ("Supervised GPCA", "GPCA")


def test_how_much_was_tried_is_told():
    lean = {**GCN, "candidates": 8, "select_seeds": 1}
    (found,) = comparisons([number("GPCA", [81.0, 71.0, 77.0]), lean])
    assert found["tried"] == ["60 x 5 seeds", "8 x 1 seed"]


@pytest.mark.parametrize(
    ("values", "places"),
    [([81.0, 71.1, 75.9], (0, 1, 2)), ([75.9, 81.0, 71.1], (2, 0, 1)), ([75.9, 81.0], (2, 0))],
    ids=["in order", "in another order", "one failed"],
)
def test_runs_are_matched_by_name(values, places):
    runs = [f"random-{place}/{place}" for place in places]
    (found,) = comparisons([number("GPCA", values, runs=runs), GCN])
    partners = [GCN["values"][place] for place in places]
    low, high = scipy.stats.ttest_rel(values, partners).confidence_interval(0.95)
    assert found["splits"] == len(places)
    assert found["difference"] == pytest.approx(np.mean(values) - np.mean(partners), abs=0.006)
    assert found["interval"] == pytest.approx([low, high], abs=0.006)


def test_initialisations_are_compared_with_gpcas():
    rows = ("2 layers, GPCA", "2 layers, Xavier", "2 layers, He", "15 layers, GPCA")
    found = comparisons([number(row, [80.0, 81.0 + i, 82.0]) for i, row in enumerate(rows)])
    assert [(one["one"], one["other"]) for one in found] == [
        ("2 layers, GPCA", "2 layers, Xavier"),
        ("2 layers, GPCA", "2 layers, He"),
    ]


def test_what_is_not_to_be_compared_is_not():
    values = [81.0, 71.0, 77.0]
    assert comparisons([]) == comparisons([GCN]) == []
    others = (
        number("GPCA", values, experiment="table1"),
        number("GPCA", values, dataset="pubmed"),
    )
    for other in others:
        assert comparisons([GCN, other]) == []


def test_a_single_split_says_nothing():
    (found,) = comparisons([number("GPCA", [99.0]), number("GCN", [50.0])])
    assert (found["interval"], found["verdict"]) == (None, "within noise")
