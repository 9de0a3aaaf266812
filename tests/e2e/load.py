"""Clients that ask for everything there is, over and over, and write down what they were answered."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx

from tests.support.http import Action, Client, content, oid_of

LARGE = 32 * 1024 * 1024
_PIECE = 1024 * 1024


@dataclass(frozen=True)
class Request:
    """One request: when it was begun and ended, on the monotonic clock, and what was wrong with its answer."""

    kind: str
    began: float
    ended: float
    problem: str | None


class Load:
    """Everything that clients do, at once, until `stop`."""

    def __init__(self, client: Client, name: str) -> None:
        self.requests: list[Request] = []
        self.stop = asyncio.Event()
        self.resume = asyncio.Event()
        self.half_sent = asyncio.Event()
        self.half_read = asyncio.Event()
        self._client = client
        self._name = name
        self._held = content(f"{name}/held", _PIECE)
        self._large = content(f"{name}/large", LARGE)

    async def prepare(self) -> None:
        """Upload what is downloaded later."""
        for data in (self._held, self._large):
            assert (await self._client.upload(data)).status_code == 200

    async def run(self) -> None:
        """Work until `stop`."""
        async with asyncio.TaskGroup() as group:
            for work in (self._batch, self._list, self._verify, self._lock, self._upload, self._download):
                group.create_task(self._repeat(work))
            group.create_task(self._upload_with_a_pause())
            group.create_task(self._download_with_a_pause())

    def succeeded_since(self, moment: float) -> set[str]:
        """Return the kinds of request that have succeeded of those begun after a moment."""
        return {request.kind for request in self.requests if request.began > moment and request.problem is None}

    async def _repeat(self, work: Callable[[int], Awaitable[None]]) -> None:
        number = 0
        while not self.stop.is_set():
            number += 1
            await work(number)

    async def _ask(self, kind: str, request: Awaitable[httpx.Response], expected: int = 200) -> httpx.Response | None:
        """Perform a request and write it down; return its answer if it is the expected one."""
        began = time.monotonic()
        answer, problem = None, None
        try:
            answer = await request
            if answer.status_code != expected:
                problem = f"{answer.status_code}: {answer.text}"
        except httpx.HTTPError as error:
            problem = repr(error)
        self.requests.append(Request(kind, began, time.monotonic(), problem))
        return answer if problem is None else None

    async def _action(self, operation: str, data: bytes) -> Action | None:
        answer = await self._ask(f"{operation} batch", self._client.batch(operation, (oid_of(data), len(data))))
        if answer is None:
            return None
        action = answer.json()["objects"][0]["actions"][operation]
        return Action(action["href"], action["header"])

    async def _batch(self, number: int) -> None:
        await self._action("upload", content(f"{self._name}/never {number}", 100))

    async def _list(self, number: int) -> None:
        await self._ask("list locks", self._client.locks(limit=1 + number % 5))

    async def _verify(self, number: int) -> None:
        await self._ask("verify locks", self._client.post("locks/verify", limit=1 + number % 5))

    async def _lock(self, number: int) -> None:
        made = await self._ask("create lock", self._client.lock(f"{self._name}/{number}.dat"), 201)
        if made is not None:
            await self._ask("delete lock", self._client.unlock(made.json()["lock"]["id"]))

    async def _upload(self, number: int) -> None:
        data = content(f"{self._name}/{number}", 200_000)
        action = await self._action("upload", data)
        if action is not None:
            await self._ask("upload", self._client.put(action, data, len(data)))

    async def _download(self, _number: int) -> None:
        action = await self._action("download", self._held)
        if action is not None:
            answer = await self._ask("download", self._client.http.get(action.href, headers=action.header))
            assert answer is None or answer.content == self._held

    async def _upload_with_a_pause(self) -> None:
        """Send half of a large object, and the rest after `resume`."""
        data = content(f"{self._name}/paused", LARGE)

        async def body() -> AsyncIterator[bytes]:
            for offset in range(0, LARGE, _PIECE):
                if offset == LARGE // 2:
                    self.half_sent.set()
                    await self.resume.wait()
                yield data[offset : offset + _PIECE]

        action = await self._action("upload", data)
        assert action is not None
        await self._ask("paused upload", self._client.put(action, body(), LARGE))

    async def _download_with_a_pause(self) -> None:
        """Read the beginning of a large object, and the rest after `resume`."""
        action = await self._action("download", self._large)
        assert action is not None

        async def read() -> httpx.Response:
            received = bytearray()
            async with self._client.http.stream("GET", action.href, headers=action.header) as answer:
                async for piece in answer.aiter_bytes():
                    if not received:
                        self.half_read.set()
                        await self.resume.wait()
                    received += piece
            assert received == self._large
            return answer

        await self._ask("paused download", read())
