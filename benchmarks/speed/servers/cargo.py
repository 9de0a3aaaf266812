"""Servers that are built with Rust's cargo."""

import os
import re
import subprocess
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import programs
from benchmarks.speed.client import Site
from benchmarks.speed.servers.server import Missing, Server
from tests.support.ports import free_ports

_INSTALL_SECONDS = 1800


class CargoServer(Server):
    """A server that is a program of the same name as its crate."""

    crate: str
    base: str
    """The path of its repository."""

    def __init__(self, programs_folder: Path) -> None:
        self._folder = programs_folder / self.name

    @property
    def program(self) -> Path:
        """The program, once it is installed."""
        return self._folder / "bin" / self.crate

    def install(self) -> str:
        """Build the newest release, unless one is there, and return its version. Raises `Missing`."""
        return _install(self.crate, self._folder)

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Run it."""
        data.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        address = f"127.0.0.1:{port}"
        origin = f"http://{address}"
        arguments, environment = self.told(address, data / "objects")
        with programs.server([self.program, *arguments], origin, data, environment) as pid:
            yield Site(origin, f"{origin}/{self.base}", pid)

    @abstractmethod
    def told(self, address: str, objects: Path) -> tuple[Sequence[str | Path], Mapping[str, str]]:
        """Return the arguments and the environment that let it listen at HOST:PORT, and keep objects in a folder."""


def _install(crate: str, folder: Path) -> str:
    cargo = programs.find("cargo")
    if cargo is None:
        raise Missing("there is no Rust to build it with")
    try:
        if not (folder / "bin" / crate).exists():
            subprocess.run(  # noqa: S603 - our own command
                # Not `--locked`: a registry may lack a version that the author had.
                [cargo, "install", "--quiet", "--root", str(folder), crate],
                env={**os.environ, "CARGO_TARGET_DIR": str(folder / "target")},
                capture_output=True,
                text=True,
                timeout=_INSTALL_SECONDS,
                check=True,
            )
        told = programs.output_of(cargo, "install", "--list", "--root", folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"cargo install {crate}: {error}") from error
    [version] = re.findall(rf"^{re.escape(crate)} v(\S+):", told, re.MULTILINE)
    return f"{crate} {version}"
