"""Fetches: the last reader that leaves lets one go on for a while, and its file is whole once it has its name."""

import asyncio
import os
from pathlib import Path

import pytest

from services.cache import fetch as module
from services.cache.fetch import HELD_BACK_BYTES, Fetch
from services.cache.store import ObjectStore
from services.cache.tokens import Grant
from services.common.errors import Reason, ServiceError
from services.facade.auth.action_tokens import Operation

SIZE = 2 * HELD_BACK_BYTES
GRANT = Grant(Operation.DOWNLOAD, "/far/film", "0" * 64, SIZE, 0, b"")


async def test_an_abandoned_fetch_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that joins in time keeps a fetch; after the last one has left for long, it is given up once."""
    monkeypatch.setattr(module, "_ABANDONED_SECONDS", 0.05)
    given_up: list[float] = []
    async with ObjectStore.open(tmp_path / "cache", 10 * SIZE) as store:
        fetch = Fetch(GRANT, store)
        fetch.give_up = lambda: given_up.append(asyncio.get_running_loop().time())
        fetch.join()
        fetch.join()
        await fetch.leave()
        await asyncio.sleep(0.1)
        await fetch.leave()
        fetch.join()
        await asyncio.sleep(0.1)
        assert given_up == []
        await fetch.leave()
        await asyncio.sleep(0.1)
        assert len(given_up) == 1


async def test_the_last_bytes_wait_for_the_hash(tmp_path: Path) -> None:
    """All are written, and readers get all but the last 64 KiB; room is given back when the last reader has left."""
    async with ObjectStore.open(tmp_path / "cache", 10 * SIZE) as store:
        fetch = Fetch(GRANT, store)
        assert await store.reserve(SIZE, 0)
        fetch.is_reserved = True
        fetch.file.open(tmp_path / "file", 0o102)
        fetch.join()
        fetch.advance(SIZE)
        assert await fetch.wait_for(0) == SIZE - HELD_BACK_BYTES
        waiting = asyncio.create_task(fetch.wait_for(SIZE - HELD_BACK_BYTES))
        await asyncio.sleep(0)
        assert not waiting.done()
        fetch.fail(ServiceError(Reason.INTERNAL, "wrong"))
        with pytest.raises(ServiceError, match="wrong"):
            await waiting
        await fetch.end()
        assert fetch.file.is_open
        assert not await store.reserve(9 * SIZE + 1, 0)
        await fetch.leave()
        assert not fetch.file.is_open
        assert await store.reserve(10 * SIZE, 0)


def test_a_file_is_durable_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut, a file that has its name would be taken for whole."""
    path, final = tmp_path / "file", tmp_path / "ab" / "object"
    path.write_bytes(b"data")
    had_its_name = []
    monkeypatch.setattr(os, "fsync", lambda _descriptor: had_its_name.append(final.exists()))
    with path.open("rb") as file:
        module._finish(file.fileno(), path, final)
    assert had_its_name == [False]
    assert final.read_bytes() == b"data"
