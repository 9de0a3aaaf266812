"""Irrevocable change from root to the account: the command is started again as an ordinary user's.

Before the change, root opens the listening socket and gives the folders to the account, because only root can do so.
The new process reads from the variable `TOWPATH_ENTERED` the descriptors that it inherits, and otherwise behaves like a
process that an ordinary user has started.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from services.cli.unprivileged.account import Account
from services.cli.unprivileged.become import become
from services.cli.unprivileged.installation import installation_for

_VARIABLE = "TOWPATH_ENTERED"


@dataclass(frozen=True)
class Inherited:
    """The data folder, and the descriptors that root has opened for the account."""

    data: str
    """The data folder's path for root."""
    lock: int | None = None
    """The descriptor that locks the data folder; None if another process has locked it."""
    folder: int | None = None
    """The data folder's descriptor, if the folder lies below a folder that the account may not enter."""
    listener: int | None = None

    @classmethod
    def take(cls) -> "Inherited | None":
        """Return the inheritance of this process, on the first call; None if root has not started it by `enter`."""
        written = os.environ.pop(_VARIABLE, None)
        return None if written is None else cls(**json.loads(written))

    @property
    def reached(self) -> Path:
        """The path by which this process reaches the data folder."""
        return reached_by(Path(self.data), self.folder)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All inherited descriptors."""
        return tuple(descriptor for descriptor in (self.lock, self.folder, self.listener) if descriptor is not None)


def reached_by(path: Path, folder: int | None) -> Path:
    """Return the path by which a process reaches a folder: by its inherited descriptor, if there is one."""
    return path if folder is None else Path(f"/proc/self/fd/{folder}")


def enter(account: Account, inherited: Inherited) -> NoReturn:
    """Start this command again as the account, with no capability and no way to gain any; never return.

    Raises `CommandError` if the account cannot read this installation and no copy of it can be made.
    """
    installation = installation_for(account)
    environment = {
        **_environment(account),
        **installation.environment,
        _VARIABLE: json.dumps(asdict(inherited)),
    }
    for descriptor in (*inherited.descriptors, *installation.inherited):
        os.set_inheritable(descriptor, True)
    become(account.uid, account.gid, account.groups)
    os.execve(installation.python, [installation.python, "-P", "-m", "services.cli", *sys.argv[1:]], environment)  # noqa: S606 - no shell is meant


def _environment(account: Account) -> Mapping[str, str]:
    kept = dict(os.environ)
    for name in ("TMPDIR", "TEMP", "TMP"):
        if name in kept and not (Path(kept[name]).is_dir() and account.can(f"-w {kept[name]}")):
            # Root's own temporary folder is closed to the account; the system's default serves as well.
            del kept[name]
    return {**kept, "HOME": account.home, "USER": account.name, "LOGNAME": account.name}
