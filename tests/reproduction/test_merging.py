"""Merged summaries equal the summary of all their runs."""

from dataclasses import replace

import pytest
from artificial_records import artificial_records

from reproduction.experiments import all_row_specs
from reproduction.journal import to_line
from reproduction.report import read_summary
from reproduction.results import Failure, Summary
from reproduction.summary import merge_summaries, specs_for, summarize


def summary_of(records):
    return summarize(specs_for(records), records)


@pytest.fixture(scope="module")
def parts():
    """Records of two machines: one has a table of Cora, the other has the rest."""
    one = artificial_records(["table1", "random"], ["cora"])
    two = artificial_records(["table2"], ["cora"]) | artificial_records(["table1"], ["citeseer"])
    return one, two


@pytest.fixture(scope="module")
def first(parts):
    return summary_of(parts[0])


@pytest.fixture(scope="module")
def both(parts):
    return summary_of(parts[0] | parts[1])


def test_merged_summaries_equal_the_summary_of_all_records(parts, first, both):
    merged = merge_summaries([first, summary_of(parts[1])])
    for name in ("results", "missing", "unavailable", "versions", "machines"):
        assert getattr(merged, name) == getattr(both, name), name
    assert merged.n_runs == len(parts[0]) + len(parts[1]) >= both.n_runs


def test_single_summary_is_unchanged(first):
    assert merge_summaries([first]) == first


def test_later_result_and_its_cost_are_kept(first):
    shifted = tuple(
        replace(result, values=tuple(value - 5 for value in result.values))
        for result in first.results
    )
    merged = merge_summaries([first, replace(first, results=shifted)])
    assert merged.results == shifted
    assert merged.costs == first.costs
    assert merged.n_runs == 2 * first.n_runs


def test_costs_of_a_table_completed_later_add_up(parts, first):
    gpca = {cell: r for cell, r in parts[0].items() if cell.setup.method == "gpca"}
    others = {cell: r for cell, r in parts[0].items() if cell.setup.method != "gpca"}
    merged = merge_summaries([summary_of(gpca), summary_of(others)])
    assert merged.results == first.results
    assert merged.missing == first.missing
    costs = [
        {cost.table: (cost.runs, pytest.approx(cost.seconds, abs=0.2)) for cost in summary.costs}
        for summary in (merged, first)
    ]
    assert costs[0] == costs[1]


def test_journals_and_summaries_are_read_as_one(parts, first, both, tmp_path):
    summary, journal = tmp_path / "one.json", tmp_path / "two.jsonl"
    summary.write_bytes(first.to_json())
    journal.write_bytes(b"".join(to_line(cell, record) for cell, record in parts[1].items()))
    for sources in ([summary, journal], [journal, summary]):
        assert read_summary(sources, print).results == both.results


@pytest.mark.parametrize("with_other", [False, True])
def test_results_of_outdated_settings_are_left_out(parts, first, with_other):
    stale = next(result for result in first.results if result.row.experiment == "random")
    others = [result for result in first.results if result != stale]
    outdated = replace(first, results=(replace(stale, fingerprint="0" * 12), *others))
    merged = merge_summaries([outdated, *([summary_of(parts[1])] if with_other else [])])
    assert stale.row in merged.missing
    assert stale.row not in {result.row for result in merged.results}
    assert {result.row for result in others} <= {result.row for result in merged.results}


def test_failure_in_both_summaries_is_listed_once(parts, first):
    failed = (Failure(next(iter(parts[0])), "artificial"),)
    summary = replace(first, failed=failed)
    assert merge_summaries([summary, summary]).failed == failed
    assert Summary.from_json(summary.to_json()) == summary


def test_larger_pool_takes_precedence_in_any_order():
    records = {
        cell: record
        for cell, record in artificial_records(["table4"], ["cora"]).items()
        if cell.setup.get("patience")
    }
    lean = summary_of(records)
    assert {result.pool for result in lean.results} == {"lean"}
    fingerprints = {s.row: s.fingerprint() for s in all_row_specs() if s.pool == "full"}
    full = replace(
        lean,
        results=tuple(
            replace(result, pool="full", fingerprint=fingerprints[result.row])
            for result in lean.results
        ),
    )
    for merged in (merge_summaries([lean, full]), merge_summaries([full, lean])):
        assert {result.pool for result in merged.results} == {"full"}
