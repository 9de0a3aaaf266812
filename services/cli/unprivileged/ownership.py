"""Files that change hands: what root has made becomes the account's."""

import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from services.cli.errors import CommandError
from services.cli.unprivileged.account import Account


def give(path: Path, account: Account) -> None:
    """Make the account the owner of a file, or of a folder with all in it, unless it is already; links stay unfollowed.

    The folder itself changes hands last, so that an interrupted change is gone on with. Raises `CommandError`.
    """
    try:
        found = path.lstat()
        if found.st_uid == account.uid:
            return
        if stat.S_ISDIR(found.st_mode):
            # Directory descriptors: a folder that is replaced by a link meanwhile leads nowhere else.
            for _, folders, files, descriptor in os.fwalk(path, topdown=False):
                for name in (*folders, *files):
                    _give_entry(path, name, descriptor, account)
        _give_entry(path.parent, path.name, None, account)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"{path}: cannot become {account.name}'s: {reason}") from error


def provide_folder(storage_url: str, account: Account) -> None:
    """Make sure that the account can work on the folder of objects that a `file:` URL names; others name none.

    Raises `CommandError`.
    """
    parts = urlsplit(storage_url)
    if parts.scheme != "file" or parts.path.startswith("/proc/self/fd/"):
        return
    folder = Path(unquote(parts.path))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for entry in (folder / "objects", folder / "incoming"):
            if entry.exists():
                give(entry, account)
        # The folder alone: it may be a file system with other things in it.
        if folder.stat().st_uid == 0:
            os.chown(folder, account.uid, account.gid)
    except OSError as error:
        raise CommandError(f"{folder}: {(error.strerror or str(error)).lower()}") from error
    if not account.can(f"-x {folder}", f"-w {folder}"):
        raise CommandError(f"{folder}: expected a folder that the account {account.name} can enter and write to")


def _give_entry(top: Path, name: str, descriptor: int | None, account: Account) -> None:
    entry = name if descriptor is not None else str(top / name)
    found = os.stat(entry, dir_fd=descriptor, follow_symlinks=False)
    if found.st_uid == account.uid:
        return
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        # Its other names may lie where the account has no business.
        raise CommandError(f"{top}: {name}: expected a file with one name, found {found.st_nlink} hard links to it")
    os.chown(entry, account.uid, account.gid, dir_fd=descriptor, follow_symlinks=False)
