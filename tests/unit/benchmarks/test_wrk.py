"""Requests that wrk sends by benchmarks/speed/load.lua; skipped without wrk (`make bench` installs it)."""

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.speed import programs, wrk
from benchmarks.speed.client import Request, Site

pytestmark = [
    pytest.mark.drill,
    pytest.mark.skipif(programs.find("wrk") is None, reason="wrk is not installed"),
]

_HEADERS = {"Authorization": "Basic YTpiOmM=", "Accept": "text/plain"}


class _Server(ThreadingHTTPServer):
    """It keeps all requests, and refuses those for /refused."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str, str, str | None, bytes]] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: wrk cuts its connections off when its time is over."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path, self.headers.get("Authorization"), body))
        self.send_response(403 if self.path == "/refused" else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[_Server]:
    """One that runs."""
    with _Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def _site(server: _Server) -> Site:
    origin = f"http://127.0.0.1:{server.server_port}"
    return Site(origin, f"{origin}/demo", 0)


def test_requests_in_turn(server: _Server) -> None:
    """All of them with their headers and bodies; what is refused is counted as such."""
    site = _site(server)
    asked = [
        Request("GET", f"{site.base_url}/locks?limit=1", _HEADERS),
        Request("POST", f"{site.origin}/refused", _HEADERS, b'{"a": "b c"}'),
    ]
    rate = wrk.in_turn(site, asked, seconds=1, connections=2)
    credential = _HEADERS["Authorization"]
    assert set(server.requests) == {
        ("GET", "/demo/locks?limit=1", credential, b""),
        ("POST", "/refused", credential, b'{"a": "b c"}'),
    }
    assert 0 < rate.refused < rate.requests
    assert rate.bytes


def test_numbered_requests(server: _Server) -> None:
    """Each has a number of its own, the same in all of its places, one after the other, and after the last from 0."""
    site = _site(server)
    asked = Request("POST", f"{site.base_url}/{wrk.NUMBER}", _HEADERS, f"{wrk.NUMBER} {wrk.NUMBER}".encode())
    # wrk itself looks at the first.
    wrk.numbered(site, asked, seconds=1, first=253, wrap=256, connections=1)
    assert server.requests[:3] == [
        ("POST", f"/demo/{number:08x}", _HEADERS["Authorization"], f"{number:08x} {number:08x}".encode())
        for number in (254, 255, 0)
    ]


def test_requests_that_are_sent_once(server: _Server, tmp_path: Path) -> None:
    """Each has the padding behind its own bytes; where there are no more, the rest of the time is not counted."""
    site, padding = _site(server), tmp_path / "padding"
    padding.write_bytes(b"\0\n" * 1000)
    asked = [Request("PUT", f"{site.base_url}/{number}", _HEADERS, f"{number}".encode()) for number in range(40)]
    rate = wrk.once(site, asked, seconds=3, padding=padding)
    sent = Counter(path for _, path, _, _ in server.requests)
    # Some connections may send the last once more before wrk stops.
    del sent[f"/demo/{len(asked) - 1}"]
    assert set(sent.values()) == {1}
    assert {body for _, path, _, body in server.requests if path == "/demo/7"} == {b"7" + padding.read_bytes()}
    assert rate.seconds < 3
