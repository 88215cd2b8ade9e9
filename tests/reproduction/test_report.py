"""Reports on artificial records, and the committed report."""

import copy
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from artificial_records import artificial_record, artificial_records

from reproduction.blocks import Figure, FigureKey, Heading, Items, Table, TableCell, Text
from reproduction.cells import PUBLIC, loading_cell
from reproduction.document import document
from reproduction.experiments import Row, all_row_specs
from reproduction.figures import figure_keys
from reproduction.journal import to_line
from reproduction.rendering import to_html, to_markdown
from reproduction.report import read_summary, write_report
from reproduction.results import Summary
from reproduction.selection import completed, select
from reproduction.summary import specs_for, summarize
from reproduction.verdicts import compare_with_published, published_rows

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def records():
    return artificial_records()


@pytest.fixture(scope="module")
def summary(records):
    return summarize(specs_for(records), records)


class Page(HTMLParser):
    """Open tags, addresses and the text of table cells of an HTML page."""

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


def test_all_files_of_the_report_are_written(summary, tmp_path):
    written = write_report(summary, tmp_path, "proof", overwrite=False)
    assert {path.name for path in written} >= {"proof.html", "proof.md", "proof.json"}
    assert all(path.exists() for path in written)
    figures = [path for path in written if path.suffix == ".png"]
    assert len(figures) == 8  # curves, heat map, histograms, fewer labels, for two datasets
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in figures)
    named = re.findall(r"\]\((images/[^)]+)\)", (tmp_path / "proof.md").read_text())
    assert {tmp_path / name for name in named} == set(figures)
    with pytest.raises(FileExistsError):
        write_report(summary, tmp_path, "proof", overwrite=False)


def test_html_page_is_self_contained(summary, tmp_path):
    write_report(summary, tmp_path, "proof", overwrite=False)
    text = (tmp_path / "proof.html").read_text()
    page = Page(text)
    assert page.open == []
    assert "<script" not in text
    inside = [address for address in page.addresses if address.startswith("#")]
    assert {address[1:] for address in inside} <= page.ids
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in page.addresses)


def test_html_and_markdown_have_the_same_numbers(summary):
    blocks = document(summary)
    figures = dict.fromkeys(figure_keys(summary.results), b"")
    cells = set(Page(to_html(blocks, figures)).cells)
    markdown = to_markdown(blocks, "images/")
    for result in summary.results:
        if result.row.experiment.startswith("table"):
            spread = f"{result.sd:.2f}" if len(result.values) > 1 else "one run"
            shown = f"{result.mean:.2f} ({spread})"
            assert shown in cells
            assert shown in markdown
        comparison = compare_with_published(result)
        if comparison is not None:
            lines = [f"{comparison.difference:+.2f} {comparison.verdict}"]
            if result.interval is not None:
                lines.insert(0, "{:.1f} to {:.1f}".format(*result.interval))
            assert set(lines) <= cells
            assert "<br>".join(lines) in markdown


def test_summary_gives_the_same_report_as_its_journal(records, tmp_path):
    journal = tmp_path / "runs.jsonl"
    journal.write_bytes(b"".join(to_line(cell, record) for cell, record in records.items()))
    read = read_summary([journal], print)
    (tmp_path / "summary.json").write_bytes(read.to_json())
    again = read_summary([tmp_path / "summary.json"], print)
    assert again == read
    assert document(again) == document(read)
    assert again.to_json() == read.to_json()


def test_unfinished_table_is_shown_in_part(tmp_path):
    shallow = {
        cell: record
        for cell, record in artificial_records(["table4"], ["cora"]).items()
        if cell.setup["layers"] in (3, 5)  # depths without curves
    }
    summary = summarize(specs_for(shallow), shallow)
    written = write_report(summary, tmp_path, "proof", overwrite=False)
    assert not [path for path in written if path.suffix == ".png"]
    text = (tmp_path / "proof.md").read_text()
    assert "| Cora | 3 layers | 5 layers |" in text
    assert "| Cora, authors-code | 3 layers | 5 layers |" in text


@pytest.fixture(scope="module")
def committed():
    return Summary.from_json((DOCS / "evidence.json").read_bytes())


@pytest.mark.parametrize("which", ["summary", "committed"])
def test_every_published_row_is_compared_or_listed_as_missing(which, request):
    summary = request.getfixturevalue(which)
    compared, missing = {result.row for result in summary.results}, set(summary.missing)
    for row in published_rows():
        assert row in compared | missing
        if row.experiment != "table4":
            assert replace(row, protocol="authors-code") in compared | missing
    assert Row("table1", "paper", "cora", "gpca") in compared
    assert Row("table1", "paper", "ogbn-arxiv", "gpca") in missing


def test_failures_and_missing_data_are_shown(records):
    changed = copy.deepcopy(records)
    reason = {"status": "failed", "reason": "no such host", "seconds": 0}
    changed[loading_cell("ogbn-arxiv")] = reason
    row = Row("table4", "paper", "cora", "gcn", layers=10, init="he")
    deep = next(spec for spec in specs_for(records) if spec.row == row)
    failing = select(deep, records).cell(PUBLIC, 3)
    changed[failing] = artificial_record(failing, "failed")
    text = to_markdown(document(summarize(specs_for(changed), changed)), "images/")
    assert "ogbn-arxiv: its data could not be loaded: no such host." in text
    assert "PubMed: not requested." in text
    assert "Cora: not requested" not in text
    assert "gcn on Cora, public split, seed 3 (dropout" in text
    assert "ValueError: artificial" in text
    values = completed(deep, changed).test
    assert len(values.values) == 4
    assert f"| {values.mean:.2f} ({values.sd:.2f}), 1 failed" in text


def test_runs_of_unfinished_rows_are_counted():
    """The pool that was started counts: networks have other cells in lean than in full."""
    cells = artificial_records(["table4"], ["cora"])
    row = Row("table4", "paper", "cora", "gcn", layers=10, init="he")
    lean = next(spec for spec in all_row_specs() if (spec.row, spec.pool) == (row, "lean"))
    started = {cell: artificial_record(cell, "failed") for cell in lean.selection_cells()}
    assert started.keys() <= cells.keys()
    summary = summarize(specs_for(started), started)
    assert summary.n_runs == len(summary.failed) == len(started)
    assert "ValueError: artificial" in to_markdown(document(summary), "images/")


def test_differences_outside_noise_are_listed_once(summary):
    distinct, n_compared = {}, 0
    for result in summary.results:
        comparison = compare_with_published(result)
        if comparison is not None:
            n_compared += 1
            key = result.row.protocol, result.row.dataset, result.fingerprint
            distinct.setdefault(key, (result, comparison))
    verdicts = [comparison.verdict for _, comparison in distinct.values()]
    assert set(verdicts) == {"within noise", "better", "worse"}
    assert len(distinct) < n_compared  # GCN is in three tables
    counted, listed = [block for block in document(summary) if isinstance(block, Table)][:2]
    assert listed.header[0] == "outside noise"
    assert [(row[1].text, row[2].text, row[3].text, row[3].verdict) for row in listed.rows] == [
        (r.row.protocol, f"{c.published.mean:.2f}", f"{r.mean:.2f}", c.verdict)
        for r, c in distinct.values()
        if c.verdict != "within noise"
    ]
    for column, verdict in enumerate(("within noise", "better", "worse"), 3):
        assert sum(int(row[column].text) for row in counted.rows) == verdicts.count(verdict)
    assert sum(int(row[2].text) for row in counted.rows) == len(distinct)


def test_generated_graphs_are_marked(summary):
    text = to_markdown(document(summary), "images/")
    assert "NOT THE REAL DATA" in text


def test_shared_runs_count_once_in_the_total(records, summary):
    assert summary.n_runs == len(records)
    assert sum(cost.runs for cost in summary.costs) > len(records)


def test_markup_in_texts_is_escaped():
    row = TableCell("<td>"), TableCell("a|b", ("<i>",), "worse")
    blocks = [
        Heading("A <b>", 1),
        Text("x < y & `a<b>` *so*"),
        Items(("<script>",)),
        Table(("<th>", "v"), (row,), "<caption>"),
    ]
    html = to_html(blocks, {})
    assert "<script>" not in html
    assert "<code>a&lt;b&gt;</code> <em>so</em>" in html
    assert 'class="worse"' in html
    assert "a\\|b<br><i>" in to_markdown(blocks, "")


def test_figures_are_linked_in_markdown_and_embedded_in_html():
    key = FigureKey("curves", "cora")
    blocks = [Heading("T", 1), Figure(key, "alt", "caption")]
    assert "![alt](images/x-curves-cora.png)" in to_markdown(blocks, "images/x-")
    assert "data:image/png;base64,AAEC" in to_html(blocks, {key: b"\x00\x01\x02"})


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"results": 3}', b"\xff\xfe", b'{"results": [{}]}']
)
def test_file_that_is_not_a_summary_is_refused(tmp_path, content):
    path = tmp_path / "summary.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"summary\.json is not a summary of the reproduction"):
        read_summary([path], print)


def test_journal_without_runs_is_refused(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("nothing\n")
    notes = []
    with pytest.raises(ValueError, match="contains no runs; use python -m reproduction run first"):
        read_summary([path], notes.append)
    assert notes == ["1 lines of the journal are not valid records; skipped"]


# -- committed report -------------------------------------------------------------------------


def test_committed_page_is_made_from_the_committed_summary(committed):
    page = to_markdown(document(committed), "images/evidence-")
    assert page == (DOCS / "evidence.md").read_text()
    assert committed.to_json() == (DOCS / "evidence.json").read_bytes()
    figures = {path.stem for path in DOCS.glob("images/evidence-*.png")}
    assert figures == {f"evidence-{key.file_stem}" for key in figure_keys(committed.results)}


def test_committed_results_have_the_current_settings(committed):
    current = {(spec.row, spec.fingerprint()) for spec in all_row_specs()}
    assert {(result.row, result.fingerprint) for result in committed.results} <= current


def test_committed_summary_is_complete(committed):
    found = {result.row: result for result in committed.results}
    supervised = Row("table2", "authors-code", "cora", "gpca", supervised=True)
    for row in (
        Row("table1", "authors-code", "cora", "gpca"),
        replace(supervised, beta=0.1),
        replace(supervised, beta=0.2),
    ):
        assert abs(compare_with_published(found[row]).difference) <= 0.3
    for dataset in ("cora", "citeseer", "pubmed"):
        for protocol in ("paper", "authors-code", "ours"):
            assert Row("table1", protocol, dataset, "gpca") in found
            assert Row("table2", protocol, dataset, "gpca", supervised=True) in found
            assert Row("table3", protocol, dataset, "gpcanet") in found
    for dataset in ("cora", "citeseer"):
        for layers in (2, 3, 5, 10, 15):
            for init in ("xavier", "gpca", "he", "orthogonal"):
                row = Row("table4", "paper", dataset, "gcn", layers=layers, init=init)
                assert len(found[row].values) == 5
    for layers in (2, 15):
        for init in ("xavier", "gpca"):
            row = Row("histograms", "paper", "cora", "gcn", layers=layers, init=init)
            assert len(found[row].values) >= 30
