"""The change from root to the account, which is for good: the command is started again as an ordinary user's.

What only root can do is done before: the listening socket is open, and the folders belong to the account. The new
process finds in the variable `TOWPATH_ENTERED` what it has inherited, and is in all else like one that an ordinary user
has started.
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
    """What root has opened for the account."""

    data: str
    """The data folder, as root knows it."""
    lock: int | None = None
    """The descriptor that has the data folder locked; None where another process has."""
    folder: int | None = None
    """The data folder's descriptor, where it lies below a folder that the account may not enter."""
    listener: int | None = None

    @classmethod
    def take(cls) -> "Inherited | None":
        """Return what this process has inherited as the account, for the first who asks; None where it is no such."""
        written = os.environ.pop(_VARIABLE, None)
        return None if written is None else cls(**json.loads(written))

    @property
    def reached(self) -> Path:
        """The data folder, as this process gets there."""
        return reached_by(Path(self.data), self.folder)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All descriptors that it names."""
        return tuple(one for one in (self.lock, self.folder, self.listener) if one is not None)


def reached_by(path: Path, folder: int | None) -> Path:
    """Return the path by which a process gets to a folder, of which it may have inherited a descriptor."""
    return path if folder is None else Path(f"/proc/self/fd/{folder}")


def enter(account: Account, inherited: Inherited) -> NoReturn:
    """Start this command again as the account, with no capability and no way to get one; it does not return.

    Raises `CommandError` where the account cannot read this installation and gets no copy of it.
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
            # Root's own; the system's serves as well.
            del kept[name]
    return {**kept, "HOME": account.home, "USER": account.name, "LOGNAME": account.name}
