"""Big transfers, by curl, a process for each stream."""

from collections.abc import Sequence

from benchmarks.speed.blobs import Blob
from benchmarks.speed.client import Request
from benchmarks.speed.programs import run_all

_DEADLINE_SECONDS = 600
_COMMAND = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", str(_DEADLINE_SECONDS)]


def get(requests: Sequence[Request], blobs: Sequence[Blob], *, times: int = 1) -> float:
    """Get all objects at once, each so many times in a row; return the bytes that came in a second, in MB."""
    commands = []
    for request in requests:
        one = [*_headers(request), "--output", "/dev/null", "--write-out", "%{size_download}\n", request.url]
        # Options end with --next.
        each = [
            argument for number in range(times) for argument in [*(["--next"] if number else []), *_COMMAND[1:], *one]
        ]
        commands.append(["curl", *each])
    outputs, seconds = run_all(commands, seconds=_DEADLINE_SECONDS)
    sizes = [[int(line) for line in output.split()] for output in outputs]
    assert sizes == [[blob.size] * times for blob in blobs], f"expected {[blob.size for blob in blobs]}, got {sizes}"
    return sum(map(sum, sizes)) / seconds / 1e6


def put(requests: Sequence[Request], blobs: Sequence[Blob]) -> float:
    """Upload all objects at once; return the bytes that went in a second, in MB."""
    commands = [
        # Without waiting for the server to say that it wants the body: not all do.
        [*_COMMAND, *_headers(request), "--header", "Expect:", "--upload-file", str(blob.path), request.url]
        for request, blob in zip(requests, blobs, strict=True)
    ]
    _, seconds = run_all(commands, seconds=_DEADLINE_SECONDS)
    return sum(blob.size for blob in blobs) / seconds / 1e6


def _headers(request: Request) -> list[str]:
    return [argument for name, value in request.headers.items() for argument in ("--header", f"{name}: {value}")]
