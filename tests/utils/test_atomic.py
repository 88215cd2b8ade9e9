"""Files and folders are written completely or not at all."""

import contextlib
import errno
import io
import os
import signal
import stat
import subprocess
import sys

import pytest

import gpcanet.utils.atomic
from gpcanet.utils.atomic import atomic_file, atomic_folder

OLD = b"the old content"


def test_folder_to_which_a_worker_still_writes_is_removed(tmp_path, monkeypatch):
    remove, late = gpcanet.utils.atomic.shutil.rmtree, ["first", "second"]

    def remove_while_written(path, **options):
        for entry in path.iterdir():
            entry.unlink()
        if late:  # rmdir would fail now
            path.joinpath(late.pop()).touch()
        else:
            remove(path, **options)

    monkeypatch.setattr(gpcanet.utils.atomic.shutil, "rmtree", remove_while_written)
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "new"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def target(tmp_path):
    """A file that is already there, alone in its folder."""
    path = tmp_path / "table.csv"
    path.write_bytes(OLD)
    return path


def untouched(target):
    """The old content is there, and no temporary files."""
    return target.read_bytes() == OLD and os.listdir(target.parent) == [target.name]


def write_half_of_a_file(path, error):
    with atomic_file(path, overwrite=True) as file:
        file.write(b"half of the new")
        raise error


def fill_half_of_a_folder(path, error):
    with atomic_folder(path) as folder:
        (folder / "first").write_bytes(b"1")
        raise error


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


# -- files --------------------------------------------------------------------------------------


def test_file_appears_at_the_end_of_the_block_and_not_before(tmp_path):
    path = tmp_path / "new.bin"
    with atomic_file(path) as file:
        file.write(b"first ")
        file.flush()
        assert not path.exists()
        file.write(b"second")
    assert path.read_bytes() == b"first second"
    assert os.listdir(tmp_path) == ["new.bin"]


def test_file_is_replaced_with_overwrite(target):
    with atomic_file(target, overwrite=True) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == OLD
    assert target.read_bytes() == b"new"
    assert os.listdir(target.parent) == [target.name]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_replaced_file_keeps_its_permissions(target, mode):
    target.chmod(mode)
    with umask(0o022), atomic_file(target, overwrite=True) as file:
        [part] = set(os.listdir(target.parent)) - {target.name}
        # nobody else may read the data while it is written
        assert stat.S_IMODE((target.parent / part).stat().st_mode) == mode
        file.write(b"new")
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_name_may_be_text(tmp_path):
    with atomic_file(str(tmp_path / "new.bin")) as file:
        file.write(b"x")
    assert (tmp_path / "new.bin").read_bytes() == b"x"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_error_in_the_block_leaves_the_old_file(target, error):
    with pytest.raises(error):
        write_half_of_a_file(target, error)
    assert untouched(target)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_error_in_the_block_leaves_no_file_where_there_was_none(tmp_path, error):
    with pytest.raises(error):
        write_half_of_a_file(tmp_path / "new.bin", error)
    assert os.listdir(tmp_path) == []


class _FullDisk(io.FileIO):
    """Takes four bytes, then has no room."""

    def write(self, content):
        super().write(bytes(content)[:4])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_disk_that_fills_up_leaves_the_old_file(target, monkeypatch):
    monkeypatch.setattr(gpcanet.utils.atomic.Path, "open", lambda path, mode: _FullDisk(path, mode))
    with (
        pytest.raises(OSError, match="No space left"),
        atomic_file(target, overwrite=True) as file,
    ):
        file.write(b"more than four bytes")
    assert untouched(target)


def test_disk_that_fills_up_when_buffers_are_written_out_leaves_the_old_file(target, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(gpcanet.utils.atomic.os, "fsync", full)
    with (
        pytest.raises(OSError, match="No space left"),
        atomic_file(target, overwrite=True) as file,
    ):
        file.write(b"new")
    assert untouched(target)


@pytest.fixture
def tiny_disk(tmp_path):
    """A folder that is a real file system of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not permitted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk_leaves_the_old_file(tiny_disk):
    target = tiny_disk / "table.csv"
    target.write_bytes(OLD)
    with (
        pytest.raises(OSError, match="No space left"),
        atomic_file(target, overwrite=True) as file,
    ):
        file.write(bytes(1 << 20))
    assert untouched(target)
    with atomic_file(target, overwrite=True) as file:  # no litter takes the room
        file.write(bytes(40_000))
    assert target.stat().st_size == 40_000


def test_full_disk_leaves_no_folder(tiny_disk):
    with pytest.raises(OSError, match="No space left"), atomic_folder(tiny_disk / "new") as folder:
        (folder / "large").write_bytes(bytes(1 << 20))
    assert os.listdir(tiny_disk) == []


GETS_ATOMIC = """
import os
import sys
from pathlib import Path

from gpcanet.utils.atomic import atomic_file, atomic_folder
"""

WRITES_AND_WAITS = """

if sys.argv[1] == "file":
    with atomic_file(sys.argv[2], overwrite=True) as file:
        file.write(b"half of the new")
        file.flush()
        print("in the middle", flush=True)
        sys.stdin.read()
else:
    with atomic_folder(Path(sys.argv[2])) as folder:
        (folder / "first").write_bytes(b"1")
        print("in the middle", flush=True)
        sys.stdin.read()
"""


def killed_while_writing(kind, path):
    command = [sys.executable, "-c", GETS_ATOMIC + WRITES_AND_WAITS, kind, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"in the middle\n"
        process.kill()
        assert process.wait() == -signal.SIGKILL


def test_kill_in_the_middle_leaves_the_old_bytes(target):
    killed_while_writing("file", target)
    assert target.read_bytes() == OLD
    with atomic_file(target, overwrite=True) as file:  # what the kill left is in nobody's way
        file.write(b"new")
    assert target.read_bytes() == b"new"


def test_kill_in_the_middle_leaves_no_folder(tmp_path):
    killed_while_writing("folder", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with atomic_folder(tmp_path / "new") as folder:
        (folder / "first").write_bytes(b"2")
    assert (tmp_path / "new" / "first").read_bytes() == b"2"


def test_existing_file_is_refused_before_any_work(target):
    with pytest.raises(FileExistsError, match=r"table\.csv exists"), atomic_file(target):
        pytest.fail("the block must not be entered")
    assert untouched(target)


@pytest.fixture(params=["links", "no links"])
def links(request, monkeypatch):
    """A file system with hard links, or one that has none."""

    def refuse(*args):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if request.param == "no links":
        monkeypatch.setattr(gpcanet.utils.atomic.os, "link", refuse)


def test_file_that_appeared_meanwhile_is_not_replaced(tmp_path, links):
    path = tmp_path / "new.bin"
    with pytest.raises(FileExistsError, match="exists"), atomic_file(path):
        path.write_bytes(OLD)
    assert untouched(path)


def test_file_that_appeared_after_the_last_check_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "new.bin"
    check = gpcanet.utils.atomic.check_target

    def check_and_be_overtaken(target, *, overwrite):
        check(target, overwrite=overwrite)
        if os.listdir(tmp_path):  # not the check before the work
            path.write_bytes(OLD)
        return target

    monkeypatch.setattr(gpcanet.utils.atomic, "check_target", check_and_be_overtaken)
    with (
        pytest.raises(FileExistsError, match=r"new\.bin exists; choose another name or pass"),
        atomic_file(path) as file,
    ):
        file.write(b"new")
    assert untouched(path)


def test_new_file_needs_no_hard_links(tmp_path, links):
    path = tmp_path / "new.bin"
    with atomic_file(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_nlink == 1
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("overwrite", [False, True])
def test_folder_is_refused_as_a_file(tmp_path, overwrite):
    with (
        pytest.raises(IsADirectoryError, match="is a folder"),
        atomic_file(tmp_path, overwrite=overwrite),
    ):
        pytest.fail("the block must not be entered")


def test_missing_parent_is_named(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="nowhere does not exist; create it first"),
        atomic_file(tmp_path / "nowhere" / "new.bin"),
    ):
        pytest.fail("the block must not be entered")


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_of_a_file_follow_the_umask(tmp_path, mask, mode):
    with umask(mask):
        with atomic_file(tmp_path / "new.bin"):
            pass
        assert os.umask(mask) == mask  # and the umask is as it was
    assert stat.S_IMODE((tmp_path / "new.bin").stat().st_mode) == mode


# -- folders ------------------------------------------------------------------------------------


def test_folder_and_its_parents_are_created(tmp_path):
    path = tmp_path / "a" / "b" / "new"
    with atomic_folder(path) as folder:
        (folder / "first").write_bytes(b"1")
        (folder / "inner").mkdir()
        (folder / "inner" / "second").write_bytes(b"2")
        assert not path.exists()
    assert sorted(p.name for p in path.rglob("*")) == ["first", "inner", "second"]
    assert os.listdir(path.parent) == ["new"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_error_in_the_block_leaves_no_folder(tmp_path, error):
    with pytest.raises(error):
        fill_half_of_a_folder(tmp_path / "new", error)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o755), (0o077, 0o700)])
def test_permissions_of_a_folder_follow_the_umask(tmp_path, mask, mode):
    with umask(mask), atomic_folder(tmp_path / "new"):
        pass
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


def test_file_in_the_place_of_the_folder_is_an_error(target):
    with pytest.raises(NotADirectoryError), atomic_folder(target) as folder:
        (folder / "first").write_bytes(b"1")
    assert untouched(target)


def test_first_of_two_folders_is_kept_without_error(tmp_path):
    path = tmp_path / "new"
    with atomic_folder(path) as late:
        (late / "maker").write_text("late")
        with atomic_folder(path) as early:
            (early / "maker").write_text("early")
    assert (path / "maker").read_text() == "early"
    assert os.listdir(tmp_path) == ["new"]


MAKES_A_FOLDER = """
with atomic_folder(Path(sys.argv[1])) as folder:
    for part in range(20):
        (folder / str(part)).write_text(str(os.getpid()))
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_two_processes_making_one_folder_leave_one_complete_folder(tmp_path):
    path = tmp_path / "new"
    command = [sys.executable, "-c", GETS_ATOMIC + MAKES_A_FOLDER, str(path)]
    makers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    ]
    for maker in makers:
        assert maker.stdout.readline() == b"ready\n"
    for maker in makers:
        maker.communicate(b"\n")
    assert [maker.returncode for maker in makers] == [0, 0]
    assert os.listdir(tmp_path) == ["new"]
    writers = {(path / str(part)).read_text() for part in range(20)}
    assert len(writers) == 1  # all of one process, and none missing
