"""Many small requests at once, by wrk: https://github.com/wg/wrk."""

import json
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.speed.client import Request, Site

CONNECTIONS = 16
NUMBER = "@@@@@@@@"
"""The placeholder that `load.lua` replaces by a number unique to each request, eight hexadecimal digits."""

_SCRIPT = Path(__file__).with_name("load.lua")
_FIELD, _HEADER, _LINE = "\t", "\x1f", "\n"
_END_SECONDS = 60.0


@dataclass(frozen=True)
class Rate:
    """The outcome of a load of requests."""

    requests: int
    refused: int
    """The number of requests answered by an error, or not at all."""
    seconds: float
    bytes: int

    @property
    def per_second(self) -> float:
        """The number of requests in a second that were answered as they should be."""
        return (self.requests - self.refused) / self.seconds


def in_turn(site: Site, requests: Iterable[Request], *, seconds: int, connections: int = CONNECTIONS) -> Rate:
    """Send these requests again and again."""
    return _run(site, "turn", requests, seconds, connections)


def numbered(
    site: Site, request: Request, *, seconds: int, first: int, connections: int = CONNECTIONS, wrap: int = 2**32
) -> Rate:
    """Send a request with another `NUMBER` each time, from `first` up to `wrap`, and then from 0."""
    return _run(site, "number", [request], seconds, connections, str(first), str(wrap))


def once(site: Site, requests: Iterable[Request], *, seconds: int, padding: Path) -> Rate:
    """Send each of these requests but the first, with a file's bytes after their own; end early when all are sent."""
    return _run(site, "once", requests, seconds, CONNECTIONS, str(padding))


def _run(site: Site, mode: str, requests: Iterable[Request], seconds: int, connections: int, *arguments: str) -> Rate:
    with tempfile.NamedTemporaryFile("w", suffix=".requests", newline="") as file:
        file.writelines(map(_line, requests))
        file.flush()
        # One thread, as a second one would take from the server more than it gives the load.
        command = ["wrk", "--threads=1", f"--connections={connections}", f"--duration={seconds}s"]
        command += ["--timeout=30s", f"--script={_SCRIPT}", site.origin, "--", mode, file.name, *arguments]
        done = subprocess.run(  # noqa: S603 - our own command
            command, capture_output=True, text=True, timeout=seconds + _END_SECONDS, check=True
        )
    told = json.loads(done.stdout.splitlines()[-1])
    # What got no answer at all is none of the requests that wrk counts.
    lost = told["lost"]
    return Rate(told["requests"] + lost, told["refused"] + lost, told["microseconds"] / 1e6, told["bytes"])


def _line(request: Request) -> str:
    """Return a request as a line that `load.lua` reads."""
    parts = urlsplit(request.url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    headers = _HEADER.join(f"{name}: {value}" for name, value in request.headers.items())
    fields = [request.method, path, headers, request.body.decode()]
    assert not any(mark in field for field in fields for mark in (_FIELD, _LINE))
    return _FIELD.join(fields) + _LINE
