"""lfs-test-server: https://github.com/git-lfs/lfs-test-server, with a user and a password."""

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
from tests.support.lfs_test_server import environment
from tests.support.ports import free_ports

_INSTALL = Path(__file__).parents[3] / "tests/support/install-lfs-test-server.sh"
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
            self._build()
            told = programs.output_of(go, "version", "-m", self._program)
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing("it could not be built with Go") from error
        [version] = [line.split()[2] for line in told.splitlines() if line.split()[:1] == ["mod"]]
        return f"{version}, {told.splitlines()[0].split()[-1]}"

    def _build(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(  # noqa: S603 - our own command
            ["sh", _INSTALL, self._folder],  # noqa: S607 - whichever shell is first on PATH
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
        origin = f"http://{address}"
        with programs.server([self._program], origin, data, environment(address, data, _USER, password)) as pid:
            yield Site(
                origin,
                f"{origin}/demo/assets",
                pid,
                headers={"Authorization": basic(_USER, password)},
                login=(_USER, password),
            )
