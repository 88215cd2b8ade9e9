"""A web server on this machine that can do everything wrong that real ones do."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from base64 import b64decode
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep  # by its own name: tests replace time.sleep
from typing import Any, Self

import gpcanet.errors

PACKAGE = os.path.dirname(str(gpcanet.__file__))


@dataclass
class Page:
    """What a server answers at one address, and how it misbehaves there.

    The lists hold one entry for each request to come, and are used up.
    """

    content: bytes = b""
    etag: str | None = None
    takes_ranges: bool = True  # else every request gets the whole
    heeds_if_range: bool = True  # else a range is served though the tag has changed
    ranges_begin_late: int = 0  # a range begins so many bytes after the place asked for
    content_type: str = "application/octet-stream"
    claimed_length: str | None = None  # in place of the true Content-Length
    statuses: list[int] = field(default_factory=list)  # errors; RESET: no answer at all
    cuts: list[int] = field(default_factory=list)  # bytes after which the connection breaks
    redirect: str | None = None
    login: str | None = None  # "user:password", without which the answer is 401
    seconds: float = 0.0  # before answering


RESET = 0


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    status: int
    n_bytes: int  # of the content sent

    @property
    def login(self) -> str | None:
        """user:password as sent, if they were."""
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return b64decode(token).decode() if kind == "Basic" else None


class WebServer:
    """``with WebServer({"/path": Page(...)}) as server``; server.requests is what was asked."""

    def __init__(self, pages: dict[str, Page] | None = None, tls_context: Any = None) -> None:
        self.pages = dict(pages or {})
        self.requests: list[Request] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._scheme = "http"
        if tls_context is not None:
            self._scheme = "https"
            self._server.socket = tls_context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def url(self, path: str = "", login: str | None = None) -> str:
        return f"{self._scheme}://{login + '@' if login else ''}{self.host}{path}"

    def asked(self, path: str) -> list[Request]:
        """The requests for one path, in order."""
        return [request for request in self.requests if request.path == path]


def address_of_nobody() -> str:
    """An address on this machine at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


#: Status, headers and content.
Answer = tuple[int, dict[str, str], bytes]

#: For scripts of other processes: afterwards they can import modules of gpcanet.datasets without
#: everything else, which would take seconds.
LIGHT_IMPORT = f"""
import sys, types
for name, folder in (("gpcanet", {PACKAGE!r}), ("gpcanet.datasets", {PACKAGE + "/datasets"!r})):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
"""


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    owner: WebServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up, and handshakes that fail, are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    @property
    def _owner(self) -> WebServer:
        return self.server.owner  # type: ignore[attr-defined]

    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal."""

    def do_GET(self) -> None:
        page = self._owner.pages.get(self.path.partition("?")[0])
        status, headers, content = self._answer(page)
        n_sent = len(content)
        if page and page.cuts and status < 300:
            n_sent = min(n_sent, page.cuts.pop(0))
        # Noted before it is sent: whoever has the answer finds the note.
        self._owner.requests.append(Request(self.path, dict(self.headers), status, n_sent))
        if status == RESET:
            self._break_off()
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content[:n_sent])
        self.close_connection = True

    def _answer(self, page: Page | None) -> Answer:
        if page is None:
            return self._short(404)
        sleep(page.seconds)
        if page.statuses and (status := page.statuses.pop(0)) != 200:
            return self._short(status)
        if page.login and _login(self.headers) != page.login:
            return self._short(401)
        if page.redirect:
            return 302, {"Location": page.redirect, "Content-Length": "0"}, b""
        return self._content(page)

    def _content(self, page: Page) -> Answer:
        headers = {"Content-Type": page.content_type}
        if page.etag:
            headers["ETag"] = page.etag
        asked = self.headers.get("Range", "")
        same = self.headers.get("If-Range") in (None, page.etag) or not page.heeds_if_range
        status, content = 200, page.content
        if asked and page.takes_ranges and same:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(content):
                return self._short(416)
            begin += page.ranges_begin_late
            status = 206
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
            content = content[begin:]
        headers["Content-Length"] = page.claimed_length or str(len(content))
        return status, headers, content

    @staticmethod
    def _short(status: int) -> Answer:
        return status, {"Content-Length": "0"}, b""

    def _break_off(self) -> None:
        """Closes so that the system sends a reset: at once, whatever is pending."""
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        socket.close(self.connection.detach())


def _login(headers: Any) -> str | None:
    return Request("", dict(headers), 0, 0).login
