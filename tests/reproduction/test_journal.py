"""The journal: round trip, damaged lines, merging and locking."""

import errno
import json
import os
import subprocess
import sys
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.cells import PUBLIC, Cell, Setup, Split
from reproduction.journal import Journal, read_journals, to_line

CELLS = [Setup.of("gcn", "cora", layers=2, dropout=0.5).cell(PUBLIC, seed) for seed in range(5)]
FAILED = {"status": "failed", "reason": "MemoryError: of nodes\nthere are many", "seconds": 0.1}


def done(number=0):
    return {
        "status": "done",
        "accuracy": {"train": 1.0, "validation": 0.774 + number / 7, "test": 0.1 + 0.2},
        "best_epoch": 29,
        "epochs": 1000,
        "curve": [[1, 1.9459, 0.314], [1000, 1e-05, 0.76]],
        "seconds": 0.25,
        "versions": {"python": "3.11.7"},
        "when": "2026-01-01T00:00:00+00:00",
    }


def with_checksum(body):
    """A line with the checksum it should have."""
    return f'{body[:-1]}, "zcrc": "{zlib.crc32(body.encode()):08x}"}}\n'.encode()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.jsonl"


def written(path, *pairs):
    with Journal(path) as journal:
        for cell, record in pairs:
            journal.append(cell, record)
    return path


# -- writing -----------------------------------------------------------------------------------


def test_records_round_trip(path):
    records = {cell: done(number) for number, cell in enumerate(CELLS[:3])} | {CELLS[3]: FAILED}
    written(path, *records.items())
    contents = read_journals([path])
    assert contents.records == records
    assert (contents.damaged, contents.repeated, contents.notes()) == (0, 0, [])
    with Journal(path) as journal:
        assert journal.contents.records == records


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    record=st.dictionaries(st.text().filter(lambda name: name != "cell"), values, max_size=4),
    options=st.dictionaries(st.from_regex(r"[a-z_]{2,9}", fullmatch=True), st.floats(0, 1e6)),
    seed=st.integers(0, 2**63),
)
def test_any_record_of_any_cell_round_trips(tmp_path_factory, record, options, seed):
    cell = Setup.of("gpca", "cora", **options).cell(Split(random_seed=3), seed)
    path = tmp_path_factory.mktemp("journals") / "runs.jsonl"
    path.write_bytes(to_line(cell, {**record, "status": "done"}))
    contents = read_journals([path])
    assert contents.records == {cell: {**record, "status": "done"}}
    assert next(iter(contents.records)).to_json() == cell.to_json()


def test_a_record_is_synced_to_the_disk_when_append_returns(path, monkeypatch):
    synced, sync = [], os.fsync
    with Journal(path) as journal:
        monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), sync(file)))
        journal.append(CELLS[0], done())
        assert synced
        assert read_journals([path]).records == journal.contents.records == {CELLS[0]: done()}


def test_lines_are_json_of_one_line_each(path):
    written(path, (CELLS[0], done()), (CELLS[1], FAILED))
    lines = path.read_bytes().splitlines()
    assert [Cell.from_json(json.loads(line)["cell"]) for line in lines] == CELLS[:2]


def test_values_without_json_are_refused_before_writing(path):
    with Journal(path) as journal:
        with pytest.raises(ValueError, match="not JSON compliant"):
            journal.append(CELLS[0], {"status": "done", "curve": [[1, float("nan"), 0.1]]})
        journal.append(CELLS[1], done())
    contents = read_journals([path])
    assert (contents.records, contents.damaged) == ({CELLS[1]: done()}, 0)


def test_full_disk_raises_and_damages_one_line(path, monkeypatch):
    write = os.write
    with Journal(path) as journal:
        journal.append(CELLS[0], done(0))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda file, line: write(file, line[:50]))
            with pytest.raises(OSError, match=r"runs\.jsonl cannot be written completely"):
                journal.append(CELLS[1], done(1))
        assert CELLS[1] not in journal.contents.records
    contents = read_journals([written(path, (CELLS[2], done(2)))])
    assert contents.records == {CELLS[0]: done(0), CELLS[2]: done(2)}
    assert contents.damaged == 1


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_disk_errors_name_the_journal(path, monkeypatch, call):
    def fail(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal(path) as journal, monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match=r"runs\.jsonl cannot be written: No space left"):
            journal.append(CELLS[0], done())
        assert journal.contents.records == {}


# -- damage ------------------------------------------------------------------------------------


def test_journal_truncated_at_any_byte_keeps_other_lines_and_can_be_continued(path):
    lines = [to_line(cell, done(number)) for number, cell in enumerate(CELLS[:3])]
    records = {cell: done(number) for number, cell in enumerate(CELLS)}
    for cut in range(len(lines[2]) + 1):
        path.write_bytes(lines[0] + lines[1] + lines[2][:cut])
        contents = read_journals([path])
        kept = 3 if cut >= len(lines[2]) - 1 else 2  # a line that lacks but its end is whole
        assert contents.records == {cell: records[cell] for cell in CELLS[:kept]}
        assert contents.damaged == (0 < cut < len(lines[2]) - 1)
        with Journal(path) as journal:
            assert journal.contents.records == contents.records
            journal.append(CELLS[3], records[CELLS[3]])
        contents = read_journals([path])
        assert contents.records == {cell: records[cell] for cell in [*CELLS[:kept], CELLS[3]]}
        assert contents.damaged == (0 < cut < len(lines[2]) - 1)
        assert contents.repeated == 0


def test_changed_byte_invalidates_only_its_line(path):
    lines = [to_line(cell, done()) for cell in CELLS[:3]]
    for place in range(len(lines[1]) - 1):
        changed = bytearray(lines[1])
        changed[place] ^= 1 if place % 2 else 0x80
        path.write_bytes(lines[0] + changed + lines[2])
        contents = read_journals([path])
        assert set(contents.records) == {CELLS[0], CELLS[2]}
        assert contents.damaged == 1


LINE = to_line(CELLS[0], done())
FOREIGN = {
    "somebody's JSON": b'{"cell": {"method": "gcn"}, "status": "done"}\n',
    "a list": b"[1, 2, 3]\n",
    "a word": b"started\n",
    "binary": bytes(range(11, 256)) + b"\n",
    "no UTF-8": b"\xff\xfe\x00\n",
    "zeros": b"\x00" * 4096 + b"\n",
    "zeros at the end": LINE[:40] + b"\x00" * 100 + b"\n",
    "zeros in between": LINE[:40] + b"\x00" * 10 + LINE[50:],
    "wrong checksum": LINE.replace(b'"zcrc": "', b'"zcrc": "0')[:-4] + b'"}\n',
    "no checksum": LINE[: LINE.rindex(b", ")] + b"}\n",
    "half of two": LINE[:100] + LINE,
    "with_checksum, no cell": with_checksum('{"status": "done"}'),
    "with_checksum, half a cell": with_checksum('{"cell": {"method": "gcn"}, "status": "done"}'),
    "with_checksum, a cell that is none": with_checksum('{"cell": 7, "status": "done"}'),
    "with_checksum, a seed that is none": with_checksum(
        '{"cell": {"method": "a", "dataset": "b", "split": {}, "seed": "d", "options": {}}}'
    ),
    "with_checksum, options that are none": with_checksum(
        '{"cell": {"method": "a", "dataset": "b", "split": {}, "seed": 0, "options": [1]}}'
    ),
    "with_checksum, no status": with_checksum(json.dumps({"cell": CELLS[0].to_json()})),
    "with_checksum, a status that is none": to_line(CELLS[0], {"status": "begun"}),
    "with_checksum, no JSON": with_checksum('{"cell": nothing}'),
}


@pytest.mark.parametrize("line", FOREIGN.values(), ids=FOREIGN)
def test_invalid_lines_are_skipped_and_counted(path, line):
    path.write_bytes(line + to_line(CELLS[1], done(1)) + line + to_line(CELLS[2], FAILED) + line)
    contents = read_journals([path])
    assert contents.records == {CELLS[1]: done(1), CELLS[2]: FAILED}
    assert contents.damaged == 3
    assert contents.notes() == ["3 lines of the journal are not valid records; skipped"]
    before = path.read_bytes()
    written(path, (CELLS[3], done(3)))
    assert path.read_bytes() == before + to_line(CELLS[3], done(3))  # nothing is repaired


def test_windows_line_ends_are_read(path):
    lines = to_line(CELLS[0], done()) + to_line(CELLS[1], FAILED)
    path.write_bytes(lines.replace(b"\n", b"\r\n"))
    contents = read_journals([written(path, (CELLS[2], done(2)))])
    assert contents.records == {CELLS[0]: done(), CELLS[1]: FAILED, CELLS[2]: done(2)}
    assert contents.damaged == 0


@pytest.mark.parametrize(
    "text",
    [b"# Notes\n\nof somebody\n", b"a\nb", b'{"a": 1}\n', b"note", LINE[:90] + b"\n" + LINE[:9]],
)
def test_file_that_is_not_a_journal_is_not_changed(path, text):
    path.write_bytes(text)
    for _ in range(2):  # and is free again
        refused = pytest.raises(ValueError, match=r"runs\.jsonl is not a journal of the")
        with refused, Journal(path):
            pytest.fail("opened a file of somebody else")
    assert path.read_bytes() == text


@pytest.mark.parametrize("left", [LINE[:1], LINE[:9], LINE[:90], b"\0" * 512])
def test_journal_with_truncated_first_line_can_be_continued(path, left):
    path.write_bytes(left)
    contents = read_journals([written(path, (CELLS[1], done(1)))])
    assert (contents.records, contents.damaged) == ({CELLS[1]: done(1)}, 1)


def test_zero_bytes_at_the_end_are_skipped(path):
    path.write_bytes(to_line(CELLS[0], done()) + b"\x00" * 4096)
    written(path, (CELLS[1], done(1)))
    contents = read_journals([path])
    assert contents.records == {CELLS[0]: done(), CELLS[1]: done(1)}
    assert contents.damaged == 1


def test_empty_lines_and_empty_journals_are_allowed(path):
    path.write_bytes(b"")
    assert read_journals([path]).records == {}
    path.write_bytes(b"\n\n  \n" + to_line(CELLS[0], done()) + b"\n")
    contents = read_journals([path])
    assert (set(contents.records), contents.damaged) == ({CELLS[0]}, 0)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_journal_with_arbitrary_bytes_can_be_read_and_continued(tmp_path_factory, litter):
    path = tmp_path_factory.mktemp("journals") / "runs.jsonl"
    path.write_bytes(to_line(CELLS[0], done()) + litter)
    written(path, (CELLS[1], done(1)))
    assert read_journals([path]).records == {CELLS[0]: done(), CELLS[1]: done(1)}


# -- repeated cells ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (done(0), done(1), done(0)),
        (FAILED, done(1), done(1)),
        (done(0), FAILED, done(0)),
        (FAILED, {**FAILED, "reason": "another"}, FAILED),
    ],
    ids=["two successes", "failure, success", "success, failure", "two failures"],
)
def test_first_record_is_kept_unless_a_success_follows_a_failure(path, first, second, kept):
    with Journal(path) as journal:
        journal.append(CELLS[0], first)
        journal.append(CELLS[0], second)
    for contents in (journal.contents, read_journals([path])):
        assert contents.records == {CELLS[0]: kept}
        assert contents.repeated == 1
        assert contents.notes() == ["1 lines of the journal repeat a cell"]


def test_forgotten_failures_return_when_the_journal_is_reopened(path):
    with Journal(written(path, (CELLS[0], done()), (CELLS[1], FAILED), (CELLS[2], FAILED))) as it:
        it.forget_failures()
        assert it.contents.records == {CELLS[0]: done()}
        it.append(CELLS[1], done(1))
        assert it.contents.repeated == 0
    after = {CELLS[0]: done(), CELLS[1]: done(1), CELLS[2]: FAILED}
    assert read_journals([path]).records == after


# -- several journals ----------------------------------------------------------------------------


def test_merge_adds_only_missing_records(path, tmp_path):
    ours = [(CELLS[0], done(0)), (CELLS[1], FAILED), (CELLS[2], FAILED)]
    theirs = [(CELLS[0], done(9)), (CELLS[1], done(1)), (CELLS[2], {**FAILED, "reason": "theirs"})]
    written(path, *ours)
    one = written(tmp_path / "one.jsonl", *theirs, (CELLS[3], done(3)))
    other = written(tmp_path / "other.jsonl", (CELLS[3], done(8)), (CELLS[4], FAILED))
    expected = {
        CELLS[0]: done(0), CELLS[1]: done(1), CELLS[2]: FAILED, CELLS[3]: done(3), CELLS[4]: FAILED,
    }  # fmt: skip
    with Journal(path) as journal:
        assert journal.merge([one, other]) == 3
        assert journal.contents.records == expected
        size = path.stat().st_size
        assert journal.merge([one, other]) == 0
        assert journal.merge([other]) == journal.merge([path]) == 0
        assert path.stat().st_size == size
    assert read_journals([path]).records == expected
    with Journal(path) as journal:
        assert journal.merge([one, other]) == 0


def test_several_journals_are_read_as_one(path, tmp_path):
    one = written(path, (CELLS[0], done()), (CELLS[1], FAILED))
    other = written(tmp_path / "other.jsonl", (CELLS[1], done(1)))
    other.write_bytes(other.read_bytes() + b"litter")
    contents = read_journals([one, other])
    assert contents.records == {CELLS[0]: done(), CELLS[1]: done(1)}
    assert (contents.damaged, contents.repeated) == (1, 1)


# -- locking -----------------------------------------------------------------------------------


def test_journal_in_use_is_refused(path):
    with Journal(path) as journal:
        refused = pytest.raises(ValueError, match="is in use by another process; wait")
        with refused, Journal(path):
            pytest.fail("opened twice")
        journal.append(CELLS[0], done())
    with Journal(path) as journal:
        assert journal.contents.records == {CELLS[0]: done()}


def test_second_process_gets_one_sentence(path):
    code = "import sys; from reproduction.journal import Journal; Journal(sys.argv[1]).__enter__()"
    command = [sys.executable, "-c", code, path]
    with Journal(path):
        refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == (
        f"gpcanet.errors.InputError: {path} is in use by another process; wait until it ends, "
        f"or use another journal and merge the two afterwards"
    )
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_lock_is_released_after_an_error(path):
    with pytest.raises(KeyboardInterrupt), Journal(path):
        raise KeyboardInterrupt
    written(path, (CELLS[0], done()))


def test_lock_is_released_if_opening_fails(path):
    path.mkdir()
    with pytest.raises(OSError, match=r"runs\.jsonl"), Journal(path):
        pytest.fail("opened a folder")
    path.rmdir()
    written(path, (CELLS[0], done()))


def test_missing_folders_and_files_are_reported(path, tmp_path):
    refused = pytest.raises(FileNotFoundError, match=r"folder .*nowhere does not exist; create it")
    with refused, Journal(tmp_path / "nowhere" / "runs.jsonl"):
        pytest.fail("opened in no folder")
    with pytest.raises(FileNotFoundError, match="missing"):
        read_journals([tmp_path / "missing.jsonl"])
    with Journal(path) as journal, pytest.raises(FileNotFoundError, match="missing"):
        journal.merge([tmp_path / "missing.jsonl"])
