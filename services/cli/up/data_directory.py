"""Data folder of `towpath up`: its layout, its owner, and the lock that admits one `towpath` at a time.

DIR/postgres/       the cluster, unless --database-url is given
DIR/storage/        the blobs, unless --storage is given
DIR/storage-url     the URL of the store that --storage named
DIR/run/            the sockets, or a link to their folder: see runtime_directory
DIR/memory          a link to the memory that the services share
DIR/admin-token     the administrator's token, for the administration commands
DIR/cache/          the objects that --upstream keeps
DIR/signing-key     the key with which the facade signs action tokens
DIR/demo.json       the base URL and the tokens of --demo
DIR/restoring       present until a restore into the empty folder has ended
DIR/lock            locked by the `towpath` that works on the folder, with its process id

The folder and everything of Towpath's in it belong to the user that the processes run as. If that user may not enter a
folder above it, such as /root, the folder is reached through a descriptor that root has opened; `reached` is its path.
"""

import fcntl
import os
import secrets
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from services.cli.errors import CommandError
from services.cli.unprivileged.account import Account, RunAs
from services.cli.unprivileged.entry import Inherited, reached_by
from services.cli.unprivileged.ownership import give
from services.cli.up.runtime_directory import make_memory_directory, make_runtime_directory, remove_memory_directory
from services.common.files import write_secret

_LOCK = "lock"
_STORAGE = "storage"
_STORAGE_URL = "storage-url"
_RESTORING = "restoring"
_ENTRIES = (
    "postgres",
    "postgres.new",
    _STORAGE,
    _STORAGE_URL,
    "run",
    "memory",
    "admin-token",
    "signing-key",
    "cache",
    "demo.json",
    _RESTORING,
    _LOCK,
)
# A new file system contains it.
_NOT_COUNTED = "lost+found"


class FolderTaken(CommandError):
    """Another `towpath` works on the data folder."""


class DataDirectory:
    """A data folder that this process has locked, from `open` to `close`.

    If there is an account, this process is root's, and the folder belongs to the account.
    """

    def __init__(self, path: Path, lock: int, folder: int | None, account: Account | None = None) -> None:
        self.path = path
        self.account = account
        self._lock = lock
        self._folder = folder
        self._has_memory = False
        self.reached = reached_by(path, folder)
        self.postgres = self.reached / "postgres"
        self.storage = self.reached / _STORAGE
        self.cache = self.reached / "cache"
        self.admin_token = self.reached / "admin-token"
        self.signing_key = self.reached / "signing-key"
        self.demo = self.reached / "demo.json"

    @classmethod
    def open(cls, path: Path, account: Account | None = None) -> Self:
        """Make the folder if it is missing, lock it, and close it to other users (mode 0700).

        Root opens the folder for an account: the folder and everything of Towpath's in it then belong to the account.
        Raises `FolderTaken` if another `towpath` has locked the folder, and `CommandError` if the folder cannot be
        written, or is neither empty nor a data folder.
        """
        path = path.resolve()
        try:
            with ExitStack() as undo:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = _take(path)
                undo.callback(os.close, lock)
                _close_to_others(path)
                folder = None
                if account is not None:
                    _give(path, account)
                    folder = reach(path, account)
                directory = cls(path, lock, folder, account)
                directory.storage.mkdir(mode=0o700, exist_ok=True)
                if account is not None:
                    give(directory.storage, account)
                undo.pop_all()
                return directory
        except OSError as error:
            raise CommandError(f"{path}: {(error.strerror or str(error)).lower()}") from error

    @classmethod
    def inherited(cls, inherited: Inherited) -> Self:
        """Return the folder that root has opened and locked for this process."""
        if inherited.lock is None:
            raise ValueError("expected a data folder that is taken")
        return cls(Path(inherited.data), inherited.lock, inherited.folder)

    def bequest(self, *, listener: int | None = None) -> Inherited:
        """Return the inheritance of a process of the account, with a listening socket if it needs one."""
        return Inherited(str(self.path), self._lock, self._folder, listener)

    @property
    def run_as(self) -> RunAs:
        """The account and the descriptors of the programs that work on the folder."""
        return RunAs(self.account, () if self._folder is None else (self._folder,))

    def make_run(self) -> Path:
        """Return the folder of the sockets, made if it is missing; see `make_runtime_directory`."""
        return make_runtime_directory(self.path, self.reached, self.account)

    def make_memory(self) -> Path | None:
        """Return an empty folder in memory that `close` removes; see `make_memory_directory`."""
        self._has_memory = True
        return make_memory_directory(self.reached)

    def take_storage(self) -> None:
        """Make root the owner of the storage folder until `give`; do nothing if there is no account."""
        if self.account is not None:
            os.chown(self.storage, os.geteuid(), os.getegid())

    def give(self) -> None:
        """Make the account the owner of what root has written in the folder; do nothing if there is no account."""
        if self.account is not None:
            _give(self.path, self.account)

    def close(self) -> None:
        """Remove the folder in memory, and release the data folder."""
        if self._has_memory:
            remove_memory_directory(self.reached)
        os.close(self._lock)
        if self._folder is not None:
            os.close(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_restore(self) -> None:
        """Bar `towpath up` from an empty folder that a restore fills, until `end_restore`."""
        if not self.postgres.exists():
            (self.reached / _RESTORING).touch(mode=0o600)

    def end_restore(self) -> None:
        """Allow `towpath up` to start on the folder."""
        (self.reached / _RESTORING).unlink(missing_ok=True)

    def refuse_half_restored(self) -> None:
        """Raise `CommandError` if a restore into the empty folder has begun and has not ended."""
        if (self.reached / _RESTORING).exists():
            raise CommandError(f"{self.path}: a restore has not ended here: run `towpath restore` again")

    def storage_url(self, given: str | None) -> str:
        """Return the URL of the store, as the services reach it; record a `given` URL while there are no objects.

        Raises `CommandError` if the objects are already in another store.
        """
        remembered = self.reached / _STORAGE_URL
        if given is not None and not remembered.exists() and not any(self.storage.glob("objects/*")):
            write_secret(remembered, f"{given}\n")
        known = remembered.read_text().strip() if remembered.exists() else None
        shown = known or (self.path / _STORAGE).as_uri()
        if given not in (None, shown):
            raise CommandError(f"{self.path}: its objects are in {shown}, not in {given}")
        return known or self.storage.as_uri()

    def ensure_signing_key(self) -> str:
        """Return the signing key, made on first use: 64 random characters."""
        if not self.signing_key.exists():
            write_secret(self.signing_key, secrets.token_urlsafe(48) + "\n")
        return self.signing_key.read_text().strip()


def _take(path: Path) -> int:
    """Lock the folder, and return the descriptor of the lock. Raises `FolderTaken`, `CommandError` and OSError."""
    strange = {entry.name for entry in path.iterdir()} - {*_ENTRIES, _NOT_COUNTED}
    if strange and not (path / _LOCK).exists():
        # The folder's mode and owner are going to change, and may close it to the users of the other files.
        raise CommandError(f"{path}: expected an empty folder or one of a `towpath up`, found {min(strange)}")
    # The folder may be another user's: root must not follow a link in it and write to the target.
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    found = os.fstat(lock)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(lock)
        raise CommandError(f"{path / _LOCK}: expected a regular file")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
        os.close(lock)
        raise FolderTaken(f"{path}: another `towpath up` works on it (process {holder or 'unknown'})") from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _close_to_others(path: Path) -> None:
    found = path.stat()
    if stat.S_IMODE(found.st_mode) & 0o077:
        if found.st_uid != os.geteuid() and os.geteuid() != 0:
            raise CommandError(f"{path}: expected a folder of our own, or one with mode 0700")
        path.chmod(0o700)


def _give(path: Path, account: Account) -> None:
    for name in _ENTRIES:
        if os.path.lexists(path / name):
            give(path / name, account)
    # Last, so that the next start resumes an interrupted change. Not recursively: the other files are not Towpath's.
    os.chown(path, account.uid, account.gid)


def reach(path: Path, account: Account) -> int | None:
    """Return the folder's descriptor if the account may not enter a folder above it, else None.

    Raises `CommandError` if the system has no /proc/self/fd.
    """
    if account.can(f"-x {path}"):
        return None
    if not Path("/proc/self/fd").is_dir():
        raise CommandError(
            f"{path}: the account {account.name} may not enter a folder above it; "
            "give --data a folder that it can reach"
        )
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def storage_url_of(data: Path) -> str:
    """Return the URL of the store of a data folder."""
    file = data / _STORAGE_URL
    return file.read_text().strip() if file.exists() else (data / _STORAGE).as_uri()
