"""Small archives of OGB's layout: read right, kept right, and refused where they are wrong."""

import contextlib
import errno
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpcanet.datasets.download
from campaign.web_server import Page, WebServer
from gpcanet import GPCA, Graph
from gpcanet.datasets import DataError, DataUnavailableError, block_model, ogb
from gpcanet.utils.progress import progress_to

NAME = "ogbn-arxiv"
MODEL = block_model(200, 600, n_features=5, n_classes=4)
UNLABELED = 7
CLASS_NAMES = ["arxiv cs na", "Patio, Lawn & Garden", "class 2", "dé"]  # the third has none there


def listed_edges():
    """One direction of each edge, the other of some; one of them twice, and a self-loop."""
    pairs = MODEL.graph.adjacency.tocoo()
    once = np.stack([pairs.row, pairs.col])[:, pairs.row < pairs.col]
    once[:, ::3] = once[::-1, ::3]
    return np.hstack([once, once[::-1, :5], once[:, :1], [[9], [9]]])


EDGES = listed_edges()
ABOUT = replace(
    ogb.ABOUT[NAME], n_nodes=200, n_edges=MODEL.graph.n_edges, n_features=5, n_classes=4
)
LAYOUT = ogb.LAYOUTS[NAME]._replace(n_listed_edges=EDGES.shape[1])
Y = np.where(np.arange(200) == UNLABELED, -1, MODEL.y)

FEATURES, LABELS, LISTED = "raw/node-feat.csv.gz", "raw/node-label.csv.gz", "raw/edge.csv.gz"
N_NODES, N_EDGES = "raw/num-node-list.csv.gz", "raw/num-edge-list.csv.gz"
TRAIN, VALID, TEST = (f"split/time/{part}.csv.gz" for part in ("train", "valid", "test"))
MAPPING = "mapping/labelidx2arxivcategeory.csv.gz"


def lines(table):
    return [",".join(str(value) for value in row) for row in table]


TEXTS = {
    LISTED: lines(EDGES.T),
    FEATURES: lines(MODEL.X),
    LABELS: ["" if y < 0 else f"{y}.0" if i == 3 else str(y) for i, y in enumerate(Y)],
    N_NODES: ["200"],
    N_EDGES: [str(EDGES.shape[1])],
    TRAIN: lines(MODEL.train[:, None]),
    VALID: lines(MODEL.validation[:, None]),
    TEST: lines(MODEL.test[:, None]),
    MAPPING: [
        "label idx,arxiv category",
        "0,arxiv cs na",
        '1,"Patio, Lawn & Garden"',
        "2,",
        "3,dé",
    ],
}
CONTENTS = {
    member: gzip.compress("".join(f"{line}\n" for line in text).encode(), mtime=0)
    for member, text in TEXTS.items()
}


def packed(contents, more=()):
    """A zip of the members that are not None, and of others under their full names."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arxiv/", b"")
        for member, content in contents.items():
            if content is not None:
                archive.writestr(f"arxiv/{member}", content)
        for member in more:
            archive.writestr(member, b"")
    return target.getvalue()


def with_line(member, number, line):
    text = TEXTS[member].copy()
    text[number - 1 : number] = [line] if line is not None else []
    content = gzip.compress("".join(f"{line}\n" for line in text).encode())
    return CONTENTS | {member: content}


ARCHIVE = packed(CONTENTS)


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """The loader in a world where ogbn-arxiv has 200 nodes, and its cache is empty."""
    monkeypatch.setitem(ogb.ABOUT, NAME, ABOUT)
    monkeypatch.setitem(ogb.LAYOUTS, NAME, LAYOUT)
    monkeypatch.setenv("GPCANET_CACHE_DIR", str(tmp_path / "cache"))
    for variable in ("GPCANET_DATA_DIR", "GPCANET_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(gpcanet.datasets.download, "ATTEMPTS", 1)


@pytest.fixture
def own(tmp_path):
    """A user's folder with the archive."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "arxiv.zip").write_bytes(ARCHIVE)
    return folder


@pytest.fixture
def server(monkeypatch):
    with WebServer({"/arxiv.zip": Page(ARCHIVE, etag='"1"')}) as server:
        monkeypatch.setattr(ogb, "URL", server.url())
        yield server


def load(data_dir=None, **options):
    return ogb.load_ogb(NAME, data_dir, **{"offline": True, **options})


def assert_right(data):
    assert data.name == NAME
    assert data.X.dtype == np.float32
    for found, true in [
        (data.X, MODEL.X), (data.y, Y), (data.train, MODEL.train),
        (data.validation, MODEL.validation), (data.test, MODEL.test),
    ]:  # fmt: skip
        np.testing.assert_array_equal(found, true)
    assert data.graph == Graph.from_edge_index(EDGES, n_nodes=200, each_once=True)
    assert data.graph.weights is None
    assert data.class_names.tolist() == CLASS_NAMES
    assert data.about == ABOUT


def refuse(contents_or_bytes, tmp_path, match):
    """Loading this archive raises one sentence with the archive's name, and keeps nothing."""
    own = tmp_path / "own"
    own.mkdir()
    given = contents_or_bytes
    (own / "arxiv.zip").write_bytes(given if isinstance(given, bytes) else packed(given))
    with pytest.raises(DataError, match=match) as caught:
        load(own)
    assert not isinstance(caught.value, DataUnavailableError)
    message = str(caught.value)
    assert message.startswith(str(own / "arxiv.zip"))
    assert "\n" not in message
    assert kept_in_cache(tmp_path) == []
    return message


def kept_in_cache(tmp_path):
    found = (tmp_path / "cache").rglob("*")
    return sorted(path.name for path in found if path.suffix != ".lock" and path.name != "ogb")


# -- where it comes from ----------------------------------------------------------------------


def test_loaded_arrays_equal_published_ones(own):
    assert_right(load(own))


@pytest.mark.parametrize("inner", ["ogb/arxiv.zip", "ogbn_arxiv", "ogb/ogbn_arxiv", "arxiv"])
def test_layouts_of_the_users_folder(tmp_path, inner):
    place = tmp_path / inner
    place.parent.mkdir(exist_ok=True)
    if place.suffix == ".zip":
        place.write_bytes(ARCHIVE)
    else:
        for member, content in CONTENTS.items():
            (place / member).parent.mkdir(parents=True, exist_ok=True)
            (place / member).write_bytes(content)
    assert_right(load(tmp_path))


def test_layout_of_products(tmp_path, monkeypatch):
    name = "ogbn-products"
    monkeypatch.setitem(ogb.ABOUT, name, ABOUT)
    layout = ogb.LAYOUTS[name]._replace(n_listed_edges=EDGES.shape[1])
    monkeypatch.setitem(ogb.LAYOUTS, name, layout)
    with zipfile.ZipFile(tmp_path / "products.zip", "w") as archive:
        for member, content in CONTENTS.items():
            name_there = member.replace("split/time", "split/sales_ranking")
            name_there = name_there.replace("arxivcategeory", "productcategory")
            archive.writestr(f"products/{name_there}", content)
    assert_right(replace(ogb.load_ogb(name, tmp_path, offline=True), name=NAME))


def test_extracted_folder_with_a_missing_file(tmp_path):
    (tmp_path / "ogbn_arxiv/raw").mkdir(parents=True)
    (tmp_path / "ogbn_arxiv" / LISTED).write_bytes(CONTENTS[LISTED])
    with pytest.raises(DataError, match=f"ogbn_arxiv/{N_NODES} is missing"):
        load(tmp_path)


def test_second_load_uses_only_the_cache(own, server):
    first = load(own, offline=False)
    (own / "arxiv.zip").write_bytes(b"changed")
    second = load(own, offline=False)
    assert_right(second)
    for data in (first, second):
        for array in (data.X, data.graph.indptr, data.graph.indices):
            assert isinstance(array, np.memmap)
            assert not array.flags.writeable
    assert server.requests == []


def test_gpca_on_mapped_arrays(own):
    mapped = load(own)
    in_memory = Graph.from_edge_index(EDGES, n_nodes=200, each_once=True)
    np.testing.assert_array_equal(
        GPCA(4).fit_transform(mapped.X, graph=mapped.graph),
        GPCA(4).fit_transform(MODEL.X, graph=in_memory),
    )


def test_download(server, tmp_path):
    seen = []
    with progress_to(lambda *reported: seen.append(reported)):
        assert_right(load(offline=False))
    assert ("arxiv.zip", len(ARCHIVE), len(ARCHIVE)) in seen
    assert seen[-1] == ("rows of node-feat.csv.gz", 200, 200)
    assert "arxiv.zip" not in kept_in_cache(tmp_path)  # only its arrays


def test_interrupted_download_is_resumed_by_the_next_load(server):
    server.pages["/arxiv.zip"].cuts = [1000]
    with pytest.raises(DataUnavailableError):
        load(offline=False)
    assert_right(load(offline=False))
    assert [request.n_bytes for request in server.requests] == [1000, len(ARCHIVE) - 1000]


def test_damaged_download_is_not_kept(server, tmp_path):
    server.pages["/arxiv.zip"].content = ARCHIVE[:-100]
    with pytest.raises(DataError, match="not a zip file"):
        load(offline=False)
    assert kept_in_cache(tmp_path) == []
    server.pages["/arxiv.zip"] = Page(ARCHIVE)
    assert_right(load(offline=False))


def test_offline_without_any_file(tmp_path):
    with pytest.raises(
        DataUnavailableError, match=r"ogbn-arxiv is not available: it is not in .* off"
    ):
        load(tmp_path)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("file", [".", "ogb"])
def test_cache_that_cannot_be_created_is_reported(own, server, tmp_path, file):
    (tmp_path / "cache" / file).parent.mkdir(exist_ok=True)
    (tmp_path / "cache" / file).write_text("a file where the folder should be")
    for data_dir in (own, None):
        with pytest.raises(
            DataUnavailableError, match=r"cache/ogb is not writable .*GPCANET_CACHE_DIR"
        ):
            load(data_dir, offline=False)
    assert server.requests == []


def test_cache_without_permission_is_reported(own, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(Path, "is_dir", lambda self: self == own or refuse(self))
    with pytest.raises(DataUnavailableError, match="cache/ogb is not writable"):
        load(own)


def test_two_processes_download_once(server):
    server.pages["/arxiv.zip"].seconds = 0.2
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(load(offline=False))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    for data in results:
        assert_right(data)
    assert len(server.requests) == 1


def test_import_needs_no_pyarrow():
    code = "import sys; sys.modules['pyarrow'] = None; import gpcanet.datasets.ogb"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- the cache --------------------------------------------------------------------------------


def interrupt(what, done, total):
    if what == "rows of node-feat.csv.gz":
        raise KeyboardInterrupt


def test_interrupted_conversion_leaves_nothing(own, tmp_path):
    with pytest.raises(KeyboardInterrupt), progress_to(interrupt):
        load(own)
    assert kept_in_cache(tmp_path) == []
    assert_right(load(own))


def test_folders_of_killed_conversions_are_removed(own, tmp_path):
    code = f"""
import os, signal
import test_ogb
from test_ogb import ABOUT, LAYOUT, NAME, load, ogb, progress_to
ogb.ABOUT[NAME], ogb.LAYOUTS[NAME] = ABOUT, LAYOUT

def kill(what, done, total):
    if what == "rows of node-feat.csv.gz":
        os.kill(os.getpid(), signal.SIGKILL)

with progress_to(kill):
    load({str(own)!r})
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-c", code], cwd=Path(__file__).parent, env=environment
        )
        assert ended.returncode == -signal.SIGKILL
    hidden = [name for name in kept_in_cache(tmp_path) if name.endswith(".part")]
    assert len(hidden) == 1  # the second conversion removed the folder of the first one
    assert_right(load(own))
    assert not [name for name in kept_in_cache(tmp_path) if name.endswith(".part")]


def test_archive_with_one_edge_many_times_is_refused(tmp_path):
    once = ["0,1"] * EDGES.shape[1]
    content = gzip.compress("".join(f"{line}\n" for line in once).encode())
    refuse(CONTENTS | {LISTED: content}, tmp_path, r"edge.csv.gz has 1 different edges, not \d+;")


def test_interrupted_conversion_keeps_its_download(server, tmp_path):
    with pytest.raises(KeyboardInterrupt), progress_to(interrupt):
        load(offline=False)
    assert kept_in_cache(tmp_path) == ["arxiv.zip"]
    assert_right(load(offline=True))


def test_error_in_progress_callback_is_not_reported_as_damage(own):
    def broken(*_):
        raise ValueError("no terminal")

    with pytest.raises(ValueError, match=r"^no terminal$"), progress_to(broken):
        load(own)


def test_full_disk_is_not_damage_and_leaves_nothing(own, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        load(own)
    assert kept_in_cache(tmp_path) == []


def test_failing_disk_is_not_reported_as_damage(own, monkeypatch):
    def failing(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(zipfile.Path, "open", failing)
    with pytest.raises(OSError, match="Input/output error"):
        load(own)


def begin_data_early(path):
    content = bytearray(path.read_bytes())
    content[8] -= 1  # the length of the header
    path.write_bytes(content)


def save(array):
    return lambda path: np.save(path, array)


def note(**changes):
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("file", "change"),
    [
        *((f"{array}.npy", Path.unlink) for array in ogb._ARRAYS),
        ("about.json", Path.unlink),
        ("about.json", note(format=0)),
        ("about.json", note(class_names=["a"])),
        ("about.json", note(dataset="ogbn-products")),
        ("about.json", lambda path: path.write_text("[]")),
        ("about.json", lambda path: path.write_bytes(b"\xff")),
        ("X.npy", lambda path: path.write_bytes(path.read_bytes()[:-4])),
        ("X.npy", lambda path: path.write_bytes(b"")),
        ("X.npy", lambda path: path.write_bytes(ARCHIVE)),
        ("X.npy", lambda path: path.write_bytes(path.read_bytes().replace(b"}", b"{", 1))),
        ("X.npy", begin_data_early),
        ("X.npy", save(MODEL.X.astype(np.float64))),
        ("y.npy", save(Y[:-1])),
        ("indices.npy", save(np.zeros(3, np.int32))),
        ("indptr.npy", save(np.zeros(201, np.int64))),
    ],
)
def test_wrong_cache_is_created_again(own, tmp_path, file, change):
    load(own)
    change(tmp_path / "cache" / "ogb" / NAME / file)
    with pytest.raises(DataUnavailableError, match=r"ogbn-arxiv is damaged or of another version"):
        load()
    assert_right(load(own))


def test_sizes_in_the_cache_are_those_of_about(own, monkeypatch):
    load(own)
    monkeypatch.setitem(ogb.ABOUT, NAME, replace(ABOUT, n_nodes=201))
    with pytest.raises(DataUnavailableError, match="damaged or of another version"):
        load()


# -- what is wrong with an archive ------------------------------------------------------------

N_LINES = EDGES.shape[1]


@pytest.mark.parametrize(
    ("member", "line", "text", "match"),
    [
        (LISTED, 2, "3,200", r"has 200 in line 2, not a node from 0 to 199"),
        (LISTED, 2, "-1,3", r"has -1 in line 2"),
        (LISTED, 2, "3,99999999999", r"is damaged \(.*99999999999"),
        (LISTED, 2, "3", r"is damaged \(.*Expected 2 columns, got 1"),
        (LISTED, 2, "3,", r"is damaged \("),
        (LISTED, 2, "", r"is damaged \("),
        (LISTED, 2, "1,2,3", r"is damaged \(.*Expected 2 columns, got 3"),
        (LISTED, 2, "1,2\n1,2", rf"has more than {N_LINES} rows"),
        (LISTED, 2, None, rf"has {N_LINES - 1} rows, not {N_LINES}"),
        (N_NODES, 1, "201", r"has 201 in line 1, not 200"),
        (N_EDGES, 1, "1", rf"has 1 in line 1, not {N_LINES}"),
        (N_EDGES, 1, f"{N_LINES}\n1", r"has more than 1 rows"),
        (N_EDGES, 1, None, r"is damaged \(.*[Ee]mpty"),
        (FEATURES, 200, "1,2,nan,4,5", r"has nan in line 200, not a finite number"),
        (FEATURES, 200, "1,2,,4,5", r"has nan in line 200"),
        (FEATURES, 200, "1,2,1e99,4,5", r"has inf in line 200"),
        (FEATURES, 200, "1,2,x,4,5", r"is damaged \(.*'x'"),
        (FEATURES, 200, "1,2,3,4", r"is damaged \(.*Expected 5 columns, got 4"),
        (FEATURES, 200, None, r"has 199 rows, not 200"),
        (LABELS, 5, "4", r"has 4.0 in line 5, not a class from 0 to 3 or nothing"),
        (LABELS, 5, "-1", r"has -1.0 in line 5"),
        (LABELS, 5, "1.5", r"has 1.5 in line 5"),
        (LABELS, 5, "inf", r"has inf in line 5"),
        (LABELS, 5, "cs", r"is damaged \(.*'cs'"),
        (TRAIN, 1, "200", r"has 200 in line 1, not a node"),
        (
            TRAIN,
            1,
            TEXTS[TRAIN][1],
            rf"contains node {TEXTS[TRAIN][1]}, which is already in the split",
        ),
        (
            TEST,
            1,
            TEXTS[TRAIN][1],
            rf"contains node {TEXTS[TRAIN][1]}, which is already in the split",
        ),
        (MAPPING, 2, "4,far", r"must name each class from 0 to 3 once"),
        (MAPPING, 2, "1,twice", r"must name each class from 0 to 3 once"),
        (MAPPING, 2, "0,dé", r"has the same name for several classes"),
        (MAPPING, 2, "0,class 2", r"has the same name for several classes"),
        (MAPPING, 2, "0", r"is damaged \("),
        (MAPPING, 2, "0," + "a" * 100_000, r"has more than 65,536 bytes"),
    ],
)
def test_invalid_values_raise_data_error(tmp_path, member, line, text, match):
    message = refuse(with_line(member, line, text), tmp_path, match)
    assert f"/arxiv/{member} " in message


@pytest.mark.parametrize("member", CONTENTS)
def test_missing_members(tmp_path, member):
    refuse(CONTENTS | {member: None}, tmp_path, f"arxiv/{member} is missing; download it again")


def test_unlisted_class_is_named_by_its_number(own):
    (own / "arxiv.zip").write_bytes(packed(with_line(MAPPING, 2, None)))
    assert load(own).class_names.tolist() == ["class 0", *CLASS_NAMES[1:]]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda content: content[:-20], "ended before"),
        (lambda content: content[:-8] + b"\0" * 8, "CRC check failed"),
        (lambda content: b"1,2\n3,4\n", "Not a gzipped file"),
        (lambda content: b"", "[Ee]mpty"),
    ],
)
def test_damaged_gzip(tmp_path, change, match):
    refuse(CONTENTS | {LISTED: change(CONTENTS[LISTED])}, tmp_path, rf"edge.csv.gz is .*{match}")


def test_checksum_of_a_member_is_verified(tmp_path):
    sums = zipfile.ZipFile(io.BytesIO(ARCHIVE)).getinfo(f"arxiv/{TEST}").CRC.to_bytes(4, "little")
    refuse(ARCHIVE.replace(sums, b"\0\0\0\0"), tmp_path, "test.csv.gz is damaged .*Bad CRC-32")


def test_directory_in_which_a_name_is_damaged(tmp_path):
    directory = ARCHIVE.index(b"PK\x01\x02")
    damaged = ARCHIVE[:directory] + ARCHIVE[directory:].replace(b"mapping", b"mopping")
    refuse(damaged, tmp_path, "categeory.csv.gz is missing; download it again")


def test_damaged_name_of_a_member_is_shortened(tmp_path):
    """The error of zipfile contains all bytes that the header counts as the name."""
    header = ARCHIVE.index(f"arxiv/{LISTED}".encode()) - 30
    length = (1500).to_bytes(2, "little")
    damaged = ARCHIVE[: header + 26] + length + ARCHIVE[header + 28 :]
    message = refuse(damaged, tmp_path, r"edge.csv.gz is damaged \(File name in directory")
    assert len(message) < 600


def test_directory_entry_hidden_in_a_comment_is_found(tmp_path):
    last = ARCHIVE.rindex(b"PK\x01\x02")
    before = ARCHIVE.rindex(b"PK\x01\x02", 0, last)
    length = before + 32  # where the record says how long its comment is
    damaged = ARCHIVE[:length] + b"\xff" + ARCHIVE[length + 1 :]
    assert len(zipfile.ZipFile(io.BytesIO(damaged)).namelist()) == len(CONTENTS)
    refuse(damaged, tmp_path, "is missing; download it again")


@pytest.mark.parametrize("archive", [b"", b"<html>", ARCHIVE[:-30], ARCHIVE[100:]])
def test_not_a_zip(tmp_path, archive):
    refuse(archive, tmp_path, r"arxiv\.zip.* is (damaged|missing)")


@pytest.mark.parametrize("line", [b"0\n", b"\n", b"0"])
def test_zip_bomb_is_not_read_completely(tmp_path, line):
    # Its end is damaged, which whoever reads that far will say. pyarrow reads some blocks ahead.
    bomb = gzip.compress(line * 100_000_000, 1)[:-8]
    refuse(CONTENTS | {LABELS: bomb}, tmp_path, "has more than 200 rows|straddl")


# -- any damage at all ------------------------------------------------------------------------

flips = st.lists(
    st.tuples(st.integers(0, len(ARCHIVE) - 1), st.integers(1, 255)), min_size=1, max_size=3
)


@given(flips, st.none() | st.integers(0, len(ARCHIVE)))
@example([], None)
@settings(max_examples=60, deadline=None)
def test_damage_is_reported_or_harmless(flipped, cut):
    content = bytearray(ARCHIVE)
    for position, change in flipped:
        content[position] ^= change
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPCANET_CACHE_DIR", f"{folder}/cache")
        (Path(folder) / "arxiv.zip").write_bytes(content[:cut])
        with contextlib.suppress(DataError):
            assert_right(load(folder))
