"""Uploads, locks and unlocks all at once, and a ledger of what the service has acknowledged."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

import httpx

from tests.support.http import Client, content, oid_of

_PARTS = 8
_PART_BYTES = 1024 * 1024
_PAUSE = 0.02


class Moment(StrEnum):
    """A moment at which something can happen to the service, as its clients know it."""

    EARLY = "an eighth of an upload is sent"
    MIDDLE = "half of an upload is sent"
    LATE = "the last byte of an upload is sent and its answer is awaited"
    UPLOADED = "an upload is acknowledged"
    LOCKED = "a lock is acknowledged and others are asked for"
    UNLOCKED = "an unlock is acknowledged and others are asked for"


_MOMENTS = {1: Moment.EARLY, _PARTS // 2: Moment.MIDDLE, _PARTS: Moment.LATE}


@dataclass
class Ledger:
    """Everything that the service has acknowledged; a request without an answer is in none of the fields."""

    objects: dict[str, int] = field(default_factory=dict)
    """The sizes of the objects that must be held, by oid."""
    locks: dict[str, str] = field(default_factory=dict)
    """The paths of the locks that must stand, by id."""
    unlocked: set[str] = field(default_factory=set)
    """The ids of the locks that must be gone."""

    def warm(self) -> bool:
        """Tell whether a few of each kind are acknowledged."""
        return len(self.objects) >= 3 and len(self.locks) >= 2 and len(self.unlocked) >= 2


class Activity:
    """Clients that work until `stop`, and tell in `reached` when `moment` has come.

    Whoever reaches the moment waits for `struck` before going on; all others go on as they are. Failures
    count as not acknowledged and are no errors here.
    """

    def __init__(self, client: Client, name: str, moment: Moment) -> None:
        self.ledger = Ledger()
        self.reached = asyncio.Event()
        self.struck = asyncio.Event()
        self.stop = asyncio.Event()
        self._client = client
        self._name = name
        self._moment = moment
        self._warm = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop`; raise what was no failure of the service."""
        async with asyncio.TaskGroup() as group:
            if self._moment in _MOMENTS.values():
                group.create_task(self._upload_slowly())
            for worker in range(3):
                group.create_task(self._repeat(self._upload, worker))
                group.create_task(self._repeat(self._lock_and_unlock, worker))

    async def _reach(self, moment: Moment) -> None:
        if self.ledger.warm():
            self._warm.set()
        if moment is self._moment and self._warm.is_set():
            self.reached.set()
            await self.struck.wait()

    async def _repeat(self, work: Callable[[str], Awaitable[None]], worker: int) -> None:
        number = 0
        while not self.stop.is_set():
            number += 1
            try:
                await work(f"{self._name}/{worker}-{number}")
            except (httpx.TransportError, httpx.HTTPStatusError):
                await asyncio.sleep(_PAUSE)
            if self.struck.is_set():
                await asyncio.sleep(_PAUSE)

    async def _upload(self, name: str) -> None:
        data = content(name, 50_000 + 1000 * (len(self.ledger.objects) % 300))
        answer = await self._client.upload(data)
        if answer.status_code == 200:
            self.ledger.objects[oid_of(data)] = len(data)
            await self._reach(Moment.UPLOADED)

    async def _lock_and_unlock(self, name: str) -> None:
        """Make two locks and remove the first."""
        made = []
        for path in (f"{name}-goes.dat", f"{name}-stays.dat"):
            answer = await self._client.lock(path)
            answer.raise_for_status()
            lock_id = answer.json()["lock"]["id"]
            self.ledger.locks[lock_id] = path
            made.append(lock_id)
            await self._reach(Moment.LOCKED)
        # Until the answer comes, nobody can say whether it stands.
        del self.ledger.locks[made[0]]
        answer = await self._client.unlock(made[0])
        answer.raise_for_status()
        self.ledger.unlocked.add(made[0])
        await self._reach(Moment.UNLOCKED)

    async def _upload_slowly(self) -> None:
        data = content(f"{self._name}/slow", _PARTS * _PART_BYTES)
        try:
            answer = await self._client.upload(data, body=self._parts(data))
        except (httpx.TransportError, httpx.HTTPStatusError):
            return
        if answer.status_code == 200:
            self.ledger.objects[oid_of(data)] = len(data)

    async def _parts(self, data: bytes) -> AsyncIterator[bytes]:
        for number in range(_PARTS):
            yield data[number * _PART_BYTES : (number + 1) * _PART_BYTES]
            # Here the part has been handed to the operating system.
            moment = _MOMENTS.get(number + 1)
            if moment is self._moment:
                await self._warm.wait()
                await self._reach(moment)
