"""The room of the store, with objects that are being read."""

import asyncio
import os
from pathlib import Path

from services.cache.store import Entry, ObjectStore, cost
from services.common.files import OwnedDescriptor

BLOCK = 4096
SECONDS = 30.0


async def keep(store: ObjectStore, number: int, blocks: int = 1) -> str:
    """Let the store keep an object of so many blocks, and return its oid."""
    oid = f"{number:064x}"
    assert await store.reserve(blocks * BLOCK, SECONDS)
    store.path(oid).parent.mkdir(parents=True, exist_ok=True)
    store.path(oid).write_bytes(bytes(blocks * BLOCK))
    store.keep(oid, blocks * BLOCK, readers=0)
    return oid


async def opened(store: ObjectStore, oid: str, file: OwnedDescriptor) -> Entry:
    """Open an object of one block that is kept."""
    entry = await store.open_object(oid, BLOCK, file)
    assert entry is not None
    return entry


def test_room_is_counted_in_blocks() -> None:
    """An empty file takes one, too, as its entry has to lie somewhere."""
    assert [cost(size) for size in (0, 1, BLOCK, BLOCK + 1)] == [BLOCK, BLOCK, BLOCK, 2 * BLOCK]


async def test_what_is_read_is_not_removed(tmp_path: Path) -> None:
    """The least recently used that nobody reads goes; where all are read, room is waited for, and found."""
    file = OwnedDescriptor()
    async with ObjectStore.open(tmp_path / "cache", 2 * BLOCK) as store:
        first, second = await keep(store, 1), await keep(store, 2)
        entry = await opened(store, first, file)
        third = await keep(store, 3)
        assert (store.has(first, BLOCK), store.has(second, BLOCK), store.has(third, BLOCK)) == (True, False, True)
        other = OwnedDescriptor()
        reading = await opened(store, third, other)
        assert not await store.reserve(BLOCK, 0.05)
        waiting = asyncio.create_task(store.reserve(BLOCK, SECONDS))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert os.pread(file.number, BLOCK, 0) == bytes(BLOCK)
        file.close()
        store.close_object(entry)
        assert await waiting
        assert not store.path(first).exists()
        other.close()
        store.close_object(reading)
        store.release(BLOCK)


async def test_what_never_fits_is_told_at_once(tmp_path: Path) -> None:
    """Nothing is removed for it."""
    async with ObjectStore.open(tmp_path / "cache", 2 * BLOCK) as store:
        oid = await keep(store, 1)
        assert not store.fits(2 * BLOCK + 1)
        assert not await store.reserve(2 * BLOCK + 1, SECONDS)
        assert store.has(oid, BLOCK)


async def test_a_fetch_of_the_same_object_replaces_it(tmp_path: Path) -> None:
    """An object of another size under the same oid was damaged: it is counted once."""
    async with ObjectStore.open(tmp_path / "cache", 4 * BLOCK) as store:
        await keep(store, 1)
        oid = await keep(store, 1, blocks=2)
        assert not store.has(oid, BLOCK)
        assert store.has(oid, 2 * BLOCK)
        # Two blocks are taken, so that two are free, and nothing has to go for them.
        assert await store.reserve(2 * BLOCK, 0.0)
        assert store.has(oid, 2 * BLOCK)
