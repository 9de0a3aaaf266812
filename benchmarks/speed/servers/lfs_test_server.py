"""lfs-test-server: https://github.com/git-lfs/lfs-test-server, with a user and a password."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import programs
from benchmarks.speed.client import Site
from benchmarks.speed.servers.server import Missing, Server
from tests.support.http import basic
from tests.support.ports import free_ports

_MODULE, _RELEASE = "github.com/git-lfs/lfs-test-server", "v0.4.0"
# It is older than Go's modules and says nothing of what it needs. Go finds that, but an old one of these, with which
# the program ends as it starts.
_GO_MOD = f"""module benchmark

require (
\t{_MODULE} {_RELEASE}
\tgithub.com/daaku/go.zipexe v1.0.2
)
"""
_INSTALL_SECONDS = 600
_USER = "alice"


class LfsTestServer(Server):
    """It asks for credentials, as Towpath does."""

    name = "lfs-test-server"

    def __init__(self, programs_folder: Path) -> None:
        self._folder = programs_folder / "lfs-test-server"

    @property
    def _program(self) -> Path:
        return self._folder / "lfs-test-server"

    def install(self) -> str:
        """Build its newest release with Go. Raises `Missing`."""
        go = programs.find("go")
        if go is None:
            raise Missing("there is no Go to build it with")
        try:
            if not self._program.exists():
                self._build(go)
            told = programs.output_of(go, "version", "-m", self._program)
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"`go install {_MODULE}` failed, at {_RELEASE}") from error
        [version] = [line.split()[2] for line in told.splitlines() if line.split()[:1] == ["mod"]]
        return f"{version}, {told.splitlines()[0].split()[-1]}"

    def _build(self, go: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "go.mod").write_text(_GO_MOD)
        subprocess.run(  # noqa: S603 - our own command
            [go, "install", "-mod=mod", _MODULE],
            cwd=self._folder,
            env={**os.environ, "GOBIN": str(self._folder)},
            # What it tells of a failure is for who runs this, not for the page.
            stdout=sys.stderr,
            timeout=_INSTALL_SECONDS,
            check=True,
        )

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Run it."""
        data.mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        address, password = f"127.0.0.1:{port}", secrets.token_urlsafe(20)
        environment = {
            "LFS_LISTEN": f"tcp://{address}",
            "LFS_HOST": address,
            "LFS_METADB": str(data / "lfs.db"),
            "LFS_CONTENTPATH": str(data / "objects"),
            "LFS_ADMINUSER": _USER,
            "LFS_ADMINPASS": password,
        }
        origin = f"http://{address}"
        with programs.server([self._program], origin, data, environment) as pid:
            yield Site(
                origin,
                f"{origin}/demo/assets",
                pid,
                headers={"Authorization": basic(_USER, password)},
                login=(_USER, password),
            )
