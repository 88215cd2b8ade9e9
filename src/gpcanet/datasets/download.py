"""Downloads that can be resumed, are verified, and are complete or absent.

pooch is not used, because it does not resume interrupted downloads.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import IO, Any

from ..errors import DataError, DataUnavailableError
from ..utils.progress import report_progress

TIMEOUT_SECONDS = 15
ATTEMPTS = 3
CHUNK_BYTES = 1 << 18

#: Error numbers of failed writes; connections do not raise them.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def download(
    url: str, target: Path, *, sha256: str | None = None, certificates: str | None = None
) -> None:
    """Download a URL to a file and resume an earlier attempt.

    Data is collected in ``<target>.part``. An earlier part is used only if the server confirms by
    entity tag or date that the file has not changed. The target is created when the download is
    complete and its SHA-256, if given, is correct.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for attempt in range(ATTEMPTS):
        try:
            _fetch(url, part, certificates)
            break
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500 or attempt == ATTEMPTS - 1:
                raise DataUnavailableError(
                    f"{without_login(url)}: the server answers {error.code} {error.reason}"
                ) from None
        except urllib.error.URLError as error:
            # A refused connection is not retried, an interrupted one is.
            is_interrupted = isinstance(error.reason, ConnectionError) and not isinstance(
                error.reason, ConnectionRefusedError
            )
            if not is_interrupted or attempt == ATTEMPTS - 1:
                raise DataUnavailableError(f"{without_login(url)}: {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            if _is_disk_error(error):
                raise
            if attempt == ATTEMPTS - 1:
                reason = str(error) or type(error).__name__
                raise DataUnavailableError(f"{without_login(url)}: {reason}") from None
        time.sleep(2**attempt / 2)
    if sha256 is not None and (found := sha256_of(part)) != sha256:
        _forget(part)
        raise DataError(
            f"{without_login(url)} has SHA-256 {found}, not {sha256}: the file is damaged or has "
            f"changed; try again later"
        )
    os.replace(part, target)
    _forget(part)


def read_url(url: str, *, certificates: str | None = None, accept: str = "*/*") -> tuple[str, str]:
    """The text of a page, and its URL after redirects."""
    try:
        with _open(url, {"Accept": accept}, certificates) as answer:
            return answer.read().decode("utf-8", errors="replace"), answer.url
    except urllib.error.HTTPError as error:
        error.close()
        raise DataUnavailableError(
            f"{without_login(url)}: the server answers {error.code} {error.reason}"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataUnavailableError(f"{without_login(url)}: {reason}") from None


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(url: str, part: Path, certificates: str | None) -> None:
    tag_file = part.with_name(part.name + ".tag")
    kept_tag = _read_tag(tag_file, url) if part.exists() else None
    done, headers = 0, {}
    if kept_tag:
        done = part.stat().st_size
        headers = {"Range": f"bytes={done}-", "If-Range": kept_tag}
    try:
        answer = _open(url, headers, certificates)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        _forget(part)  # the part is not the beginning of the file: restart
        answer = _open(url, {}, certificates)
    with answer:
        resumed = answer.status == http.client.PARTIAL_CONTENT
        tags = [tag for tag in map(answer.headers.get, ("ETag", "Last-Modified")) if tag]
        if resumed and not _continues(answer, done, kept_tag, tags):
            _forget(part)
            raise http.client.HTTPException(
                "the server sent another part of the file than requested"
            )
        if not resumed:
            done = 0
            _forget(part)  # a new tag must not be combined with an old part
            if tags and not tags[0].startswith("W/"):  # a weak tag does not guarantee equal bytes
                tag_file.write_text(json.dumps({"url": without_login(url), "tag": tags[0]}))
        length = answer.headers.get("Content-Length") or ""
        total = done + int(length) if length.isdecimal() else None
        with part.open("ab") as file:
            _copy(answer, file, Path(urllib.parse.urlsplit(url).path).name, done, total)


def _continues(answer: Any, done: int, kept_tag: str | None, tags: list[str]) -> bool:
    """Whether a partial answer starts at the end of the part and belongs to the same file."""
    starts_there = answer.headers.get("Content-Range", "").startswith(f"bytes {done}-")
    return starts_there and (not tags or kept_tag in tags)


def _copy(answer: Any, file: IO[bytes], name: str, done: int, total: int | None) -> None:
    while chunk := answer.read(CHUNK_BYTES):
        file.write(chunk)
        done += len(chunk)
        report_progress(name, done, total)
    if total is not None and done < total:
        raise http.client.IncompleteRead(b"", total - done)


def _open(url: str, headers: dict[str, str], certificates: str | None) -> Any:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("https", "http", "file"):
        raise DataUnavailableError(f"{without_login(url)}: use an https, http or file URL")
    netloc = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(
        urllib.parse.urlunsplit(parts._replace(netloc=netloc)),
        headers={"User-Agent": "gpcanet", **headers},
    )
    if parts.username:
        login = ":".join(
            urllib.parse.unquote(part or "") for part in (parts.username, parts.password)
        )
        token = base64.b64encode(login.encode()).decode()
        # Not sent to another server after a redirect.
        request.add_unredirected_header("Authorization", f"Basic {token}")
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=_tls_context(certificates)), _SameServerLogin
    )
    return opener.open(request, timeout=TIMEOUT_SECONDS)


class _SameServerLogin(urllib.request.HTTPRedirectHandler):
    """Sends the login again if a server redirects to itself, as mirrors do."""

    def redirect_request(self, req: Any, *details: Any) -> urllib.request.Request | None:
        request = super().redirect_request(req, *details)
        login = req.unredirected_hdrs.get("Authorization")
        if request and login and (request.type, request.host) == (req.type, req.host):
            request.add_unredirected_header("Authorization", login)
        return request


def _tls_context(certificates: str | None) -> ssl.SSLContext:
    """Verify certificates with the store of the system, which may contain company certificates."""
    import truststore

    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if certificates:
        is_folder = os.path.isdir(certificates)
        try:
            context.load_verify_locations(**{"capath" if is_folder else "cafile": certificates})
        except OSError as error:
            raise DataUnavailableError(
                f"the certificates {certificates} are not usable ({error}); correct pip's cert"
            ) from None
    return context


def _read_tag(tag_file: Path, url: str) -> str | None:
    try:
        kept = json.loads(tag_file.read_text())
        return kept["tag"] if kept["url"] == without_login(url) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    part.with_name(part.name + ".tag").unlink(missing_ok=True)


def _is_disk_error(error: BaseException) -> bool:
    return isinstance(error, OSError) and (
        error.filename is not None or error.errno in _DISK_ERRORS
    )


def without_login(url: str) -> str:
    """The URL without user and password, for messages."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
