"""Downloads: whole, resumed, checked, or an error that says what happened."""

import errno
import hashlib
import io
import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
from pathlib import Path

import pytest

import gpcanet.datasets.download as module
from campaign.web_server import LIGHT_IMPORT, RESET, Page, WebServer, address_of_nobody
from gpcanet.datasets.download import ATTEMPTS, download, read_url
from gpcanet.errors import DataError, DataUnavailableError
from gpcanet.utils.progress import progress_to

CONTENT = bytes(range(256)) * 400
HALF = len(CONTENT) // 2
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def direct_and_without_naps(monkeypatch):
    """No proxy, small chunks, and a list of how long would have been waited."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    naps = []
    monkeypatch.setattr(module.time, "sleep", naps.append)
    monkeypatch.setattr(module, "CHUNK_BYTES", 10_000)
    return naps


@pytest.fixture
def server():
    with WebServer() as server:
        yield server


@pytest.fixture
def target(tmp_path):
    return tmp_path / "cache" / "file.bin"


def only_the_target(target):
    return target.read_bytes() == CONTENT and os.listdir(target.parent) == [target.name]


def nothing_kept(target):
    return os.listdir(target.parent) == []


# -- all goes well ------------------------------------------------------------------------------


def test_download_is_complete_and_leaves_no_other_file(server, target):
    server.pages["/file.bin"] = Page(CONTENT, etag='"1"')
    download(server.url("/file.bin"), target, sha256=SHA256)
    assert only_the_target(target)
    assert [request.n_bytes for request in server.requests] == [len(CONTENT)]


def test_empty_file_is_a_file(server, target):
    server.pages["/file.bin"] = Page(b"")
    download(server.url("/file.bin"), target, sha256=hashlib.sha256(b"").hexdigest())
    assert target.read_bytes() == b""


def test_file_url_is_read(tmp_path, target):
    source = tmp_path / "source file.bin"
    source.write_bytes(CONTENT)
    download(source.as_uri(), target, sha256=SHA256)
    assert only_the_target(target)


def test_progress_increases_to_the_total(server, target):
    server.pages["/data/file.bin"] = Page(CONTENT)
    calls = []
    with progress_to(lambda *call: calls.append(call)):
        download(server.url("/data/file.bin?x=1"), target)
    names, so_far, totals = zip(*calls, strict=True)
    assert set(names) == {"file.bin"}
    assert set(totals) == {len(CONTENT)}
    assert len(so_far) > 5
    assert sorted(set(so_far)) == list(so_far)
    assert so_far[-1] == len(CONTENT)


def test_failing_progress_stops_the_download(server, target):
    server.pages["/file.bin"] = Page(CONTENT)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), progress_to(stop):
        download(server.url("/file.bin"), target)
    assert not target.exists()


# -- going on after a cut -----------------------------------------------------------------------


def test_cut_connection_is_resumed_where_it_broke(server, target):
    server.pages["/file.bin"] = Page(CONTENT, etag='"1"', cuts=[HALF])
    calls = []
    with progress_to(lambda *call: calls.append(call)):
        download(server.url("/file.bin"), target, sha256=SHA256)
    assert only_the_target(target)
    assert [request.status for request in server.requests] == [200, 206]
    assert sum(request.n_bytes for request in server.requests) == len(CONTENT)  # none twice
    assert server.requests[1].headers["Range"] == f"bytes={HALF}-"
    so_far = [call[1] for call in calls]
    assert so_far == sorted(so_far)
    assert {call[2] for call in calls} == {len(CONTENT)}


def test_later_run_resumes_the_last_one(server, target):
    server.pages["/file.bin"] = Page(CONTENT, etag='"1"', cuts=[1000] * ATTEMPTS)
    with pytest.raises(DataUnavailableError):
        download(server.url("/file.bin"), target, sha256=SHA256)
    assert not target.exists()
    download(server.url("/file.bin"), target, sha256=SHA256)
    assert only_the_target(target)
    assert sum(request.n_bytes for request in server.requests) == len(CONTENT)


@pytest.fixture
def half_done(server, target):
    """A download that broke off at half; returns the page, as good as new."""
    page = server.pages["/file.bin"] = Page(CONTENT, etag='"1"', cuts=[HALF, 0, 0])
    with pytest.raises(DataUnavailableError):
        download(server.url("/file.bin"), target)
    assert target.with_name("file.bin.part").stat().st_size == HALF
    server.requests.clear()
    return page


def test_changed_file_is_downloaded_from_the_beginning(server, target, half_done):
    half_done.etag, half_done.content = '"2"', CONTENT[::-1]
    download(server.url("/file.bin"), target)
    assert target.read_bytes() == CONTENT[::-1]
    assert [request.status for request in server.requests] == [200]


def test_changed_file_is_not_mixed_where_the_server_ignores_if_range(server, target, half_done):
    half_done.etag, half_done.content = '"2"', CONTENT[::-1]
    half_done.heeds_if_range = False
    download(server.url("/file.bin"), target)
    assert target.read_bytes() == CONTENT[::-1]
    assert [request.status for request in server.requests] == [206, 200]


def test_server_that_ignores_ranges_sends_all_again(server, target, half_done):
    half_done.takes_ranges = False
    calls = []
    with progress_to(lambda *call: calls.append(call)):
        download(server.url("/file.bin"), target)
    assert only_the_target(target)
    assert calls[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [request.n_bytes for request in server.requests] == [len(CONTENT)]


def test_wrong_range_is_not_appended(server, target, half_done):
    half_done.ranges_begin_late = 10
    download(server.url("/file.bin"), target)
    assert only_the_target(target)
    assert [request.status for request in server.requests] == [206, 200]


def test_range_beyond_the_file_restarts(server, target, half_done):
    half_done.content = CONTENT[: HALF - 5]  # shorter now than what is here
    half_done.heeds_if_range = False
    download(server.url("/file.bin"), target)
    assert target.read_bytes() == CONTENT[: HALF - 5]
    assert [request.status for request in server.requests] == [416, 200]
    assert os.listdir(target.parent) == ["file.bin"]


def test_old_part_never_gets_a_new_tag(server, target, half_done, monkeypatch):
    """A kill just after the new tag is noted must not let old bytes pass for new ones."""

    def killed():
        raise KeyboardInterrupt

    half_done.etag, half_done.content = '"2"', CONTENT[::-1]
    with monkeypatch.context() as patch:
        replace_opening_of_parts(patch, killed)
        with pytest.raises(KeyboardInterrupt):
            download(server.url("/file.bin"), target)
    download(server.url("/file.bin"), target)
    assert target.read_bytes() == CONTENT[::-1]


def test_part_of_another_url_is_not_resumed(server, target, half_done):
    server.pages["/other.bin"] = Page(CONTENT[::-1], etag='"1"')
    download(server.url("/other.bin"), target)
    assert target.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("etag", [None, 'W/"1"'])
def test_without_a_strong_tag_nothing_is_resumed(server, target, etag):
    server.pages["/file.bin"] = Page(CONTENT, etag=etag, cuts=[HALF])
    download(server.url("/file.bin"), target, sha256=SHA256)
    assert only_the_target(target)
    assert [request.status for request in server.requests] == [200, 200]


@pytest.mark.parametrize("tag", [b"", b"{", b"[]", b'"x"', b"\xff"])
def test_damaged_tag_file_is_ignored(server, target, half_done, tag):
    target.with_name("file.bin.part.tag").write_bytes(tag)
    download(server.url("/file.bin"), target)
    assert only_the_target(target)
    assert [request.status for request in server.requests] == [200]


# -- servers in trouble -------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [500, 502, 503, 504, RESET])
def test_temporary_errors_are_retried(server, target, direct_and_without_naps, trouble):
    server.pages["/file.bin"] = Page(CONTENT, statuses=[trouble] * (ATTEMPTS - 1))
    download(server.url("/file.bin"), target, sha256=SHA256)
    assert only_the_target(target)
    naps = direct_and_without_naps
    assert len(naps) == ATTEMPTS - 1
    assert naps == sorted(naps)


@pytest.mark.parametrize(
    ("trouble", "reason"), [(503, "503 Service Unavailable"), (RESET, "[Rr]eset|closed")]
)
def test_permanent_errors_end_the_retries(server, target, trouble, reason):
    server.pages["/file.bin"] = Page(CONTENT, statuses=[trouble] * 50)
    with pytest.raises(DataUnavailableError, match=reason) as caught:
        download(server.url("/file.bin", login="me:secret"), target)
    assert len(server.requests) == ATTEMPTS
    assert server.url("/file.bin") in str(caught.value)
    assert "secret" not in str(caught.value)
    assert nothing_kept(target)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_client_errors_are_not_retried(server, target, direct_and_without_naps, status):
    server.pages["/file.bin"] = Page(CONTENT, statuses=[status])
    with pytest.raises(DataUnavailableError, match=rf"file\.bin: the server answers {status}"):
        download(server.url("/file.bin"), target)
    assert len(server.requests) == 1
    assert direct_and_without_naps == []


def test_refused_connection_is_not_retried(target, direct_and_without_naps):
    url = address_of_nobody()
    with pytest.raises(DataUnavailableError, match="refused") as caught:
        download(f"{url}/file.bin", target)
    assert url in str(caught.value)
    assert direct_and_without_naps == []


@pytest.mark.parametrize("n_failures", [1, 50])
def test_connection_reset_is_retried(server, target, monkeypatch, n_failures):
    server.pages["/file.bin"] = Page(CONTENT)
    failures = [urllib.error.URLError(ConnectionResetError("reset"))] * n_failures
    really_open = module._open

    def open_url(*args):
        if failures:
            raise failures.pop()
        return really_open(*args)

    monkeypatch.setattr(module, "_open", open_url)
    if n_failures < ATTEMPTS:
        download(server.url("/file.bin"), target, sha256=SHA256)
        assert only_the_target(target)
    else:
        with pytest.raises(DataUnavailableError, match="reset"):
            download(server.url("/file.bin"), target)
        assert len(failures) == n_failures - ATTEMPTS


def test_error_without_message_is_reported_by_its_type(target, monkeypatch):
    def fail(*_):
        raise TimeoutError

    monkeypatch.setattr(module, "_open", fail)
    with pytest.raises(DataUnavailableError, match=r"file\.bin: TimeoutError"):
        download("http://127.0.0.1/file.bin", target)


def test_silent_server_times_out(server, target, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(module, "ATTEMPTS", 2)
    server.pages["/file.bin"] = Page(CONTENT, seconds=0.15)
    with pytest.raises(DataUnavailableError, match="timed out"):
        download(server.url("/file.bin"), target)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/file.bin", "data:,x", "file.bin"])
def test_other_url_schemes_are_refused(target, url):
    with pytest.raises(DataUnavailableError, match="use an https, http or file URL"):
        download(url, target)


# -- wrong bytes --------------------------------------------------------------------------------

FLIPPED = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]


@pytest.mark.parametrize(
    "page",
    [
        Page(CONTENT[:-1], etag='"1"'),
        Page(CONTENT + b"x", etag='"1"'),
        Page(FLIPPED, etag='"1"'),
        Page(b"", etag='"1"'),
        Page(CONTENT, etag='"1"', claimed_length=str(len(CONTENT) - 7)),
    ],
    ids=["truncated", "longer", "bit flipped", "empty", "length claimed too small"],
)
def test_wrong_bytes_are_an_error_and_not_kept(server, target, page):
    server.pages["/file.bin"] = page
    with pytest.raises(DataError, match=rf"not {SHA256}.* try again later") as caught:
        download(server.url("/file.bin", login="me:secret"), target, sha256=SHA256)
    assert not isinstance(caught.value, DataUnavailableError)
    assert "secret" not in str(caught.value)
    assert nothing_kept(target)


def test_too_large_content_length_is_an_interrupted_download(server, target):
    server.pages["/file.bin"] = Page(CONTENT, claimed_length=str(len(CONTENT) + 7))
    with pytest.raises(DataUnavailableError, match="7 more expected"):
        download(server.url("/file.bin"), target, sha256=SHA256)
    assert not target.exists()
    assert len(server.requests) == ATTEMPTS


@pytest.mark.parametrize("length", ["many", "-3"])
def test_invalid_content_length_is_ignored(server, target, length):
    server.pages["/file.bin"] = Page(CONTENT, claimed_length=length)
    calls = []
    with progress_to(lambda *call: calls.append(call)):
        download(server.url("/file.bin"), target, sha256=SHA256)
    assert only_the_target(target)
    assert {call[2] for call in calls} == {None}


def test_wrong_bytes_do_not_replace_an_existing_file(server, target):
    target.parent.mkdir()
    target.write_bytes(CONTENT)
    server.pages["/file.bin"] = Page(FLIPPED)
    with pytest.raises(DataError):
        download(server.url("/file.bin"), target, sha256=SHA256)
    assert only_the_target(target)


# -- the disk -----------------------------------------------------------------------------------


def replace_opening_of_parts(monkeypatch, opens):
    really_open = Path.open

    def open_path(path, mode="r", *args, **kwargs):
        return opens() if mode == "ab" else really_open(path, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", open_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_disk_error_is_not_reported_as_unavailable(server, target, monkeypatch, number):
    class TroubledFile(io.BytesIO):
        def write(self, content):
            raise OSError(number, os.strerror(number))

    server.pages["/file.bin"] = Page(CONTENT)
    replace_opening_of_parts(monkeypatch, TroubledFile)
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        download(server.url("/file.bin"), target)
    assert caught.value.errno == number
    assert len(server.requests) == 1
    assert not target.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_full_disk_is_not_reported_as_unavailable(server, target):
    server.pages["/file.bin"] = Page(CONTENT)
    target.parent.mkdir()
    target.with_name("file.bin.part").symlink_to("/dev/full")
    # A new download starts with an empty part; with a tag the part is an old one to be resumed.
    note = {"url": server.url("/file.bin"), "tag": '"1"'}
    target.with_name("file.bin.part.tag").write_text(json.dumps(note))
    server.pages["/file.bin"].etag = '"1"'
    with pytest.raises(OSError, match="No space left"):
        download(server.url("/file.bin"), target)
    assert len(server.requests) == 1


def test_folder_error_is_not_reported_as_unavailable(server, tmp_path):
    server.pages["/file.bin"] = Page(CONTENT)
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(OSError, match="cache"):
        download(server.url("/file.bin"), tmp_path / "cache" / "file.bin")
    assert server.requests == []


# -- logins -------------------------------------------------------------------------------------


def test_login_in_the_url_is_sent_and_not_stored(server, target):
    server.pages["/file.bin"] = Page(CONTENT, etag='"1"', login="m e:s@cret", cuts=[HALF, 0, 0])
    url = server.url("/file.bin", login="m%20e:s%40cret")
    with pytest.raises(DataUnavailableError):
        download(url, target)
    assert {request.login for request in server.requests} == {"m e:s@cret"}
    kept = b"".join(path.read_bytes() for path in target.parent.iterdir())
    assert b"s%40cret" not in kept
    download(url, target, sha256=SHA256)
    assert [request.status for request in server.requests] == [200, 206, 206, 206]


def test_login_is_not_sent_to_another_server(server, target):
    with WebServer({"/file.bin": Page(CONTENT)}) as other:
        server.pages["/file.bin"] = Page(redirect=other.url("/file.bin"), login="me:secret")
        download(server.url("/file.bin", login="me:secret"), target, sha256=SHA256)
        assert [request.login for request in server.requests] == ["me:secret"]
        assert [request.login for request in other.requests] == [None]
    assert only_the_target(target)


def test_login_is_sent_after_redirect_to_the_same_server(server, target):
    server.pages["/old.bin"] = Page(redirect="/new.bin", login="me:secret")
    server.pages["/new.bin"] = Page(CONTENT, login="me:secret")
    download(server.url("/old.bin", login="me:secret"), target, sha256=SHA256)
    assert only_the_target(target)


def test_login_is_not_sent_after_redirect_through_another_server(server, target):
    with WebServer() as other:
        server.pages["/file.bin"] = Page(redirect=other.url("/there"), login="me:secret")
        other.pages["/there"] = Page(redirect=server.url("/back"))
        server.pages["/back"] = Page(CONTENT)
        download(server.url("/file.bin", login="me:secret"), target, sha256=SHA256)
    assert [request.login for request in server.requests] == ["me:secret", None]


ASKS_FOR_A_LOGIN = """
import sys
import urllib.error
from pathlib import Path
from gpcanet.datasets.download import download
download(sys.argv[1], Path(sys.argv[2]))
"""


def test_missing_login_is_an_error_without_prompt(server, target):
    server.pages["/file.bin"] = Page(CONTENT, login="me:secret")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            LIGHT_IMPORT + ASKS_FOR_A_LOGIN,
            server.url("/file.bin"),
            str(target),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,  # no terminal to ask on either
    )
    assert done.returncode == 1
    assert "DataUnavailableError" in done.stderr
    assert "the server answers 401" in done.stderr


# -- TLS ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    return certificate, key


@pytest.fixture
def tls_server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with WebServer({"/file.bin": Page(CONTENT)}, tls_context=context) as server:
        yield server


def test_unknown_certificate_is_refused(tls_server, target):
    with pytest.raises(DataUnavailableError, match=r"(?i)certificate"):
        download(tls_server.url("/file.bin"), target)
    with pytest.raises(DataUnavailableError, match=r"(?i)certificate"):
        read_url(tls_server.url("/file.bin"))
    assert tls_server.requests == []
    assert nothing_kept(target)


def test_certificate_that_is_named_is_trusted(tls_server, target, certificate):
    download(tls_server.url("/file.bin"), target, sha256=SHA256, certificates=str(certificate[0]))
    assert only_the_target(target)


def test_certificate_for_another_host_is_refused(tls_server, target, certificate):
    url = tls_server.url("/file.bin").replace("127.0.0.1", "localhost")
    with pytest.raises(DataUnavailableError, match=r"(?i)certificate"):
        download(url, target, certificates=str(certificate[0]))
    assert tls_server.requests == []


def test_redirect_to_an_unknown_certificate_is_refused(server, tls_server, target):
    server.pages["/file.bin"] = Page(redirect=tls_server.url("/file.bin"))
    with pytest.raises(DataUnavailableError, match=r"(?i)certificate"):
        download(server.url("/file.bin"), target)
    assert tls_server.requests == []


@pytest.mark.parametrize("content", [None, "not a certificate"])
def test_certificates_that_cannot_be_used_are_named(server, target, tmp_path, content):
    certificates = tmp_path / "company.pem"
    if content is not None:
        certificates.write_text(content)
    with pytest.raises(DataUnavailableError, match=r"company\.pem are not usable"):
        download(server.url("/file.bin"), target, certificates=str(certificates))


def test_folder_of_certificates_is_accepted(tls_server, target, certificate, tmp_path):
    folder = tmp_path / "certificates"
    folder.mkdir()
    shutil.copy(certificate[0], folder)
    subprocess.run(["openssl", "rehash", folder], check=True, capture_output=True)
    download(tls_server.url("/file.bin"), target, sha256=SHA256, certificates=str(folder))
    assert only_the_target(target)


# -- pages --------------------------------------------------------------------------------------


def test_page_has_text_and_final_url(server):
    server.pages["/old"] = Page(redirect="/new", login="me:secret")
    server.pages["/new"] = Page("größe".encode())
    text, address = read_url(server.url("/old", login="me:secret"), accept="text/html")
    assert (text, address) == ("größe", server.url("/new"))
    assert {request.headers["Accept"] for request in server.requests} == {"text/html"}


@pytest.mark.parametrize(
    ("page", "reason"),
    [(Page(statuses=[404]), "answers 404"), (Page(statuses=[RESET]), "[Rr]eset|closed")],
)
def test_page_error_does_not_contain_the_password(server, page, reason):
    server.pages["/page"] = page
    with pytest.raises(DataUnavailableError, match=reason) as caught:
        read_url(server.url("/page", login="me:secret"))
    assert server.url("/page") in str(caught.value)
    assert "secret" not in str(caught.value)
