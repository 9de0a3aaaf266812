"""The data folder of `towpath up`: what lies where, and that only one works on it.

DIR/postgres/       the cluster, unless --database-url is given
DIR/storage/        the objects' bytes, unless --storage is given
DIR/storage-url     where they are instead
DIR/run/            the sockets, or elsewhere: see runtime_directory, which has the memory that is shared too
DIR/admin-token     the administrator's token, for the administration commands
DIR/signing-key     what the facade signs the tokens of its actions with
DIR/demo.json       what --demo made
DIR/lock            held by the `towpath up` that works on the folder, with its process id
"""

import fcntl
import os
import secrets
import shutil
from pathlib import Path
from typing import Self

from services.cli.errors import CommandError
from services.cli.up.runtime_directory import make_memory_directory, make_runtime_directory


class FolderTaken(CommandError):
    """Another `towpath` works on the data folder."""


class DataDirectory:
    """A data folder that this process has for itself, from `open` to `close`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self.run = make_runtime_directory(path)
        self.memory = make_memory_directory(path)
        self.postgres = path / "postgres"
        self.storage = path / "storage"
        self.admin_token = path / "admin-token"
        self.signing_key = path / "signing-key"
        self.demo = path / "demo.json"

    @classmethod
    def open(cls, path: Path) -> Self:
        """Make the folder (mode 0700) where it is missing, and take it.

        Raises `FolderTaken` where another `towpath up` has it, and `CommandError` where it cannot be written.
        """
        path = path.resolve()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CommandError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
            os.close(lock)
            raise FolderTaken(f"{path}: another `towpath up` works on it (process {holder or 'unknown'})") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        try:
            directory = cls(path, lock)
            directory.storage.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            os.close(lock)
            raise CommandError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        except CommandError:
            os.close(lock)
            raise
        return directory

    def close(self) -> None:
        """Let the folder go, and with it the memory."""
        if self.memory is not None:
            shutil.rmtree(self.memory, ignore_errors=True)
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def storage_url(self, given: str | None) -> str:
        """Return where the bytes of objects are; what is `given` at first is remembered.

        Raises `CommandError` where they are somewhere else already.
        """
        if given is not None and not _storage_url_file(self.path).exists() and not any(self.storage.glob("objects/*")):
            write_secret(_storage_url_file(self.path), f"{given}\n")
        known = storage_url_of(self.path)
        if given not in (None, known):
            raise CommandError(f"{self.path}: its objects are in {known}, not in {given}")
        return known

    def ensure_signing_key(self) -> str:
        """Return the signing key, made on first use: 64 random characters."""
        if not self.signing_key.exists():
            write_secret(self.signing_key, secrets.token_urlsafe(48) + "\n")
        return self.signing_key.read_text().strip()


def _storage_url_file(data: Path) -> Path:
    return data / "storage-url"


def storage_url_of(data: Path) -> str:
    """Return where the bytes of the objects of a data folder are."""
    file = _storage_url_file(data)
    return file.read_text().strip() if file.exists() else (data / "storage").as_uri()


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read; at every moment it is there whole, or as it was, or not at all."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:  # noqa: PTH123 - the file descriptor is what makes the mode certain
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
