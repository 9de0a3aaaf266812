"""Lists of retained objects in files, and their order."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from services.cli.errors import CommandError
from services.cli.garbage.command import _grace_seconds, _percent, _Source
from services.cli.garbage.oid_file import ListEnd, read_list
from services.cli.pointers import oid_spool
from services.cli.pointers.oid_spool import OidSpool

A, B = "a" * 64, "b" * 64
DIGEST = hashlib.sha256(f"{A}\n{B}\n".encode()).hexdigest()


def test_oids_come_in_order_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files they went through."""
    monkeypatch.setattr(oid_spool, "_IN_MEMORY", 10)
    expected = sorted(hashlib.sha256(bytes([number])).digest() for number in range(100))
    with OidSpool() as spool:
        for oid in (*expected[::2], *expected[::-1], *expected):
            spool.add(oid)
        assert list(spool.ascending()) == [oid.hex() for oid in expected]
    with OidSpool() as spool:
        assert list(spool.ascending()) == []


@pytest.mark.parametrize("text", [f"{A}\n{B}\nend 2 {DIGEST}\n", f"{B}\r\n{A}\r\n{B}\r\nend 2 {DIGEST}"])
def test_a_list_in_any_order(tmp_path: Path, text: str) -> None:
    """Lines may repeat, and end as Windows ends them."""
    (tmp_path / "list").write_bytes(text.encode())
    with OidSpool() as spool:
        assert read_list(tmp_path / "list", spool) == ListEnd(2, DIGEST)
        assert list(spool.ascending()) == [A, B]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "cut off"),
        (f"{A}\n{B}\n", "cut off"),
        (f"{A}\nend 2 {DIGEST}\n{B}\n", "line 3: expected nothing after the end"),
        (f"{A}\n\nend 2 {DIGEST}\n", "line 2"),
        (f"{A[1:]}\nend 2 {DIGEST}\n", "line 1"),
        (f"{A.upper()}\nend 2 {DIGEST}\n", "line 1"),
        (f"{A}\nend two {DIGEST}\n", "line 2"),
        (f"{A}\nend 2 {DIGEST[1:]}\n", "line 2"),
        ("x" * 100_000, "line 1"),
    ],
)
def test_what_is_no_list(tmp_path: Path, text: str, expected: str) -> None:
    """The message names the file and the line."""
    (tmp_path / "list").write_text(text)
    with OidSpool() as spool, pytest.raises(CommandError, match=f"list: .*{expected}"):
        read_list(tmp_path / "list", spool)


async def test_a_list_is_as_old_as_its_file(tmp_path: Path) -> None:
    """An upload after the list was written is no garbage of it, however late the list is read."""
    path = tmp_path / "list"
    path.write_text(f"{A}\n{B}\nend 2 {DIGEST}\n")
    written = time.time() - 3_600
    os.utime(path, (written, written))
    with OidSpool() as spool:
        began, end = await _Source(None, path).read(spool)
    assert end == ListEnd(2, DIGEST)
    assert time.monotonic() - began >= 3_600


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("90s", 90), ("30m", 1800), ("12h", 43200), ("2w", 1209600)])
def test_spans_of_grace(text: str, seconds: int) -> None:
    """Short ones, too."""
    assert _grace_seconds(text) == seconds


@pytest.mark.parametrize(("text", "percent"), [("50%", 50), ("1", 1), ("100%", 100)])
def test_percentages(text: str, percent: int) -> None:
    """With the sign or without it."""
    assert _percent(text) == percent
