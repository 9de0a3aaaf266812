"""Room on a disk that several storage services share: who announces much keeps little, and the reserve stays free."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from services.common.errors import Reason, ResourceExhausted
from services.common.lifecycle import cancel_and_wait
from services.database.transactions import Database
from services.storage.capacity.space import LOOK_AHEAD_BYTES, Reservation, SpaceManager
from services.storage.capacity.space_exchange import PeerReservations
from tests.service.storage.conftest import Sql
from tests.support.loop import settled
from tests.support.memory_backend import MemoryBackend
from tests.support.waiting import STEP_SECONDS, until_answer

MIB = 1024 * 1024
RESERVE = 100 * MIB

MakeRoom = Callable[[], SpaceManager]


@pytest.fixture
def disk() -> MemoryBackend:
    """A disk with 1,000 MiB."""
    return MemoryBackend(capacity=1_000 * MIB)


@pytest.fixture
def make_room(database: Database, disk: MemoryBackend) -> MakeRoom:
    """Return a function that makes the room of one more process on the disk, of which 100 MiB are kept free."""
    return lambda: SpaceManager(lambda: disk, RESERVE, PeerReservations(database))


@asynccontextmanager
async def _telling(room: SpaceManager) -> AsyncIterator[SpaceManager]:
    task = asyncio.create_task(room.run())
    try:
        yield room
    finally:
        await cancel_and_wait(task)


async def _bring(upload: Reservation, disk: MemoryBackend, size: int) -> None:
    """Write bytes of an upload, in pieces of 1 MiB as they come over the wire; the disk has that much less then."""
    for _ in range(size // MIB):
        await upload.expect(MIB)
        disk.capacity -= MIB
        upload.written(MIB)


async def test_an_upload_keeps_what_has_arrived_and_a_little_more(make_room: MakeRoom, disk: MemoryBackend) -> None:
    """A writer that announces all there is and sends nothing leaves the rest to others; the reserve is nobody's."""
    room = make_room()
    await room.require(896 * MIB)
    async with room.reserve(896 * MIB) as upload:
        assert await room.available_bytes() == 900 * MIB - LOOK_AHEAD_BYTES
        await _bring(upload, disk, 100 * MIB)
        assert 800 * MIB - LOOK_AHEAD_BYTES <= (await room.available_bytes() or 0) <= 800 * MIB
        async with room.reserve(10 * MIB), room.reserve(700 * MIB):
            pass
    assert await room.available_bytes() == 800 * MIB


async def test_what_cannot_fit_is_refused_before_it_comes(make_room: MakeRoom) -> None:
    """Be it announced to a batch or as an upload; and who tries sizes learns how much room there is to an eighth."""
    room = make_room()
    async with room.reserve(896 * MIB):
        least = 832 * MIB
        assert least < 900 * MIB - LOOK_AHEAD_BYTES < least * 9 // 8
        await room.require(least)
        for refused in (room.require(least + 1), room.reserve(least + 1).__aenter__()):
            with pytest.raises(ResourceExhausted) as caught:
                await refused
            assert caught.value.reason == Reason.STORAGE_FULL
            assert not any(letter.isdigit() for letter in caught.value.message)


class LatePeers(PeerReservations):
    """Those of whom nothing is known before they are let tell."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asked = asyncio.Event()
        self.tell_now = asyncio.Event()

    async def kept(self) -> int:
        """Return what they keep."""
        self.asked.set()
        await self.tell_now.wait()
        return await super().kept()


async def test_what_is_written_during_a_look_is_not_missed(database: Database, disk: MemoryBackend) -> None:
    """The disk is looked at before the other processes have told; what an upload brings meanwhile is gone by then."""
    peers = LatePeers(database)
    room = SpaceManager(lambda: disk, RESERVE, peers)
    upload = Reservation(500 * MIB, room)
    asking = asyncio.create_task(room.require(500 * MIB))
    await asyncio.wait_for(peers.asked.wait(), STEP_SECONDS)
    disk.capacity -= 500 * MIB
    upload.written(500 * MIB)
    peers.tell_now.set()
    with pytest.raises(ResourceExhausted):
        await asyncio.wait_for(asking, STEP_SECONDS)


async def test_small_uploads_keep_what_they_bring(make_room: MakeRoom) -> None:
    """An upload smaller than the look-ahead reserves all its bytes, and releases them as they arrive."""
    room = make_room()
    async with room.reserve(10 * MIB) as upload:
        assert await room.available_bytes() == 890 * MIB
        upload.written(4 * MIB)
        assert await room.available_bytes() == 894 * MIB
    assert await room.available_bytes() == 900 * MIB


async def test_of_those_who_have_no_room_together_some_get_through(make_room: MakeRoom, disk: MemoryBackend) -> None:
    """Each fits alone. One gives way at a time, the others go on with what it leaves; the reserve is never touched."""
    room = make_room()
    start = disk.capacity
    least = start

    async def upload(size: int) -> bool:
        nonlocal least
        brought = 0
        try:
            async with room.reserve(size) as upload:
                try:
                    while brought < size:
                        await _bring(upload, disk, MIB)
                        brought += MIB
                        least = min(least, disk.capacity)
                        await settled()
                except ResourceExhausted:
                    # To remove a file takes a while.
                    await asyncio.sleep(0.05)
                    disk.capacity += brought
                    raise
        except ResourceExhausted as error:
            if error.reason != Reason.STORAGE_FULL:
                raise
            return False
        return True

    through = sum(await asyncio.gather(*(upload(200 * MIB) for _ in range(12))))
    assert through == 4
    assert least >= RESERVE
    assert disk.capacity == start - through * 200 * MIB


class LookedAt(MemoryBackend):
    """A disk with 1,000 MiB that counts how often it is looked at."""

    def __init__(self) -> None:
        super().__init__(capacity=1_000 * MIB)
        self.looks = 0

    async def available_bytes(self) -> int:
        """Return what is free."""
        self.looks += 1
        return await super().available_bytes()


async def test_those_who_fit_share_a_look(database: Database) -> None:
    """Bytes written since a shared look must be counted, and only a new look may refuse an upload."""
    disk = LookedAt()
    room = SpaceManager(lambda: disk, RESERVE, PeerReservations(database))
    # One look, and what comes within 50 ms of it.
    began = time.monotonic()
    async with room.reserve(1 * MIB) as upload:
        for _ in range(100):
            await room.require(10 * MIB)
        assert disk.looks < 3 + (time.monotonic() - began) / 0.05
        await room.require(896 * MIB)
        before = disk.looks
        # Of bytes that the disk does not know yet, as of a file that is being written.
        upload.written(500 * MIB)
        await room.require(500 * MIB)
        assert disk.looks == before + 1
        with pytest.raises(ResourceExhausted):
            await room.require(901 * MIB)
        assert disk.looks == before + 2


async def test_uploads_are_known_to_others_soon(make_room: MakeRoom, disk: MemoryBackend) -> None:
    """Other processes must not give away reserved bytes, and must learn when bytes arrive or an upload ends."""
    here, there = make_room(), make_room()
    async with _telling(here):
        async with here.reserve(600 * MIB) as large, here.reserve(10 * MIB) as small:
            await until_answer(890 * MIB - LOOK_AHEAD_BYTES, there.available_bytes)
            with pytest.raises(ResourceExhausted):
                await there.require(890 * MIB)
            small.written(4 * MIB)
            await until_answer(894 * MIB - LOOK_AHEAD_BYTES, there.available_bytes)
            await _bring(large, disk, 16 * MIB)
            await until_answer(878 * MIB, there.available_bytes)
        await until_answer(884 * MIB, there.available_bytes)


async def test_a_process_that_is_gone_keeps_no_room(make_room: MakeRoom, sql: Sql) -> None:
    """A reservation of a process that is gone must not count for long, and its row must be deleted."""
    here, there = make_room(), make_room()
    async with AsyncExitStack() as stack:
        telling = await stack.enter_async_context(AsyncExitStack())
        await telling.enter_async_context(_telling(here))
        await stack.enter_async_context(here.reserve(10 * MIB))
        await until_answer(890 * MIB, there.available_bytes)
        # From now on nobody tells that it is over. The clock is put forward by a minute and a bit.
        await telling.aclose()
        await sql("UPDATE storage.announcements SET told_at = told_at - interval '70 s'")
    await until_answer(900 * MIB, there.available_bytes)
    async with _telling(there), there.reserve(100 * MIB):
        told = "SELECT count(*), max(remaining_bytes) FROM storage.announcements"
        await until_answer(f"1|{LOOK_AHEAD_BYTES}", lambda: sql(told))
