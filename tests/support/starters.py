"""Starters of Towpath and their surroundings: root or an ordinary user, with their own umask and variables."""

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.commands import finished

_ATTEMPTS = 10
_RETRY_SECONDS = 1.0
# What the tests' own Python was told is not for another.
_NOT_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
_MOUNTS = 'for folder; do [ "$folder" = -- ] && break; mount --bind "$folder" "$folder" && '
_MOUNTS += 'mount -o remount,bind,ro "$folder" || exit 1; shift; done; shift; exec "$@"'


@dataclass(frozen=True)
class Starter:
    """A user who starts Towpath."""

    name: str
    uid: int
    gid: int

    @property
    def is_root(self) -> bool:
        """Tell whether it is root."""
        return self.uid == 0

    def command(
        self,
        *command: str,
        folder: Path,
        umask: int = 0o022,
        without: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        read_only: Sequence[Path] = (),
    ) -> tuple[str, ...]:
        """Return what runs a command as this user in `folder`, in one process that becomes the command's.

        `without` names variables that are not passed on. The folders `read_only` are mounted so for the command.
        """
        unset = [f"--unset={name}" for name in (*_NOT_PASSED_ON, *without)]
        named = [f"{name}={value}" for name, value in (environment or {}).items()]
        entered = ["sh", "-c", 'cd "$0" && umask "$1" && shift && exec "$@"', str(folder), f"{umask:04o}"]
        return (*_mounting(read_only), *entered, *self._become(), "env", *unset, *named, *command)

    def _become(self) -> list[str]:
        if self.uid == os.geteuid():
            return []
        # Found before: the command's own PATH may be without it.
        setpriv = shutil.which("setpriv") or "setpriv"
        return [setpriv, f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]

    def own(self, *paths: Path) -> None:
        """Give files or folders, without what is in them, to this user."""
        if os.geteuid() == 0:
            for path in paths:
                os.lchown(path, self.uid, self.gid)


def _mounting(folders: Sequence[Path]) -> list[str]:
    return ["unshare", "--mount", "sh", "-c", _MOUNTS, "sh", *map(str, folders), "--"] if folders else []


def can_mount(folder: Path) -> bool:
    """Tell whether this process may mount a folder read-only for a command."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_mounting([folder]), "true"], capture_output=True, timeout=60, check=False).returncode == 0


def ourselves() -> Starter:
    """Return the user whom the tests run as."""
    entry = pwd.getpwuid(os.geteuid())
    return Starter(entry.pw_name, entry.pw_uid, entry.pw_gid)


@contextmanager
def ordinary_user() -> Iterator[Starter]:
    """An ordinary user: the one whom the tests run as, or one that root makes and removes in the end."""
    if os.geteuid() != 0:
        yield ourselves()
        return
    # Other processes of tests have their own.
    name = f"towpath-test-{os.getpid()}"
    _change("useradd", "--system", "--user-group", "--no-create-home", "--shell", "/bin/sh", name)
    try:
        entry = pwd.getpwnam(name)
        yield Starter(name, entry.pw_uid, entry.pw_gid)
    finally:
        _change("userdel", name)


def _change(*command: str) -> None:
    """Change the users of this host; another process may just be doing the same."""
    for attempt in range(_ATTEMPTS):
        done = finished(command, seconds=120)
        if done.returncode == 0:
            return
        time.sleep(_RETRY_SECONDS * (attempt + 1 < _ATTEMPTS))
    raise AssertionError(f"{command}: {done.stderr}")
