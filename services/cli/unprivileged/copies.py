"""Copies of files for an account that may not read the originals.

FOLDER/ACCOUNT-KIND-PLACE-CONTENT/   KIND is `python` or `source`; PLACE and CONTENT are digests
    in-use                           each process that runs from the copy has a shared lock on it

FOLDER is /var/cache/towpath, or towpath-cache in the temporary folder. Only root and the account may enter a copy. When
the content has changed, a new copy is made, and the earlier copy is removed unless a process still runs from it.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from services.cli.errors import CommandError
from services.cli.unprivileged.account import Account
from services.common.observability.logs import get_logger

_CACHE = Path("/var/cache/towpath")
_UNFINISHED_SECONDS = 3600.0

_log = get_logger(__name__)


def digest(*lines: str) -> str:
    """Return a digest of the lines, for use in a file name."""
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()[:16]


def copy_tree(source: Path, to: Path, *, leave_out: Iterable[str] = ()) -> None:
    """Copy a folder into another one; files that the other one already has stay."""
    shutil.copytree(
        source,
        to,
        symlinks=True,
        ignore=shutil.ignore_patterns(*leave_out),
        copy_function=link_or_copy,
        dirs_exist_ok=True,
    )


def link_or_copy(source: str, to: str) -> None:
    """Hard-link a file, to save space, if it is root's and everybody may read it; else make a readable copy.

    A file that exists under the new name stays.
    """
    if os.path.lexists(to):
        return
    found = os.stat(source)  # noqa: PTH116 - copytree gives and takes strings
    if found.st_mode & stat.S_IROTH and found.st_uid == 0:
        with contextlib.suppress(OSError):
            os.link(source, to, follow_symlinks=True)
            return
    shutil.copyfile(source, to)
    os.utime(to, ns=(found.st_atime_ns, found.st_mtime_ns))
    Path(to).chmod(0o755 if found.st_mode & stat.S_IXUSR else 0o644)


def copied(
    account: Account, kind: str, place: str, content: str, make: Callable[[Path, Path], None]
) -> tuple[Path, int]:
    """Return the copy of this content, made if it is missing, and a descriptor that protects it from removal.

    `make` fills its first argument, a folder; its second argument is the folder's final name. Raises `CommandError`.
    """
    cache = _cache(account)
    copy = cache / f"{account.name}-{kind}-{place}-{content}"
    try:
        if not copy.exists():
            _log.info(f"the account {account.name} cannot read this installation; it gets a copy", copy=str(copy))
            _make(copy, account, make)
        held = _hold(copy)
        _clear(cache, f"{account.name}-{kind}-{place}-", copy)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"{copy}: no copy of this installation can be made: {reason}") from error
    return copy, held


def _make(copy: Path, account: Account, make: Callable[[Path, Path], None]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f".{copy.name}-", dir=copy.parent))
    try:
        make(unfinished, copy)
        # The umask, or the modes of the source's folders, may have closed them to the account.
        for folder, _, _ in os.walk(unfinished):
            Path(folder).chmod(0o755)
        (unfinished / "in-use").touch(mode=0o600)
        os.chown(unfinished, 0, account.gid)
        unfinished.chmod(0o750)
        unfinished.rename(copy)
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        # Another process may have made the same copy meanwhile.
        if not (isinstance(error, OSError) and copy.exists()):
            raise


def _hold(copy: Path) -> int:
    descriptor = os.open(copy / "in-use", os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _clear(cache: Path, prefix: str, copy: Path) -> None:
    """Remove earlier copies of the same place that no process runs from, and unfinished copies older than an hour."""
    for other in cache.glob(f"{prefix}*"):
        if other != copy:
            _remove_unused(other)
    for unfinished in cache.glob(f".{prefix}*"):
        if time.time() - unfinished.stat().st_mtime > _UNFINISHED_SECONDS:
            shutil.rmtree(unfinished, ignore_errors=True)


def _remove_unused(copy: Path) -> None:
    try:
        descriptor = os.open(copy / "in-use", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(copy, ignore_errors=True)
    finally:
        os.close(descriptor)


def _cache(account: Account) -> Path:
    """Return the folder of all copies, writable by root only: /var/cache/towpath, or a folder below TMPDIR.

    Raises `CommandError` if the account can enter neither.
    """
    for folder in (_CACHE, Path(tempfile.gettempdir()).resolve() / "towpath-cache"):
        try:
            folder.mkdir(mode=0o755, exist_ok=True)
        except OSError:
            continue
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == 0:
            folder.chmod(0o755)
            if account.can(f"-x {folder}"):
                return folder
    raise CommandError(
        f"the account {account.name} cannot read this installation, and neither {_CACHE} nor {tempfile.gettempdir()} "
        "can hold a copy of it; install Towpath where that account may read it"
    )
