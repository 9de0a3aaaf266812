"""rudolfs: https://github.com/jasonwhite/rudolfs, on local files, open to all, without encryption."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import programs
from benchmarks.speed.client import Site
from benchmarks.speed.servers import cargo
from benchmarks.speed.servers.server import Server
from tests.support.ports import free_ports


class Rudolfs(Server):
    """It takes whoever comes, has no locks, and syncs nothing."""

    name = "rudolfs"

    def __init__(self, programs_folder: Path) -> None:
        self._folder = programs_folder / "rudolfs"

    def install(self) -> str:
        """Build it with Rust. Raises `Missing`."""
        return cargo.install("rudolfs", self._folder)

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Run it."""
        data.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        address = f"127.0.0.1:{port}"
        origin = f"http://{address}"
        # As its neighbours: one line per request is not what it is to be slowed down by.
        command: list[str | Path] = [self._folder / "bin/rudolfs", "--host", address, "--log-level", "warn"]
        with programs.server([*command, "local", "--path", data / "objects"], origin, data, {}) as pid:
            yield Site(origin, f"{origin}/api/demo/assets", pid)
