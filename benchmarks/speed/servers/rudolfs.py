"""rudolfs: https://github.com/jasonwhite/rudolfs, on local files, open to all, without encryption."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import programs
from benchmarks.speed.client import Site
from benchmarks.speed.servers.server import Missing, Server
from tests.support.ports import free_ports

_INSTALL_SECONDS = 1800


class Rudolfs(Server):
    """It takes whoever comes, has no locks, and syncs nothing."""

    name = "rudolfs"

    def __init__(self, programs_folder: Path) -> None:
        self._folder = programs_folder / "rudolfs"

    @property
    def _program(self) -> Path:
        return self._folder / "bin" / "rudolfs"

    def install(self) -> str:
        """Build it with Rust. Raises `Missing`."""
        cargo = programs.find("cargo")
        if cargo is None:
            raise Missing("there is no Rust to build it with")
        try:
            if not self._program.exists():
                subprocess.run(  # noqa: S603 - our own command
                    [cargo, "install", "--quiet", "--locked", "--root", str(self._folder), "rudolfs"],
                    env={**os.environ, "CARGO_TARGET_DIR": str(self._folder / "target")},
                    capture_output=True,
                    text=True,
                    timeout=_INSTALL_SECONDS,
                    check=True,
                )
            told = programs.output_of(self._program, "--version")
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"cargo install rudolfs: {error}") from error
        return told

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Run it."""
        data.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        address = f"127.0.0.1:{port}"
        origin = f"http://{address}"
        # As its neighbours: one line per request is not what it is to be slowed down by.
        command: list[str | Path] = [self._program, "--host", address, "--log-level", "warn"]
        with programs.server([*command, "local", "--path", data / "objects"], origin, data, {}) as pid:
            yield Site(origin, f"{origin}/api/demo/assets", pid)
