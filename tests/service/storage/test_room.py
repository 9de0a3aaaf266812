"""Room on a disk that several storage services share: what one has announced, no other gives away."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from pydantic import SecretStr

from services.common.errors import Reason, ResourceExhausted
from services.common.lifecycle import end
from services.database.engine import create_engine
from services.database.migrations import migrate
from services.database.transactions import Database
from services.storage.neighbours import Neighbours
from services.storage.room import Room
from services.storage.schema import SCHEMA
from tests.service.storage.conftest import Sql
from tests.support.memory_backend import MemoryBackend
from tests.support.waiting import STEP_SECONDS

MIB = 1024 * 1024
RESERVE = 100 * MIB

MakeRoom = Callable[[], Room]


@pytest.fixture
async def make_room(database_url: SecretStr) -> AsyncIterator[MakeRoom]:
    """What makes the room of one more process on a disk with 1,000 MiB, of which 100 are kept free."""
    await migrate(database_url, SCHEMA)
    database = Database(create_engine(database_url, schema=SCHEMA.name, pool_size=10))
    disk = MemoryBackend(capacity=1_000 * MIB)
    yield lambda: Room(lambda: disk, RESERVE, Neighbours(database))
    await database.close()


@asynccontextmanager
async def _telling(room: Room) -> AsyncIterator[Room]:
    task = asyncio.create_task(room.run())
    try:
        yield room
    finally:
        await end(task)


async def _until_available(room: Room, size: int) -> None:
    async with asyncio.timeout(STEP_SECONDS):
        while await room.available_bytes() != size:  # noqa: ASYNC110 - Postgres sets no event
            await asyncio.sleep(0.05)


async def test_uploads_that_go_on_are_counted(make_room: MakeRoom) -> None:
    """The reserve and the bytes that are still to come are not given away twice."""
    room = make_room()
    await room.require(900 * MIB)
    for size in (600 * MIB, 10 * MIB):
        async with room.announced(size) as upload:
            assert await room.available_bytes() == 900 * MIB - size
            with pytest.raises(ResourceExhausted) as caught:
                await room.require(901 * MIB - size)
            assert caught.value.reason == Reason.STORAGE_FULL
            upload.arrived(size // 2)
            assert await room.available_bytes() == 900 * MIB - size // 2
    assert await room.available_bytes() == 900 * MIB


class LookedAt(MemoryBackend):
    """A disk with 1,000 MiB that counts how often it is looked at."""

    def __init__(self) -> None:
        super().__init__(capacity=1_000 * MIB)
        self.looks = 0

    async def available_bytes(self) -> int:
        """Return what is free."""
        self.looks += 1
        return await super().available_bytes()


async def test_those_who_fit_share_a_look(database_url: SecretStr) -> None:
    """What is written meanwhile is counted, and who does not fit by it is refused by a new look alone."""
    await migrate(database_url, SCHEMA)
    database = Database(create_engine(database_url, schema=SCHEMA.name, pool_size=10))
    disk = LookedAt()
    room = Room(lambda: disk, RESERVE, Neighbours(database))
    # One look, and what comes within 50 ms of it.
    began = time.monotonic()
    async with room.announced(1 * MIB) as upload:
        for _ in range(100):
            await room.require(10 * MIB)
        assert disk.looks < 3 + (time.monotonic() - began) / 0.05
        await room.require(899 * MIB)
        before = disk.looks
        # Of bytes that the disk does not know yet, as of a file that is being written.
        upload.arrived(500 * MIB)
        await room.require(500 * MIB)
        assert disk.looks == before + 1
        with pytest.raises(ResourceExhausted):
            await room.require(901 * MIB)
        assert disk.looks == before + 2
    await database.close()


async def test_a_large_upload_is_known_to_others_at_once(make_room: MakeRoom) -> None:
    """The others do not give its room away, whether they were asked before or not; they know when it is over."""
    here, there = make_room(), make_room()
    assert await there.available_bytes() == 900 * MIB
    async with _telling(here):
        async with here.announced(600 * MIB):
            with pytest.raises(ResourceExhausted):
                async with there.announced(400 * MIB):
                    pass
            assert await make_room().available_bytes() == 300 * MIB
            async with there.announced(300 * MIB):
                pass
        await _until_available(there, 900 * MIB)


async def test_small_uploads_are_known_to_others_soon(make_room: MakeRoom) -> None:
    """And so is what arrives of any."""
    here, there = make_room(), make_room()
    async with _telling(here), here.announced(10 * MIB) as upload:
        await _until_available(there, 890 * MIB)
        upload.arrived(4 * MIB)
        await _until_available(there, 894 * MIB)


async def test_the_room_is_given_away_once(make_room: MakeRoom) -> None:
    """Of twelve processes that are asked for 200 MiB at the same moment, as many take them as there is room for."""
    rooms = [make_room() for _ in range(12)]
    async with AsyncExitStack() as stack:
        for room in rooms:
            await stack.enter_async_context(_telling(room))
        admitted = await asyncio.gather(
            *(stack.enter_async_context(room.announced(200 * MIB)) for room in rooms), return_exceptions=True
        )
        refusals = [each for each in admitted if isinstance(each, BaseException)]
        assert len(refusals) == 12 - 4
        assert all(isinstance(each, ResourceExhausted) for each in refusals)


async def test_a_process_that_is_gone_keeps_no_room(make_room: MakeRoom, sql: Sql) -> None:
    """What it had announced does not count for long, and its row goes."""
    here, there = make_room(), make_room()
    async with here.announced(600 * MIB):
        assert await there.available_bytes() == 300 * MIB
    # Nobody told that it is over. The clock is put forward by a minute and a bit.
    await sql("UPDATE storage.announcements SET told_at = told_at - interval '70 s'")
    await _until_available(there, 900 * MIB)
    async with there.announced(100 * MIB):
        assert await sql("SELECT count(*) FROM storage.announcements") == "1"
