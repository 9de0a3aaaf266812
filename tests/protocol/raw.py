"""Requests that no HTTP library sends: cut, malformed, with odd targets, or answered before they end."""

import socket
import struct
from collections.abc import Iterable
from http.client import HTTPResponse
from types import TracebackType
from typing import Self

import httpx

from tests.support.waiting import STEP_SECONDS


class Connection:
    """One connection to a server, on which a test writes what it likes."""

    def __init__(self, origin: str) -> None:
        url = httpx.URL(origin)
        self._host = url.netloc
        self._socket = socket.create_connection((url.host, url.port or 80), timeout=STEP_SECONDS)
        self._request = httpx.Request("GET", origin)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def begin(self, method: str, target: str | bytes, headers: Iterable[tuple[str, str]] = ()) -> None:
        """Send the head of a request; `target` goes on the wire as it is."""
        target = target.encode() if isinstance(target, str) else target
        lines = [method.encode() + b" " + target + b" HTTP/1.1", b"Host: " + self._host]
        lines += [f"{name}: {value}".encode("latin-1") for name, value in headers]
        self._request = httpx.Request(method, f"http://{self._host.decode()}/")
        self._socket.sendall(b"\r\n".join(lines) + b"\r\n\r\n")

    def send(self, content: bytes) -> None:
        """Send bytes of a body."""
        self._socket.sendall(content)

    def send_chunk(self, content: bytes) -> None:
        """Send a chunk of a chunked body; an empty one ends it."""
        self._socket.sendall(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def answer(self) -> httpx.Response:
        """Read one answer."""
        response = HTTPResponse(self._socket, method=self._request.method)
        try:
            response.begin()
            content = response.read()
            return httpx.Response(
                response.status, headers=response.getheaders(), content=content, request=self._request
            )
        finally:
            response.close()

    def reset(self) -> None:
        """Cut the connection without a word, as a crash of the client does."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


def exchange(
    origin: str, method: str, target: str | bytes, headers: Iterable[tuple[str, str]] = (), content: bytes = b""
) -> httpx.Response:
    """Send one request with a Content-Length, and return its answer."""
    with Connection(origin) as connection:
        length = [("Content-Length", str(len(content)))] if content or method in ("POST", "PUT") else []
        connection.begin(method, target, [*headers, *length, ("Connection", "close")])
        connection.send(content)
        return connection.answer()
