"""Questions of the facade to AccessService, and answers that it caches (docs/decisions/0018)."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.protobuf.message import Message
from towpath.access.v1 import access_service_pb2 as access

from tests.service.facade.inner_failures import Scripted, client_of
from tests.support.facade import RunningFacade
from tests.support.http import Client
from tests.support.waiting import until

NOW = access.AuthenticateResponse(user_id=1, user_name="alice", keep_seconds=60)
BEFORE = access.AuthenticateResponse(user_id=1, user_name="alice")
QUESTIONS = ("Authenticate", "CheckAccess")


def _count(scripted: Scripted) -> Counter[str]:
    """Count the questions from now on."""
    asked: Counter[str] = Counter()

    def counted(name: str) -> Callable[[Any], Awaitable[Message]]:
        answer = scripted.answers[name]

        async def count(request: object) -> Message:
            asked[name] += 1
            reply: Message = await answer(request)
            return reply

        return count

    for name in QUESTIONS:
        scripted.answers[name] = counted(name)
    return asked


class Watched:
    """A lock service that tells of changes."""

    def __init__(self, scripted: Scripted) -> None:
        self.changes = 0
        self._learnt: int | None = None
        self._changed = asyncio.Event()
        scripted.answers["WatchAccess"] = self._answer

    async def _answer(self, request: access.WatchAccessRequest) -> access.WatchAccessResponse:
        self._learnt = request.known.get("one")
        if self._learnt == self.changes:
            await asyncio.wait({asyncio.create_task(self._changed.wait())}, timeout=request.wait_seconds)
        return access.WatchAccessResponse(source="one", changes=self.changes)

    async def change_and_be_heard(self) -> None:
        """Tell of one, and wait until the facade knows it."""
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()
        await until(lambda: self._learnt == self.changes)


async def _asked_by(facade: RunningFacade, asked: Counter[str], requests: int, *, ref: str = "main") -> Counter[str]:
    """Return what is asked for some requests."""
    asked.clear()
    async with client_of(facade) as client:
        client.ref = ref
        for _ in range(requests):
            assert (await client.batch("upload")).status_code == 200
    return Counter(asked)


async def test_a_lock_service_of_before_is_asked_each_time(scripted: tuple[Scripted, RunningFacade]) -> None:
    """It does not know WatchAccess: nothing can be known of changes."""
    inner, facade = scripted
    inner.reply("Authenticate", NOW)
    assert await _asked_by(facade, _count(inner), 10) == dict.fromkeys(QUESTIONS, 10)


async def test_what_a_lock_service_of_before_says_of_a_token_is_not_kept(
    scripted: tuple[Scripted, RunningFacade],
) -> None:
    """Its expiry is not told; in the midst of an upgrade, another one may know WatchAccess."""
    inner, facade = scripted
    inner.reply("Authenticate", BEFORE)
    Watched(inner)
    asked = _count(inner)

    async def permission_is_remembered() -> bool:
        return (await _asked_by(facade, asked, 3))["CheckAccess"] == 0

    await until(permission_is_remembered)
    assert (await _asked_by(facade, asked, 3))["Authenticate"] == 3


async def test_the_owner_of_a_forges_token_is_kept_for_its_repository_alone(
    scripted: tuple[Scripted, RunningFacade],
) -> None:
    """The same text may be the credential of somebody else at the forge of another repository."""
    inner, facade = scripted
    inner.reply("Authenticate", NOW)
    Watched(inner)
    asked = _count(inner)

    async def is_remembered() -> bool:
        return not await _asked_by(facade, asked, 3)

    await until(is_remembered)
    async with Client(f"{facade.origin}/demo/other", "alice", "token") as client:
        assert (await client.batch("upload")).status_code == 200
    assert asked["Authenticate"] == 1


async def test_the_refs_of_a_reader_are_one_question(scripted: tuple[Scripted, RunningFacade]) -> None:
    """Anybody may read a public repository by thousands of refs, and would push out what others have asked."""
    inner, facade = scripted
    inner.reply("Authenticate", NOW)
    Watched(inner)
    asked = _count(inner)

    async def read(ref: str) -> int:
        asked.clear()
        async with client_of(facade) as client:
            client.ref = ref
            assert (await client.batch("download")).status_code == 200
        return asked["CheckAccess"]

    async def is_remembered() -> bool:
        return await read("main") == 0

    await until(is_remembered)
    assert [await read(ref) for ref in ("a", "b")] == [0, 0]


@pytest.mark.parametrize("ref", ["r" * 257, "r" * 100_000])
async def test_a_ref_as_long_as_somebody_likes_is_not_kept(scripted: tuple[Scripted, RunningFacade], ref: str) -> None:
    """Memory has bounds in bytes, too."""
    inner, facade = scripted
    inner.reply("Authenticate", NOW)
    Watched(inner)
    asked = _count(inner)

    async def is_remembered() -> bool:
        return not await _asked_by(facade, asked, 3)

    await until(is_remembered)
    assert (await _asked_by(facade, asked, 3, ref=ref))["CheckAccess"] == 3
