"""Summaries together are the summary of all their runs."""

import copy

import pytest
from made_up import made_up_records

from reproduction.journal import to_line
from reproduction.report import read_summary, to_json
from reproduction.summary import all_entries, evidence, fingerprint, summarise
from reproduction.together import together


def of(records):
    return summarise(evidence(records), records)


@pytest.fixture(scope="module")
def parts():
    """Runs that two machines shared out: by dataset, and one table of Cora's apart."""
    one = made_up_records(["table1", "random"], ["cora"])
    two = made_up_records(["table2"], ["cora"]) | made_up_records(["table1"], ["citeseer"])
    return one, two


def test_they_tell_what_their_journals_would(parts):
    one, two = parts
    both, whole = together([of(one), of(two)]), of(one | two)
    for told in ("numbers", "comparisons", "missing", "unreachable", "versions", "machines"):
        assert both[told] == whole[told], told
    assert both["total"]["runs"] == len(one) + len(two) >= whole["total"]["runs"]


def test_one_by_itself_is_as_it_was(parts):
    summary = of(parts[0])
    assert together([summary]) == summary


def test_the_later_number_counts_and_its_comparisons_and_cost_with_it(parts):
    older = of(parts[0])
    newer = copy.deepcopy(older)
    for number in newer["numbers"]:
        number["values"] = [value - 5 if number["row"] == "GPCA" else value
                            for value in number["values"]]  # fmt: skip
    both = together([older, newer])
    assert both["numbers"] == newer["numbers"]
    assert [c["difference"] for c in both["comparisons"]] != [
        c["difference"] for c in older["comparisons"]
    ]
    assert both["cost"] == older["cost"]
    assert both["total"]["runs"] == 2 * older["total"]["runs"]


def test_a_table_filled_up_later_took_both(parts):
    records = parts[0]
    gpca = {cell: record for cell, record in records.items() if cell.setup.method == "gpca"}
    rest = {cell: record for cell, record in records.items() if cell.setup.method != "gpca"}
    both, whole = together([of(gpca), of(rest)]), of(records)
    assert both["numbers"] == whole["numbers"]
    assert both["missing"] == whole["missing"]

    def costs(summary):
        return {
            (c["experiment"], c["protocol"], c["dataset"]): (c["runs"], round(c["seconds"], 1))
            for c in summary["cost"]
        }

    assert costs(both) == costs(whole)


def test_journals_and_summaries_are_read_together(parts, tmp_path):
    one, two = parts
    summary, journal = tmp_path / "one.json", tmp_path / "two.jsonl"
    summary.write_bytes(to_json(of(one)))
    journal.write_bytes(b"".join(to_line(cell, record) for cell, record in two.items()))
    for sources in ([summary, journal], [journal, summary]):
        assert read_summary(sources, print)["numbers"] == of(one | two)["numbers"]


def test_numbers_of_settings_that_are_no_more_are_left_out(parts):
    older, newer = of(parts[0]), of(parts[1])
    stale = next(number for number in older["numbers"] if number["experiment"] == "random")
    stale["of"] = "0" * 12
    both = together([older, newer])
    name = {key: stale[key] for key in ("experiment", "protocol", "dataset", "row")}
    assert name in both["missing"]
    assert not [n for n in both["numbers"] if n.items() >= name.items()]
    assert len(both["numbers"]) == len(of(parts[0] | parts[1])["numbers"]) - 1


def test_also_where_there_is_one_summary_only(parts):
    summary = of(parts[0])
    summary["numbers"][0]["of"] = "before"
    alone = together([summary])
    assert alone["numbers"] == summary["numbers"][1:]
    assert len(alone["missing"]) == len(summary["missing"]) + 1


def test_a_failure_that_both_tell_is_told_once(parts):
    summary = of(parts[0])
    summary["failed"] = [{"cell": next(iter(parts[0])).to_json(), "reason": "made up"}]
    assert together([summary, summary])["failed"] == summary["failed"]


def test_the_larger_pool_counts_whoever_comes_last():
    lean = {
        cell: record
        for cell, record in made_up_records(["table4"], ["cora"]).items()
        if cell.setup.get("patience")
    }
    older, newer = of(lean), of(lean)
    assert {n["pool"] for n in older["numbers"]} == {"lean"}
    entries = {
        (e.experiment, e.dataset, e.row): fingerprint(e) for e in all_entries() if e.pool == "full"
    }
    for number in older["numbers"]:
        of_full = entries[number["experiment"], number["dataset"], number["row"]]
        number |= {"pool": "full", "of": of_full}
    for both in (together([older, newer]), together([newer, older])):
        assert {n["pool"] for n in both["numbers"]} == {"full"}


def test_verdicts_are_those_of_the_rule_as_it_is_now(parts):
    summary = of(parts[0])
    before = [dict(number) for number in summary["numbers"]]
    for number in summary["numbers"]:
        number |= {"verdict": "worse", "noise": 0.0} if "verdict" in number else {}
    assert together([summary])["numbers"] == before
