"""Change of ownership: files that root has made become the account's."""

import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from services.cli.errors import CommandError
from services.cli.unprivileged.account import Account


def give(path: Path, account: Account) -> None:
    """Make the account the owner of a file, or of a folder and everything in it, without following links.

    A path that is the account's already is skipped. The folder itself changes its owner last, so that the next call
    resumes an interrupted change. Raises `CommandError`.
    """
    try:
        found = path.lstat()
        if found.st_uid == account.uid:
            return
        if stat.S_ISDIR(found.st_mode):
            # Directory descriptors: a folder that is replaced by a link meanwhile cannot lead root elsewhere.
            for _, folders, files, descriptor in os.fwalk(path, topdown=False):
                for name in (*folders, *files):
                    _give_entry(path, name, descriptor, account)
        _give_entry(path.parent, path.name, None, account)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"{path}: cannot become {account.name}'s: {reason}") from error


def provide_folder(storage_url: str, account: Account) -> None:
    """Ensure that the account can work in the store's folder that a `file:` URL names; other URLs name no folder.

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
        # Not recursively: the folder may be the root of a file system with unrelated files.
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
        # Its other names may lie in folders that are not the account's, and the change of owner affects them all.
        raise CommandError(f"{top}: {name}: expected a file with one name, found {found.st_nlink} hard links to it")
    os.chown(entry, account.uid, account.gid, dir_fd=descriptor, follow_symlinks=False)
