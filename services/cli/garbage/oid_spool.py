"""Oids in ascending order, each once, sorted outside of memory."""

import heapq
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Self

_OID_BYTES = 32
_IN_MEMORY = 500_000
_READ_BYTES = 2048 * _OID_BYTES


class OidSpool:
    """Collects oids in temporary files, which are gone when the block ends."""

    def __init__(self) -> None:
        self._held: set[bytes] = set()
        self._files: list[IO[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, oid: bytes) -> None:
        """Add an oid of 32 bytes."""
        self._held.add(oid)
        if len(self._held) >= _IN_MEMORY:
            self._spill()

    def ascending(self) -> Iterator[str]:
        """Yield all oids as hexadecimal digits, in ascending order, each once."""
        last = b""
        for oid in heapq.merge(sorted(self._held), *map(_read, self._files)):
            if oid != last:
                yield oid.hex()
                last = oid

    def _spill(self) -> None:
        file = tempfile.TemporaryFile(prefix="towpath-gc-")  # noqa: SIM115 - the stack closes it
        self._stack.callback(file.close)
        file.write(b"".join(sorted(self._held)))
        self._files.append(file)
        self._held.clear()


def _read(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while data := file.read(_READ_BYTES):
        for start in range(0, len(data), _OID_BYTES):
            yield data[start : start + _OID_BYTES]
