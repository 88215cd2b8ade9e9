"""Bad files, full disks, signals and unusual environments: one line and an exit code."""

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command import process, write_blocks

# -- bad input: 2, and one line ----------------------------------------------------------------

FEATURES, EDGES = "id,a,b\n1,0.5,2\n2,1.5,1\n3,0,4\n", "source,target\n1,2\n2,3\n"


def write_small(features=FEATURES, edges=EDGES):
    for name, content in (("f.csv", features), ("e.csv", edges)):
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return ["embed", "-f", "f.csv", "-e", "e.csv", "-o", "z.csv"]


@pytest.mark.parametrize(
    ("features", "edges", "reasons"),
    [
        (FEATURES + "4,1\n", EDGES, ["f.csv, line 5"]),
        (FEATURES.replace("1.5", "much"), EDGES, ["f.csv", "much"]),
        (FEATURES.replace("0.5", ""), EDGES, ["f.csv, line 2"]),
        (FEATURES + "2,1,1\n", EDGES, ["f.csv, line 5", "2"]),
        (FEATURES.replace("a", "ä").encode("latin-1"), EDGES, ["f.csv, line 1", "UTF-8"]),
        (FEATURES, b"source,target\n1,2\n2,\xff\n", ["e.csv, line 3", "UTF-8"]),
        (FEATURES, EDGES + "2,9\n", ["e.csv, line 4", "9", "--drop-unknown"]),
        (FEATURES, EDGES.replace("target", "to"), ["e.csv has no column 'target'"]),
        (FEATURES, "", ["e.csv is empty"]),
        ("", EDGES, ["f.csv is empty"]),
        ("id,a\n", EDGES, ["f.csv"]),
        (FEATURES, "source,target,weight\n1,2,-3\n", ["e.csv, line 2", "weight"]),
        (FEATURES, "source,target,weight\n1,2,nan\n", ["e.csv, line 2", "weight"]),
        (bytes(range(256)) * 9, EDGES, ["f.csv"]),
    ],
)  # fmt: skip
def test_malformed_files_are_reported_by_name_and_line(gpcanet, features, edges, reasons):
    complaint = gpcanet(*write_small(features, edges)).complaint
    assert [reason for reason in reasons if reason not in complaint] == []
    assert not Path("z.csv").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-f", "nowhere.csv"], "nowhere.csv does not exist"),
        (["-f", "folder.csv"], "folder.csv contains no file"),
        (["-f", "f"], "one without a suffix"),
        (["-e", "damaged.parquet"], "damaged.parquet"),
        (["-f", "damaged.npz"], "damaged.npz is not a readable npz"),
        (["-f", "objects.npy"], "Object arrays cannot be loaded"),
        (["-k", "3"], "--components 3 must be in [1, 2]"),
        (["-k", "0"], "--components 0 must be"),
        (["--id", "name"], "has no column 'name'"),
        (["--weight", "w"], "has no column 'w'"),
        (["--ignore", "c"], "has no column 'c'"),
        (["--ignore", "a", "--ignore", "b"], "f.csv has no column of features"),
        (["--neighbors", "2"], "edges and neighbors are both given"),
        (["--label", "c"], "has no column 'c'"),
        (["--beta", "0.5"], ""),
    ],
)
def test_missing_files_and_columns_are_reported(gpcanet, options, reason):
    args = write_small()
    Path("folder.csv").mkdir()
    Path("f").write_text(FEATURES)
    Path("damaged.parquet").write_bytes(b"PAR1 no more")
    Path("damaged.npz").write_bytes(b"PK\3\4 no more")
    np.save("objects.npy", np.array([{}, []], object), allow_pickle=True)
    assert reason in gpcanet(*args, *options).complaint_after_notes
    assert not Path("z.csv").exists()


def test_no_edges_and_no_neighbors_names_both_options(gpcanet):
    write_small()
    complaint = gpcanet("embed", "-f", "f.csv", "-o", "z.csv").complaint
    assert "--edges or --neighbors" in complaint
    complaint = gpcanet("embed", "-f", "f.csv", "--neighbors", "9", "-o", "z.csv").complaint
    assert complaint.startswith("--neighbors 9 must be an integer from 1 to ")


def test_a_file_in_place_of_a_dataset_names_the_options(gpcanet):
    write_small()
    message = "f.csv is a file, not a dataset; give it as --features or --edges"
    assert gpcanet("embed", "f.csv", "-o", "z.csv").complaint == message
    Path("digits").mkdir()  # a folder does not hide a dataset
    assert gpcanet("embed", "digits", "-o", "z.csv", "-k", "2").code == 0


def test_beta_without_labels_names_the_options(gpcanet):
    complaint = gpcanet(*write_small(), "--beta", "0.5").complaint_after_notes
    assert complaint.startswith("no node has a label; give --labels")


def test_unknown_nodes_are_dropped_with_the_option(gpcanet):
    ended = gpcanet(*write_small(FEATURES, EDGES + "2,9\n"), "--drop-unknown", "--json")
    assert (ended.code, json.loads(ended.out)["edges"]) == (0, 2)


@pytest.mark.filterwarnings("always::gpcanet.errors.DataWarning")
@pytest.mark.parametrize("options", [[], ["--quiet"], ["--json"], ["--quiet", "--json"]])
def test_dropping_most_edges_is_a_warning_even_if_quiet(gpcanet, options):
    ended = gpcanet(*write_small(FEATURES, EDGES + "2,9\n8,3\n7,1\n"), "--drop-unknown", *options)
    sentence = "3 of 5 edges of e.csv dropped: their nodes are not in f.csv; check the ids"
    assert ended.code == 0
    assert ended.err.count(sentence) == 1
    assert f"warning: {sentence}\n" in ended.err
    assert "--quiet" not in options or ended.err.count("\n") == 1
    if "--json" in options:
        assert sentence in json.loads(ended.out)["notes"]


def test_dropping_all_edges_is_an_error(gpcanet):
    ended = gpcanet(*write_small(FEATURES, "source,target\n7,8\n"), "--drop-unknown")
    assert "1 of 1 edges of e.csv dropped" in ended.complaint
    assert not Path("z.csv").exists()


class Malicious:
    def __reduce__(self):
        return Path.touch, (Path("was-run").absolute(),)


def test_as_a_process_bad_input_is_one_line_and_a_pickle_is_not_run():
    Path("model").write_bytes(pickle.dumps(Malicious()))
    ended = process("embed", "digits", "--model", "model", "-o", "z.csv")
    assert "model is not a model of GPCANet, or is damaged" in ended.complaint
    assert not Path("was-run").exists()
    assert "No such option: --alhpa" in process("embed", "digits", "--alhpa", "3").complaint


def test_debug_variable_shows_the_traceback():
    ended = process("embed", "digits", GPCANET_DEBUG="1")
    assert ended.code == 1
    assert ended.err.startswith("Traceback")
    assert "InputError: nothing to write" in ended.err


#: Fails as a library would on valid input.
FAILING = """
from gpcanet.cli import main, options
def load(self, console):
    raise ValueError("not the user's fault")
options.Input.load = load
main()
"""


def test_internal_error_shows_its_traceback_and_exits_with_1():
    ended = process("embed", "digits", "-o", "z.csv", code=FAILING)
    assert ended.code == 1
    assert ended.err.startswith("Traceback (most recent call last):")
    assert ended.err.splitlines()[-1] == "ValueError: not the user's fault"
    assert "gpcanet: " not in ended.err


BAD = [
    *(["embed", "FILES", *option, "-o", "z.csv"] for option in (
        ["--alpha", "nan"], ["--alpha", "1e400"], ["--alpha", "x"], ["--beta", "nan"],
        ["-k", "-3"], ["-k", "9" * 30], ["-k", "1.5"], ["--iterations", "-1"],
        ["--normalization", ""], ["--precision", "x"], ["--memory-limit", "nanGiB"],
        ["--memory-limit", "infGiB"], ["--memory-limit", "-1GiB"], ["--memory-limit", ""],
        ["--memory-limit", "1XB"], ["--source", "target"], ["--weight", "source"],
        ["--id", "zzz"], ["--id", ""], ["--split", "zzz"], ["--label", "a", "--split", "a"],
        ["--neighbors", "2"],
    )),
    *(["classify", "FILES", *option] for option in (
        ["--test-share", "nan"], ["--test-share", "1"], ["--seed", "-1"],
        ["--alpha", "1", "--alpha", "nan"], ["--label", "a"], [],
    )),
    *(["embed", "-f", "f.csv", "--neighbors", k, "-o", "z.csv"] for k in ("0", "-1", "3", "x")),
    ["datasets", "info", ""],
    ["datasets", "fetch", "digits", "x"],
    ["demo", "--figure", "z.bmp"],
    ["embed", "digits", "--data-dir", "nowhere", "-o", "z.csv", "--label", "x"],
]  # fmt: skip


@pytest.mark.parametrize("args", BAD, ids=lambda args: " ".join(args)[:60])
def test_bad_input_exits_with_2_and_one_line(gpcanet, args):
    files = write_small()[1:5]
    at = args.index("FILES") if "FILES" in args else 0
    args = [*args[:at], *files, *args[at + 1 :]] if at else args
    gpcanet(*args).complaint_after_notes  # noqa: B018
    assert not Path("z.csv").exists()


@pytest.mark.parametrize("seed", [2**64, 10**30])
def test_seed_that_torch_cannot_take_is_bad_input(gpcanet, seed):
    pytest.importorskip("torch_geometric")
    ended = gpcanet("train", "digits", "--seed", seed)
    assert ended.complaint.startswith(f"--seed {seed} must be in [0, ")


def test_memory_error_is_reported(gpcanet, monkeypatch):
    def load(self, console):
        raise MemoryError

    monkeypatch.setattr("gpcanet.cli.options.Input.load", load)
    assert "not enough memory" in gpcanet("embed", "digits", "-o", "z.csv").complaint


# -- disks -------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_that_may_not_be_written_to(gpcanet):
    args = write_small()
    Path("locked").mkdir(mode=0o500)
    assert "locked" in gpcanet(*args[:-1], "locked/z.csv").complaint_after_notes


@pytest.fixture
def tiny_disk(tmp_path):
    """A disk of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no mount: {error}")
    if done.returncode:
        pytest.skip(f"mounting a small disk is not permitted: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_full_disk_leaves_the_old_output(gpcanet, tiny_disk, suffix):
    old = tiny_disk / f"z.{suffix}"
    old.write_text("old")
    ended = gpcanet("embed", "digits", "-o", old, "--force")
    assert "No space left on device" in ended.complaint_after_notes
    assert old.read_text() == "old"
    assert list(tiny_disk.iterdir()) == [old]


def test_failing_write_leaves_the_old_output(gpcanet, monkeypatch):
    def fsync(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    args = write_small()
    Path("z.csv").write_text("old")
    ended = gpcanet(*args, "--save-model", "m.safetensors", "--force")
    assert ended.complaint_after_notes == "No space left on device"
    assert Path("z.csv").read_text() == "old"
    assert sorted(path.name for path in Path().iterdir()) == ["e.csv", "f.csv", "z.csv"]


# -- signals -----------------------------------------------------------------------------------

#: Stops in the middle of writing until a signal comes, and tells that it is there.
STOPPING = """
import os, pathlib, time
def stop(*_):
    pathlib.Path("reached").touch()
    time.sleep(60)
os.fsync = stop
from gpcanet.cli import main
main()
"""
ENDINGS = {signal.SIGINT: 130, signal.SIGTERM: 130, signal.SIGKILL: -signal.SIGKILL}


def test_interrupt_is_reported(gpcanet, monkeypatch):
    def fit_transform(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    monkeypatch.setattr("gpcanet.estimators.gpca.GPCA.fit_transform", fit_transform)
    ended = gpcanet(*write_small(), "-q")
    message = "gpcanet: interrupted; no incomplete file was left\n"
    assert (ended.code, ended.out, ended.err) == (130, "", message)
    assert not Path("z.csv").exists()


def test_interrupt_that_a_library_turned_into_another_error(gpcanet, monkeypatch):
    def fit_transform(*_, **__):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        except KeyboardInterrupt:
            raise OSError("cancelled") from None

    monkeypatch.setattr("gpcanet.estimators.gpca.GPCA.fit_transform", fit_transform)
    ended = gpcanet(*write_small(), "-q")
    assert (ended.code, ended.err) == (130, "gpcanet: interrupted; no incomplete file was left\n")


def test_the_process_of_the_caller_gets_its_signals_back(gpcanet):
    numbers = signal.SIGINT, signal.SIGTERM
    before = [signal.getsignal(number) for number in numbers]
    for arguments, code in (["--version"], 0), (["embed", "nothing"], 2):
        assert gpcanet(*arguments).code == code
        assert [signal.getsignal(number) for number in numbers] == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_signals_leave_the_old_output_and_no_temporary_file():
    args = [str(Path(arg).absolute()) if arg.endswith(".csv") else arg for arg in write_small()]
    running = {}
    for sent in ENDINGS:
        folder = Path(str(sent))
        folder.mkdir()
        folder.joinpath("z.csv").write_text("old")
        running[sent] = folder, subprocess.Popen(
            [sys.executable, "-c", STOPPING, *args[:-1], "z.csv", "--force"],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    for sent, (folder, started) in running.items():
        deadline = time.monotonic() + 60
        while not folder.joinpath("reached").exists() and time.monotonic() < deadline:
            assert started.poll() is None, started.communicate()
            time.sleep(0.02)
        assert list(folder.glob(".z.csv.*"))
        started.send_signal(sent)
    for sent, (folder, started) in running.items():
        out, err = started.communicate(timeout=30)
        assert started.returncode == ENDINGS[sent], err
        assert out == ""
        assert folder.joinpath("z.csv").read_text() == "old"
        if sent != signal.SIGKILL:
            assert err.splitlines()[-1] == "gpcanet: interrupted; no incomplete file was left"
            assert "Traceback" not in err
            assert sorted(path.name for path in folder.iterdir()) == ["reached", "z.csv"]


#: Sends a signal at a moment when Python would otherwise end by it: while the command is imported,
#: inside of exec(), while a class is created, or when it ends.
SIGNALLED = """
import atexit, os, signal, sys
sent, moment = int(sys.argv.pop(1)), sys.argv.pop(1)
def stop(*_):
    os.kill(os.getpid(), sent)
if moment == "import":
    class Finder:
        def find_spec(self, name, *_):
            if name == "typer":
                stop()
    sys.meta_path.insert(0, Finder())
if moment == "exit":
    atexit.register(stop)
from gpcanet import cli
if moment == "exec":
    from gpcanet.cli import options
    options.Input.load = lambda *_: exec("stop()", {"stop": stop})
if moment == "class":
    from gpcanet.cli import options
    class Attribute:
        __set_name__ = stop
    options.Input.load = lambda *_: type("Made", (), {"attribute": Attribute()})
cli.main()
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["import", "exec", "class", "exit"])
def test_exit_code_after_a_signal_in_any_moment(sent, moment):
    Path("signalled.py").write_text(SIGNALLED)  # -c ends in another way than -m
    command = [sys.executable, "-m", "signalled", str(int(sent)), moment, *write_small()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == (0 if moment == "exit" else 130), ended.stderr
    assert "Traceback" not in ended.stderr
    assert Path("z.csv").exists() == (moment == "exit")


# -- surroundings ------------------------------------------------------------------------------


def test_any_folder_any_name_and_no_standard_input(tmp_path):
    elsewhere, target = tmp_path / "else where", tmp_path / "größe [1] 節点"
    elsewhere.mkdir()
    target.mkdir()
    files = write_blocks(Path().absolute(), name="my nodes é")
    output = target / "z :) ö.csv"
    command = [sys.executable, "-m", "gpcanet", "embed", *map(str, files), "-o", str(output)]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command],
        cwd=elsewhere, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"36 nodes in 3 dimensions: {output} (")
    assert done.stdout.count("\n") == 1
    assert len(output.read_text().splitlines()) == 37
    assert list(elsewhere.iterdir()) == []


def started(*args, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "gpcanet", *args],
        stderr=subprocess.PIPE, text=True, check=False, timeout=60, **kwargs,
    )  # fmt: skip


def test_closed_pipe_is_not_an_error():
    for args in (["datasets", "list"], ["--version"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = started(*args, stdout=writing)
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_result_that_cannot_be_printed_is_an_error():
    with open("/dev/full", "w") as full:
        done = started("--version", stdout=full)
    assert (done.returncode, done.stderr) == (2, "gpcanet: No space left on device\n")


def test_closed_streams_are_not_an_error():
    command = f'"{sys.executable}" -m gpcanet'
    done = subprocess.run(
        f"{command} datasets fetch digits --json 2>&-; {command} --version >&-",
        shell=True, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"fetched": ["digits"]}
    assert done.stderr == ""


def test_no_more_threads_is_one_line_and_not_a_traceback():
    arguments = write_small()
    code = (
        "import sys, threading\n"
        'def refuse(self): raise RuntimeError("can\'t start new thread")\n'
        "from gpcanet.linalg import parallel\n"
        "parallel.available_cores = lambda: 2\n"
        "threading.Thread.start = refuse\n"
        "from gpcanet.cli import main\n"
        "main()\n"
    )
    ended = process(*arguments, code=code, OMP_NUM_THREADS="2")
    assert ended.code == 2
    assert "gpcanet: the system allows no more threads or memory" in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err
    assert not Path("z.csv").exists()


def test_small_limit_of_address_space_is_one_sentence():
    args = write_small()
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -v 200000; exec "$@"', "sh", sys.executable, "-m", "gpcanet", *args],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 2, ended.stderr
    message = "gpcanet: the limit of 195 MiB on address space is too small to load numerical"
    assert ended.stderr.startswith(message)
    assert ended.stderr.count("\n") == 1
