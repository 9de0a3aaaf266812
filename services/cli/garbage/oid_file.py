"""Lists of retained objects in files: a line for each oid, in any order, and `end COUNT DIGEST` as the last line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from services.cli.errors import CommandError
from services.cli.pointers.oid_spool import OidSpool

_OID = re.compile(rb"[0-9a-f]{64}")
_END = re.compile(rb"end ([0-9]{1,18}) ([0-9a-f]{64})")
_MAX_LINE_BYTES = 1000


@dataclass(frozen=True)
class ListEnd:
    """The last line of a list: the number of its oids, and the SHA-256 of these, ascending, each with a newline."""

    count: int
    digest: str


def read_list(path: Path, spool: OidSpool) -> ListEnd:
    """Add the oids of a file, and return its last line. Raises `CommandError` if there is none, or for another line."""
    end: ListEnd | None = None
    with path.open("rb") as file:
        for number, line in enumerate(_lines(file), start=1):
            if end is not None:
                raise CommandError(f"{path}: line {number}: expected nothing after the end")
            if _OID.fullmatch(line):
                spool.add(bytes.fromhex(line.decode()))
            elif match := _END.fullmatch(line):
                end = ListEnd(int(match[1]), match[2].decode())
            else:
                raise CommandError(f"{path}: line {number}: expected an id of 64 hexadecimal digits, got {line[:80]!r}")
    if end is None:
        raise CommandError(f"{path}: expected `end COUNT DIGEST` as the last line; the list is cut off")
    return end


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(_MAX_LINE_BYTES):
        yield line.rstrip(b"\r\n")
