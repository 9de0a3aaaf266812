"""Segments, the files of a journal: objects one after the other, each with its blob name.

    JOURNAL/
      0123456789abcdef       a segment, locked by the process that writes or recovers it

A record is a header and the bytes of an object. The header is `TWP1`, the size in 8 bytes (big-endian), the blob name
in 81 bytes, and the CRC-32 of these fields in 4 bytes. The SHA-256 of the bytes is in the blob name.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from services.common.rpc.options import CHUNK_BYTES
from services.storage.backends.base import Chunk
from services.storage.backends.disk.durable import sync_folder
from services.storage.blob_names import is_name, oid_of

_MAGIC = b"TWP1"
_FIELDS = struct.Struct(">4sQ81s")
_SUM = struct.Struct(">I")
_HEADER_BYTES = _FIELDS.size + _SUM.size
_NAME_DIGITS = 16
# Not every system has fdatasync.
_sync = getattr(os, "fdatasync", os.fsync)

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class Record(NamedTuple):
    """An object in a segment."""

    name: str
    data: bytes


def segments(folder: Path) -> list[Path]:
    """Return the paths of the segments in a folder."""
    return sorted(path for path in folder.iterdir() if re.fullmatch(f"[0-9a-f]{{{_NAME_DIGITS}}}", path.name))


class Segment:
    """A file of a journal, open and locked; its owner closes it. For one thread at a time."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = os.fstat(descriptor).st_size
        self.is_broken = False
        """True if nothing more may be added, because the disk may lack bytes that the kernel has in memory."""
        self._descriptor = descriptor

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Create a segment whose name is durable. Raises OSError, with one of `NO_LOCKS` if there are no file locks."""
        path = folder / secrets.token_hex(_NAME_DIGITS // 2)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Durable bytes in a file without a durable name are lost in a crash.
            sync_folder(folder)
        except BaseException:
            path.unlink()
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    @classmethod
    def take_over(cls, path: Path) -> Self | None:
        """Open a segment that was left behind; None if its process lives, or the segment is gone."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        segment = None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The segment's process may have removed it between the open and the lock.
            segment = cls(path, descriptor) if path.exists() else None
        except BlockingIOError:
            pass
        finally:
            if segment is None:
                os.close(descriptor)
        return segment

    @property
    def name(self) -> str:
        """The name of the file, which no other segment ever has."""
        return self.path.name

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._descriptor

    def append(self, contents: Mapping[str, Chunk]) -> None:
        """Append objects by blob name, all or none; they are durable when this returns."""
        pieces: list[Chunk] = []
        for name, data in contents.items():
            fields = _FIELDS.pack(_MAGIC, len(data), name.encode())
            pieces += (fields + _SUM.pack(zlib.crc32(fields)), data)
        if self.is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        before, self.is_broken = self.size, True
        try:
            self._write([memoryview(piece) for piece in pieces if piece])
        except OSError:
            os.ftruncate(self._descriptor, before)
            self.size, self.is_broken = before, False
            raise
        _sync(self._descriptor)
        self.is_broken = False

    def _write(self, rest: list[memoryview]) -> None:
        while rest:
            written = os.pwritev(self._descriptor, rest, self.size)
            self.size += written
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if written:
                rest[0] = rest[0][written:]

    def records(self) -> Iterator[Record]:
        """Return the objects up to the last whole one: a crash cuts off only objects that were never acknowledged.

        Objects whose bytes do not match their blob names are left out.
        """
        at = 0
        while (record := self._record(at)) is not None:
            at += _HEADER_BYTES + len(record.data)
            if hashlib.sha256(record.data).hexdigest() == oid_of(record.name):
                yield record

    def _record(self, at: int) -> Record | None:
        header = os.pread(self._descriptor, _HEADER_BYTES, at)
        if len(header) < _HEADER_BYTES:
            return None
        magic, size, padded = _FIELDS.unpack_from(header)
        name = padded.rstrip(b"\0").decode("ascii", "replace")
        if (
            magic != _MAGIC
            or _SUM.unpack_from(header, _FIELDS.size) != (zlib.crc32(header[: _FIELDS.size]),)
            or size > CHUNK_BYTES
            or not is_name(name)
        ):
            return None
        data = os.pread(self._descriptor, size, at + _HEADER_BYTES)
        return Record(name, data) if len(data) == size else None

    def remove(self) -> None:
        """Remove the file, if it exists."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file, so that other processes can take it over. May be repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
