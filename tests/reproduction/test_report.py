"""The report from made-up records, and the committed one from the committed summary."""

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up import made_up_record, made_up_records

from reproduction.blocks import Box, Heading, Items, Picture, Table, Text
from reproduction.cells import loading
from reproduction.document import document
from reproduction.entries import read_toml
from reproduction.journal import to_line
from reproduction.render import to_html, to_markdown
from reproduction.report import read_summary, to_json, write_report
from reproduction.selection import choose, reported
from reproduction.summary import all_entries, evidence, fingerprint, judged, name_of, summarise

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def records():
    return made_up_records()


@pytest.fixture(scope="module")
def summary(records):
    return summarise(evidence(records), records)


class Page(HTMLParser):
    """Tags that are open, addresses that are named, and the text of table cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.addresses, self.cells, self.ids = [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.addresses += [found[name] for name in ("src", "href") if name in found]
        self.ids |= {found["id"]} if "id" in found else set()
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open:
            self.cells.append(data.strip())


def test_the_report_is_written_whole(summary, tmp_path):
    written = write_report(summary, tmp_path, "proof", overwrite=False)
    assert {path.name for path in written} >= {"proof.html", "proof.md", "proof.json"}
    assert all(path.exists() for path in written)
    pictures = [path for path in written if path.suffix == ".png"]
    assert len(pictures) == 8  # curves, heat map, histograms, fewer labels, for two datasets
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
    named = re.findall(r"\]\((images/[^)]+)\)", (tmp_path / "proof.md").read_text())
    assert {tmp_path / name for name in named} == set(pictures)
    with pytest.raises(FileExistsError):
        write_report(summary, tmp_path, "proof", overwrite=False)


def test_the_page_stands_alone(summary, tmp_path):
    write_report(summary, tmp_path, "proof", overwrite=False)
    text = (tmp_path / "proof.html").read_text()
    page = Page(text)
    assert page.open == []
    assert "<script" not in text
    inside = [address for address in page.addresses if address.startswith("#")]
    assert {address[1:] for address in inside} <= page.ids
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in page.addresses)


def test_both_faces_tell_the_same_numbers(summary):
    blocks = document(summary)
    cells = set(Page(to_html(blocks, {})).cells)
    markdown = to_markdown(blocks, "images/")
    for number in summary["numbers"]:
        if number["experiment"].startswith("table"):
            spread = f"{number['sd']:.2f}" if len(number["values"]) > 1 else "one run"
            told = f"{number['mean']:.2f} ({spread})"
            assert told in cells
            assert told in markdown
    for number in summary["numbers"]:
        if "verdict" in number:
            told = [f"{number['difference']:+.2f} {number['verdict']}"]
            if number["interval"] is not None:
                told.insert(0, "{:.1f} to {:.1f}".format(*number["interval"]))
            assert set(told) <= cells
            assert "<br>".join(told) in markdown


def test_a_summary_makes_the_same_report_as_its_journal(records, tmp_path):
    journal = tmp_path / "runs.jsonl"
    journal.write_bytes(b"".join(to_line(cell, record) for cell, record in records.items()))
    read = read_summary([journal], print)
    (tmp_path / "summary.json").write_bytes(to_json(read))
    again = read_summary([tmp_path / "summary.json"], print)
    assert document(again) == document(read)
    assert to_json(again) == to_json(read)


def test_a_table_that_is_not_finished_is_reported_as_far_as_it_is(tmp_path):
    shallow = {
        cell: record
        for cell, record in made_up_records(["table4"], ["cora"]).items()
        if cell.setup["layers"] in (3, 5)  # neither of those whose curves are kept
    }
    summary = summarise(evidence(shallow), shallow)
    written = write_report(summary, tmp_path, "proof", overwrite=False)
    assert not [path for path in written if path.suffix == ".png"]
    assert "| Cora | 3 layers | 5 layers |" in (tmp_path / "proof.md").read_text()


@pytest.fixture(scope="module")
def committed():
    return json.loads((DOCS / "evidence.json").read_bytes())


@pytest.mark.parametrize("which", ["summary", "committed"])
def test_every_published_number_is_compared_or_listed_as_not_run(which, request):
    summary = request.getfixturevalue(which)
    compared = {tuple(name_of(number).values()) for number in summary["numbers"]}
    missing = {tuple(name_of(number).values()) for number in summary["missing"]}
    published = read_toml("published")
    for table in ("table1", "table2", "table3", "table4"):
        for dataset, rows in published[table].items():
            for row in rows:
                for protocol in ("paper",) if table == "table4" else ("paper", "authors-code"):
                    assert (table, protocol, dataset, row) in compared | missing
    assert ("table1", "paper", "cora", "GPCA, all alpha") in compared
    assert ("table1", "paper", "ogbn-arxiv", "GPCA, all alpha") in missing


def test_failures_and_what_was_not_run_are_told(records):
    changed = copy.deepcopy(records)
    changed[loading("ogbn-arxiv")] = {"status": "failed", "reason": "no such host", "seconds": 0}
    entries = evidence(records)
    deep = next(one for one in entries if one.row == "10 layers, He" and one.dataset == "cora")
    failing = choose(deep, records).cell("public", 3)
    changed[failing] = made_up_record(failing, "failed")
    text = to_markdown(document(summarise(evidence(changed), changed)), "images/")
    assert "ogbn-arxiv: its data could not be had: no such host." in text
    assert "PubMed: not requested." in text
    assert "Cora: not requested" not in text
    assert "ValueError: made up" in text
    values = reported(deep, changed)["test"]
    assert len(values.values) == 4
    assert f"| {values.mean:.2f} ({values.sd:.2f}), 1 failed" in text


def test_what_was_begun_and_not_finished_is_counted():
    """By the pool that was begun: cells of networks are others in lean than in full."""
    cells = made_up_records(["table4"], ["cora"])
    lean = next(e for e in all_entries() if e.pool == "lean" and e.row == "10 layers, He")
    begun = {cell: made_up_record(cell, "failed") for cell in lean.cells_to_choose()}
    assert begun.keys() <= cells.keys()
    summary = summarise(evidence(begun), begun)
    assert summary["total"]["runs"] == len(summary["failed"]) == len(begun)
    text = to_markdown(document(summary), "images/")
    assert "ValueError: made up" in text


def test_all_that_is_off_is_listed_once_better_or_worse(summary):
    judged = [number for number in summary["numbers"] if "verdict" in number]
    assert {n["verdict"] for n in judged} == {"within noise", "better", "worse"}
    apart = {}
    for n in judged:  # the first counts
        apart.setdefault((n["protocol"], n["dataset"], n["of"]), n)
    assert len(apart) < len(judged)  # GCN stands in three tables
    off = [n for n in apart.values() if n["verdict"] != "within noise"]
    counted, listed = [block for block in document(summary) if isinstance(block, Table)][:2]
    assert listed.header[0] == "off by more than noise"
    assert [(row[1].text, row[2].text, row[3].text, row[3].verdict) for row in listed.rows] == [
        (n["protocol"], f"{n['published'][0]:.2f}", f"{n['mean']:.2f}", n["verdict"]) for n in off
    ]
    for place, verdict in enumerate(("within noise", "better", "worse"), 3):
        found = sum(int(row[place].text) for row in counted.rows)
        assert found == sum(n["verdict"] == verdict for n in apart.values())
    assert sum(int(row[2].text) for row in counted.rows) == len(apart)


def test_made_up_graphs_are_marked_as_such(summary):
    text = to_markdown(document(summary), "images/")
    assert "NOT THE REAL DATA" in text


def test_the_total_counts_shared_runs_once(records, summary):
    assert summary["total"]["runs"] == len(records)
    assert sum(cost["runs"] for cost in summary["cost"]) > len(records)


def test_text_that_looks_like_markup_stays_text():
    blocks = [
        Heading("A <b>", 1),
        Text("x < y & `a<b>` *so*"),
        Items(("<script>",)),
        Table(("<th>", "v"), ((Box("<td>"), Box("a|b", "<i>", "worse")),), "<caption>"),
    ]
    html = to_html(blocks, {})
    assert "<script>" not in html
    assert "<code>a&lt;b&gt;</code> <em>so</em>" in html
    assert 'class="worse"' in html
    assert "a\\|b<br><i>" in to_markdown(blocks, "")


def test_a_picture_is_named_in_markdown_and_embedded_in_html():
    blocks = [Heading("T", 1), Picture("curves-cora", "alt", "caption")]
    assert "![alt](images/x-curves-cora.png)" in to_markdown(blocks, "images/x-")
    assert "data:image/png;base64,AAEC" in to_html(blocks, {"curves-cora": b"\x00\x01\x02"})


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"numbers": 3}', b"\xff\xfe", b'{"numbers": [{}]}']
)
def test_a_file_that_is_no_summary_is_refused(tmp_path, content):
    path = tmp_path / "summary.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"summary\.json is no summary of the reproduction"):
        read_summary([path], print)


def test_a_journal_without_runs_is_refused(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("nothing\n")
    told = []
    with pytest.raises(ValueError, match="holds no run of the reproduction; run some first"):
        read_summary([path], told.append)
    assert told == ["1 damaged or foreign lines of the journal are left out"]


# -- what is committed ------------------------------------------------------------------------


def test_the_committed_page_is_that_of_the_committed_summary(committed):
    pictures = [p.stem.removeprefix("evidence-") for p in DOCS.glob("images/evidence-*.png")]
    assert pictures
    page = to_markdown(document(committed, pictures), "images/evidence-")
    assert page == (DOCS / "evidence.md").read_text()
    assert to_json(committed) == (DOCS / "evidence.json").read_bytes()


def test_the_committed_numbers_are_of_the_settings_and_the_rule_as_they_are(committed):
    current = {fingerprint(entry) for entry in all_entries()}
    for number in committed["numbers"]:
        assert number["of"] in current
        assert judged(number) == number


def test_the_committed_summary_has_what_was_promised(committed):
    numbers = committed["numbers"]
    found = {(n["experiment"], n["protocol"], n["dataset"], n["row"]): n for n in numbers}
    for table, row in (
        ("table1", "GPCA, all alpha"),
        ("table2", "Supervised GPCA, beta = 0.1"),
        ("table2", "Supervised GPCA, beta = 0.2"),
    ):
        assert abs(found[table, "authors-code", "cora", row]["difference"]) <= 0.3
    for dataset in ("cora", "citeseer", "pubmed"):
        for protocol in ("paper", "authors-code", "ours"):
            assert ("table1", protocol, dataset, "GPCA, all alpha") in found
            assert ("table2", protocol, dataset, "Supervised GPCA, all beta") in found
            assert ("table3", protocol, dataset, "GPCANet") in found
    for dataset in ("cora", "citeseer"):
        for depth in (2, 3, 5, 10, 15):
            for init in ("Xavier", "GPCA", "He", "orthogonal"):
                number = found["table4", "paper", dataset, f"{depth} layers, {init}"]
                assert len(number["values"]) == 5
    for depth in (2, 15):
        for init in ("Xavier", "GPCA"):
            number = found["histograms", "paper", "cora", f"{depth} layers, {init}"]
            assert len(number["values"]) >= 30
