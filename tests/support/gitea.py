"""A real Gitea on a loopback port, where one is on the path."""

import os
import pwd
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.ports import free_ports
from tests.support.programs import needed
from tests.support.waiting import START_SECONDS, STEP_SECONDS, blocking_until

_SETTINGS = """\
APP_NAME = forge
RUN_USER = {user}
WORK_PATH = {data}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true

[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = true

[lfs]
PATH = {data}/lfs

[repository]
ROOT = {data}/repositories

[database]
DB_TYPE = sqlite3
PATH = {data}/gitea.db

[security]
INSTALL_LOCK = true
PASSWORD_COMPLEXITY = off
SECRET_KEY = {secret}

[log]
MODE = console
LEVEL = Warn
"""


class Gitea:
    """One that runs: its address, its folder, and the passwords of its users."""

    def __init__(self, program: str, data: Path) -> None:
        [port] = free_ports(1)
        self.origin = f"http://127.0.0.1:{port}"
        self.data = data
        self.passwords: dict[str, str] = {}
        self._settings = data / "app.ini"
        user = pwd.getpwuid(os.geteuid()).pw_name
        secret = secrets.token_urlsafe(32)
        data.mkdir(parents=True)
        self._settings.write_text(_SETTINGS.format(user=user, data=data, port=port, secret=secret))
        self._program = program
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(data), "USER": user}

    def command(self, *arguments: str) -> list[str]:
        """Return a command line of it."""
        return [self._program, *arguments, "--config", str(self._settings)]

    def run(self, *arguments: str) -> None:
        """Run one of its commands."""
        done = subprocess.run(
            self.command(*arguments),
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

    def add_user(self, name: str) -> None:
        """Add a user."""
        self.passwords[name] = secrets.token_urlsafe(16)
        options = (f"--username={name}", f"--password={self.passwords[name]}", f"--email={name}@forge.test")
        self.run("admin", "user", "create", *options, "--must-change-password=false")

    def ask(self, user: str, method: str, path: str, **body: object) -> None:
        """Make a call of its interface as a user."""
        answer = httpx.request(
            method,
            f"{self.origin}/api/v1/{path}",
            json=body,
            auth=(user, self.passwords[user]),
            trust_env=False,
            timeout=STEP_SECONDS,
        )
        assert answer.is_success, answer.text

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run it from when it answers."""
        log = self.data / "server.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command("web"),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            blocking_until(lambda: self._answers(process, log), "Gitea answers", seconds=START_SECONDS)
            yield
        finally:
            process.terminate()
            process.wait(STEP_SECONDS)

    def _answers(self, process: subprocess.Popen[bytes], log: Path) -> bool:
        assert process.poll() is None, f"it ended; its log:\n{log.read_text(errors='replace')[-5000:]}"
        try:
            version = f"{self.origin}/api/v1/version"
            return httpx.get(version, trust_env=False, timeout=STEP_SECONDS).status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running_gitea(data: Path) -> Iterator[Gitea]:
    """Run one that keeps what it has in a new folder; skip the test where it is not here."""
    gitea = Gitea(needed("gitea"), data)
    gitea.run("migrate")
    with gitea.running():
        yield gitea
