"""LFSX: https://crates.io/crates/lfsx-server, on local files, with authentication switched off."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import programs
from benchmarks.speed.client import Site
from benchmarks.speed.servers.cargo import CargoServer
from tests.support.ports import free_ports


class Lfsx(CargoServer):
    """It syncs what it takes. It asks a forge who may do what; there is none here, so it takes whoever comes."""

    name = "lfsx"
    crate = "lfsx-server"

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Run it."""
        data.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        address = f"127.0.0.1:{port}"
        origin = f"http://{address}"
        environment = {
            "LFSX_BIND": address,
            "LFSX_STORAGE_ROOT": str(data / "objects"),
            "LFSX_PUBLIC_URL": origin,
            "LFSX_AUTH": "disabled",
            "RUST_LOG": "warn",
        }
        with programs.server([self.program], origin, data, environment) as pid:
            yield Site(origin, f"{origin}/demo/assets", pid)
