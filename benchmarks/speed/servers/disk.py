"""No server at all: what the disk itself takes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import programs
from benchmarks.speed.blobs import Blob
from benchmarks.speed.client import Site
from benchmarks.speed.servers.server import Missing, Server

_SECONDS = 600


class Disk(Server):
    """Files that dd writes and fsyncs; nothing runs."""

    name = "disk"

    def install(self) -> str:
        """Find dd. Raises `Missing`."""
        if programs.find("dd") is None:
            raise Missing("dd is not installed")
        return programs.output_of("dd", "--version").splitlines()[0]

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Make the folder."""
        data.mkdir(parents=True, exist_ok=True)
        yield Site(origin="", base_url="", pid=0)

    def put(self, site: Site, data: Path, objects: Sequence[Blob]) -> float:
        """Copy and fsync them, all at once."""
        commands = [
            ["dd", f"if={blob.path}", f"of={data / blob.oid}", "bs=1M", "conv=fsync", "status=none"] for blob in objects
        ]
        _, seconds = programs.run_all(commands, seconds=_SECONDS)
        return sum(blob.size for blob in objects) / seconds / 1e6
