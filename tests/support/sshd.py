"""A real sshd on loopback with keys of its own, which tells git's hooks who pushes as docs/push-hooks.md says."""

import getpass
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_ports
from tests.support.programs import needed
from tests.support.waiting import STEP_SECONDS, blocking_until

_PRIVILEGE_SEPARATION = Path("/run/sshd")
_CONFIGURATION = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
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


def _make_key(path: Path) -> str:
    """Make a key pair, and return the public one."""
    command = [needed("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True, timeout=STEP_SECONDS)
    return path.with_suffix(".pub").read_text().strip()


@contextmanager
def running_sshd(users: Iterable[str]) -> Iterator[Sshd]:
    """Run the server for users who share the account of the tests, each with a key; skip the test without sshd."""
    program = needed("sshd")
    if os.geteuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make_key(folder / "host")
        (folder / "authorized_keys").write_text("".join(_line(user, _make_key(folder / user)) for user in users))
        (folder / "config").write_text(_CONFIGURATION.format(port=port, folder=folder))
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
