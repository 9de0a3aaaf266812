"""The unprivileged account of a command that is started as root, and programs that run as it."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from services.cli.errors import CommandError
from services.common.observability.logs import get_logger

DEFAULT_NAME = "towpath"

_BECOME = str(Path(__file__).with_name("become.py"))
_MAKE_SECONDS = 60
_HELP = "give --user (TOWPATH_USER) an account that is not root, or run as an ordinary user"

_log = get_logger(__name__)


@dataclass(frozen=True)
class Account:
    """An account of this host other than root's."""

    name: str
    uid: int
    gid: int
    home: str

    @classmethod
    def of(cls, entry: pwd.struct_passwd) -> Self:
        """Return the account of an entry of the user database."""
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)

    @property
    def groups(self) -> list[int]:
        """All groups of the account, such as a group that may read a private key."""
        return os.getgrouplist(self.name, self.gid)

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs a command, given by its absolute path, as this account.

        Only root can start the command line.
        """
        groups = ",".join(map(str, self.groups))
        return [sys.executable, "-I", "-S", _BECOME, str(self.uid), str(self.gid), groups, *command]

    def can(self, *tests: str) -> bool:
        """Return whether all tests are true for this account, such as `-r /a/file` or `-x /a/folder`; see test(1).

        A process of the account runs the tests, because file modes alone do not decide (access lists, parents).
        """
        script = 'while [ $# -gt 0 ]; do [ "$1" "$2" ] || exit 1; shift 2; done'
        arguments = [part for test in tests for part in test.split(" ", 1)]
        asked = subprocess.run(  # noqa: S603 - test(1) alone reads the arguments
            self.command("/bin/sh", "-c", script, "sh", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            check=False,
        )
        return asked.returncode == 0


@dataclass(frozen=True)
class RunAs:
    """An account (None for this process's own), and the descriptors to inherit beside the standard streams."""

    account: Account | None = None
    inherited: tuple[int, ...] = ()

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command, given by its absolute path, as the account."""
        return list(command) if self.account is None else self.account.command(*command)


OURSELVES = RunAs()


def account_for(data: Path, given: str | None) -> Account | None:
    """Return the account to run as if this process is root's; None if it is an ordinary user's already.

    The account is the one `given` by name, else the owner of the data folder, else the system account `towpath`; the
    system account is created if it is missing. Raises `CommandError` if there is no usable account.
    """
    if os.geteuid() != 0:
        _refuse_another(given)
        return None
    if given is not None:
        return _named(given)
    owner = data.stat().st_uid if data.is_dir() else 0
    if owner != 0:
        return _owner(data, owner)
    return _known(DEFAULT_NAME) or _made(DEFAULT_NAME)


def _refuse_another(given: str | None) -> None:
    if given is not None and ((known := _known(given)) is None or known.uid != os.geteuid()):
        raise CommandError(f"--user {given}: only root can run Towpath as another user")


def _named(name: str) -> Account:
    account = _known(name)
    if account is None:
        raise CommandError(f"--user {name}: there is no account of this name")
    if account.uid == 0:
        raise CommandError(f"--user {name}: expected an account that is not root's")
    return account


def _known(name: str) -> Account | None:
    try:
        return Account.of(pwd.getpwnam(name))
    except KeyError:
        return None


def _owner(data: Path, uid: int) -> Account:
    try:
        return Account.of(pwd.getpwuid(uid))
    except KeyError:
        raise CommandError(f"{data}: its owner, user id {uid}, has no account on this host; {_HELP}") from None


def _made(name: str) -> Account:
    error = ""
    for commands in _ways(name):
        if shutil.which(commands[0][0]) is None:
            continue
        error = _failure(commands)
        # Look it up even after an error: another `towpath up` may have created it at the same moment.
        if (account := _known(name)) is not None:
            _log.info(f"the system account {name} was made; Towpath runs as it", uid=account.uid)
            return account
    raise CommandError(f"no account {name} can be made on this host{error and f' ({error})'}; {_HELP}")


def _ways(name: str) -> Sequence[Sequence[Sequence[str]]]:
    home, shell = "/nonexistent", "/usr/sbin/nologin"
    return (
        [["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", home, "--shell", shell, name]],
        # BusyBox has no useradd.
        [["addgroup", "-S", name], ["adduser", "-S", "-D", "-H", "-h", home, "-s", shell, "-G", name, name]],
    )


def _failure(commands: Sequence[Sequence[str]]) -> str:
    """Run all commands; return the last error line of the last one that failed, or "" if all succeed."""
    complaint = ""
    for command in commands:
        done = subprocess.run(  # noqa: S603 - the commands and the name are constants
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_MAKE_SECONDS, check=False
        )
        if done.returncode != 0:
            complaint = (done.stderr.strip() or f"{command[0]}: exit status {done.returncode}").splitlines()[-1]
    return complaint
