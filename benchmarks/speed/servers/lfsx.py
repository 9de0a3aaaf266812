"""LFSX: https://crates.io/crates/lfsx-server, on local files, with authentication switched off."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.speed.servers.cargo import CargoServer


class Lfsx(CargoServer):
    """It syncs what it takes. It asks a forge who may do what; there is none here, so it takes whoever comes."""

    name = "lfsx"
    crate = "lfsx-server"
    base = "demo/assets"

    def told(self, address: str, objects: Path) -> tuple[Sequence[str | Path], Mapping[str, str]]:
        """Return what lets it listen and keep objects."""
        return [], {
            "LFSX_BIND": address,
            "LFSX_STORAGE_ROOT": str(objects),
            "LFSX_PUBLIC_URL": f"http://{address}",
            "LFSX_AUTH": "disabled",
            "RUST_LOG": "warn",
        }
