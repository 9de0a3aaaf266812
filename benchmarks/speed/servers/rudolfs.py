"""rudolfs: https://github.com/jasonwhite/rudolfs, on local files, open to all, without encryption."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import programs
from benchmarks.speed.client import Site
from benchmarks.speed.servers.cargo import CargoServer
from tests.support.ports import free_ports


class Rudolfs(CargoServer):
    """It takes whoever comes, has no locks, and syncs nothing."""

    name = "rudolfs"
    crate = "rudolfs"

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Run it."""
        data.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        address = f"127.0.0.1:{port}"
        origin = f"http://{address}"
        # As its neighbours: one line per request is not what it is to be slowed down by.
        command: list[str | Path] = [self.program, "--host", address, "--log-level", "warn"]
        with programs.server([*command, "local", "--path", data / "objects"], origin, data, {}) as pid:
            yield Site(origin, f"{origin}/api/demo/assets", pid)
