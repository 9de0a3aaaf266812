"""rudolfs: https://github.com/jasonwhite/rudolfs, on local files, open to all, without encryption."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.speed.servers.cargo import CargoServer


class Rudolfs(CargoServer):
    """It takes whoever comes, has no locks, and syncs nothing."""

    name = "rudolfs"
    crate = "rudolfs"
    base = "api/demo/assets"

    def told(self, address: str, objects: Path) -> tuple[Sequence[str | Path], Mapping[str, str]]:
        """Return what lets it listen and keep objects."""
        # As its neighbours: one line per request is not what it is to be slowed down by.
        return ["--host", address, "--log-level", "warn", "local", "--path", objects], {}
