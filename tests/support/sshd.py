"""A real sshd on loopback.

It has keys of its own and tells git's hooks who pushes, as docs/push-hooks.md says, or it asks Towpath for keys, as
docs/identity.md says.
"""

import getpass
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.common import ssh_client
from tests.support.ports import free_ports
from tests.support.programs import needed
from tests.support.waiting import STEP_SECONDS, blocking_until

_PRIVILEGE_SEPARATION = Path("/run/sshd")
_CONFIGURATION = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthenticationMethods publickey
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
MaxStartups 100
"""


@dataclass(frozen=True)
class Sshd:
    """The server's port, and the folder with the keys of its users."""

    port: int
    folder: Path

    def url(self, repository: Path) -> str:
        """Return the address of a git repository of this host."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{repository}"

    def command(self, user: str) -> str:
        """Return what git runs to connect as a user."""
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes", "LogLevel=ERROR")
        return " ".join(["ssh", "-F", "none", "-i", str(self.folder / user), *(f"-o {option}" for option in options)])


def make_key(path: Path) -> str:
    """Make a key pair, and return the public one."""
    command = [needed("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True, timeout=STEP_SECONDS)
    return path.with_suffix(".pub").read_text().strip()


@contextmanager
def running_sshd(users: Iterable[str]) -> Iterator[Sshd]:
    """Run the server for users who share the account of the tests, each with a key; skip the test without sshd."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "authorized_keys").write_text("".join(_line(user, make_key(folder / user)) for user in users))
        with _running(folder, f"AuthorizedKeysFile {folder}/authorized_keys") as running:
            yield running


@contextmanager
def running_key_sshd(users: Iterable[str], socket: Path) -> Iterator[Sshd]:
    """Run the server, which asks the SSH service at `socket` for keys; make one for each user, which nobody knows."""
    # OpenSSH runs no program that another account than root could change; it looks at the first one alone.
    command = f"/usr/bin/env {sys.executable} -I -S {ssh_client.__file__} keys --socket {socket} %u %f"
    settings = f"""
AuthorizedKeysFile none
AuthorizedKeysCommand {command}
AuthorizedKeysCommandUser {getpass.getuser()}
"""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for user in users:
            make_key(folder / user)
        with _running(folder, settings) as running:
            yield running


@contextmanager
def _running(folder: Path, settings: str) -> Iterator[Sshd]:
    program = needed("sshd")
    if os.geteuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    [port] = free_ports(1)
    make_key(folder / "host")
    (folder / "config").write_text(_CONFIGURATION.format(port=port, folder=folder) + settings)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "config")], stderr=log)
    try:
        said = f"port {port}."
        blocking_until(lambda: said in (folder / "log").read_text() or process.poll() is not None, "sshd listens")
        assert process.poll() is None, (folder / "log").read_text()
        yield Sshd(port, folder)
    finally:
        process.terminate()
        process.wait(STEP_SECONDS)


def _line(user: str, key: str) -> str:
    shell = rf"TOWPATH_PUSHER={user} exec git shell -c \"$SSH_ORIGINAL_COMMAND\""
    return f'restrict,command="{shell}" {key}\n'
