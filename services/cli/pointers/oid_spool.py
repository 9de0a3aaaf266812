"""Oids in ascending order, each once, sorted outside of memory; records that begin with an oid likewise."""

import heapq
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Self

_OID_BYTES = 32
_IN_MEMORY = 500_000
_READ_RECORDS = 2048


class OidSpool:
    """Collects oids in temporary files, which are gone when the block ends; each may have a value of `extra_bytes`."""

    def __init__(self, extra_bytes: int = 0) -> None:
        self._record_bytes = _OID_BYTES + extra_bytes
        self._held: set[bytes] = set()
        self._files: list[IO[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, record: bytes) -> None:
        """Add an oid of 32 bytes, and behind it the value if there is one."""
        self._held.add(record)
        if len(self._held) >= _IN_MEMORY:
            self._spill()

    def ascending(self) -> Iterator[str]:
        """Yield all oids as hexadecimal digits, in ascending order, each once."""
        for oid, _ in self.records():
            yield oid

    def records(self) -> Iterator[tuple[str, bytes]]:
        """Yield all oids as `ascending` does, each with its value; of several values the least one."""
        last = b""
        for record in heapq.merge(sorted(self._held), *map(self._read, self._files)):
            if record[:_OID_BYTES] != last:
                last = record[:_OID_BYTES]
                yield last.hex(), record[_OID_BYTES:]

    def _spill(self) -> None:
        file = tempfile.TemporaryFile(prefix="towpath-oids-")  # noqa: SIM115 - the stack closes it
        self._stack.callback(file.close)
        file.write(b"".join(sorted(self._held)))
        self._files.append(file)
        self._held.clear()

    def _read(self, file: IO[bytes]) -> Iterator[bytes]:
        file.seek(0)
        while data := file.read(_READ_RECORDS * self._record_bytes):
            for start in range(0, len(data), self._record_bytes):
                yield data[start : start + self._record_bytes]
