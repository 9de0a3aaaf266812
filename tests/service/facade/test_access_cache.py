"""Questions of the facade to AccessService, and answers that it caches (docs/decisions/0018)."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from towpath.access.v1 import access_service_pb2 as access

from tests.service.facade.inner_failures import Running, Scripted, client_of
from tests.support.facade import RunningFacade
from tests.support.http import Client
from tests.support.waiting import until, until_answer

NOW = access.AuthenticateResponse(user_id=1, user_name="alice", keep_seconds=60)
BEFORE = access.AuthenticateResponse(user_id=1, user_name="alice")
QUESTIONS = ("Authenticate", "CheckAccess")


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


@dataclass
class Asking:
    """A facade before scripted services that know who alice is, and what each question of the facade was."""

    inner: Scripted
    facade: RunningFacade
    asked: dict[str, list[Any]]

    async def count(self, requests: int, *, ref: str = "main", operation: str = "upload") -> dict[str, int]:
        """Return how often each question is asked for some requests."""
        for name in QUESTIONS:
            self.asked[name].clear()
        async with client_of(self.facade) as client:
            client.ref = ref
            for _ in range(requests):
                assert (await client.batch(operation)).status_code == 200
        return {name: len(self.asked[name]) for name in QUESTIONS}

    async def is_remembered(self) -> bool:
        """Tell whether nothing is asked for uploads any more."""
        return not any((await self.count(3)).values())


@pytest.fixture
def known() -> access.AuthenticateResponse:
    """The answer about alice's token, which a test may give another form."""
    return NOW


@pytest.fixture
def asking(scripted: Running, known: access.AuthenticateResponse) -> Asking:
    """The facade, whose lock service does not tell of changes."""
    inner, facade = scripted
    inner.reply("Authenticate", known)
    return Asking(inner, facade, {name: inner.record(name) for name in QUESTIONS})


@pytest.fixture
def watching(asking: Asking) -> Asking:
    """The same, where the lock service tells of changes."""
    Watched(asking.inner)
    return asking


async def test_a_lock_service_of_before_is_asked_each_time(asking: Asking) -> None:
    """It does not know WatchAccess: nothing can be known of changes."""
    assert await asking.count(10) == dict.fromkeys(QUESTIONS, 10)


@pytest.mark.parametrize("known", [BEFORE])
async def test_what_a_lock_service_of_before_says_of_a_token_is_not_kept(watching: Asking) -> None:
    """Its expiry is not told; in the midst of an upgrade, another one may know WatchAccess."""
    await until_answer({"Authenticate": 3, "CheckAccess": 0}, lambda: watching.count(3))


async def test_the_owner_of_a_forges_token_is_kept_for_its_repository_alone(watching: Asking) -> None:
    """The same text may be the credential of somebody else at the forge of another repository."""
    await until(watching.is_remembered)
    async with Client(f"{watching.facade.origin}/demo/other", "alice", "token") as client:
        assert (await client.batch("upload")).status_code == 200
    assert len(watching.asked["Authenticate"]) == 1


async def test_the_refs_of_a_reader_are_one_question(watching: Asking) -> None:
    """Anybody may read a public repository by thousands of refs, and would push out what others have asked."""

    async def asks(ref: str) -> int:
        return (await watching.count(1, ref=ref, operation="download"))["CheckAccess"]

    await until_answer(0, lambda: asks("main"))
    assert [await asks(ref) for ref in ("a", "b")] == [0, 0]


@pytest.mark.parametrize("ref", ["r" * 257, "r" * 100_000])
async def test_a_ref_as_long_as_somebody_likes_is_not_kept(watching: Asking, ref: str) -> None:
    """Memory has bounds in bytes, too."""
    await until(watching.is_remembered)
    assert (await watching.count(3, ref=ref))["CheckAccess"] == 3
