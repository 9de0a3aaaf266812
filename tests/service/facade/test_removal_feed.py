"""Answers of a facade without a call, by the removal feed of storage: downloads at known places, and verify."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Reason, Unavailable
from services.facade.auth.action_tokens import ObjectLocation, Operation
from services.facade.clients import watch
from services.facade.objects import removal_feed
from tests.service.facade.inner_failures import DATA, OID, Scripted, action_of, running_scripted
from tests.support.facade import RunningFacade, running_facade
from tests.support.http import MEDIA_TYPE, Action
from tests.support.waiting import STEP_SECONDS, until, until_answer

SUFFIX = "0123456789abcdef"
KNOWN = ObjectLocation(SUFFIX, 100, 50)
Feed = tuple[Scripted, RunningFacade, Action]
AWAY = Unavailable(Reason.UNAVAILABLE, "the database does not answer")


@pytest.fixture
async def feed(tmp_path: Path) -> AsyncIterator[Feed]:
    """Services of whose removals the test decides, a facade, and the action on DATA, which lies at its place."""
    async with running_scripted(tmp_path) as (inner, address):
        path = tmp_path / "objects" / OID[:2] / OID[2:4] / f"{OID}.{SUFFIX}"
        path.parent.mkdir(parents=True)
        path.write_bytes(DATA)
        inner.reply("LocateObject", pb.LocateObjectResponse(size=len(DATA), paths=[str(path.relative_to(tmp_path))]))
        inner.reply("CountReads", pb.CountReadsResponse())
        async with running_facade(address, address, rpc_seconds=2.5, shared_storage_path=tmp_path) as facade:
            yield inner, facade, action_of(facade, Operation.DOWNLOAD, place=KNOWN)


async def _asks(inner: Scripted, action: Action) -> bool:
    """Download, and tell whether storage was asked where the object lies."""
    answer, asked = inner.answers["LocateObject"], inner.record("LocateObject")
    try:
        assert (await action.get()).content == DATA
    finally:
        inner.answers["LocateObject"] = answer
    return bool(asked)


async def test_an_older_storage_is_asked_each_time(feed: Feed) -> None:
    """It does not tell of removals."""
    inner, _, action = feed
    for _ in range(3):
        assert await _asks(inner, action)


@pytest.mark.parametrize(
    ("place", "asks"),
    [
        (KNOWN, False),
        (ObjectLocation(SUFFIX, 100, 49), True),
        (ObjectLocation(SUFFIX, 99, 50), True),
        (ObjectLocation("0" * 16, 100, 50), True),
        (ObjectLocation(f"{SUFFIX}/../{OID}.{SUFFIX}", 100, 50), True),
        (ObjectLocation("", 100, 50), True),
    ],
)
async def test_which_places_are_read(feed: Feed, place: ObjectLocation, *, asks: bool) -> None:
    """Of the same start of the database, no older than the last removal, and whose file is there."""
    inner, facade, action = feed
    told = pb.WatchRemovalsResponse(server_started=100, known_since=50)
    inner.reply("WatchRemovals", told)
    await until_answer(expected=False, ask=lambda: _asks(inner, action))
    assert await _asks(inner, action_of(facade, Operation.DOWNLOAD, place=place)) is asks


async def test_an_answer_that_comes_late_allows_nothing(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer holds from when it was asked for, so the facade does not wait for one that no longer would."""
    hold_seconds = 0.1
    for module in (watch, removal_feed):
        monkeypatch.setattr(module, "HOLD_SECONDS", hold_seconds)
    inner, _, action = feed
    begun = 0

    async def come_late(_request: object) -> pb.WatchRemovalsResponse:
        nonlocal begun
        begun += 1
        await asyncio.sleep(2 * hold_seconds)
        return pb.WatchRemovalsResponse(server_started=100, known_since=50)

    async def came_twice() -> bool:
        assert await _asks(inner, action)
        return begun > 2

    inner.answers["WatchRemovals"] = come_late
    await until(came_twice)


async def test_reports_that_fail_are_made_again(feed: Feed) -> None:
    """Nothing that was read is lost."""
    inner, _, action = feed
    inner.reply("WatchRemovals", pb.WatchRemovalsResponse(server_started=100, known_since=50))
    counted: list[dict[int, int]] = []
    failed, fails = 0, True

    async def count(request: pb.CountReadsRequest) -> pb.CountReadsResponse:
        nonlocal failed
        if fails:
            failed += 1
            raise AWAY
        counted.append(dict(request.bytes))
        return pb.CountReadsResponse()

    inner.answers["CountReads"] = count
    await until_answer(expected=False, ask=lambda: _asks(inner, action))
    for _ in range(3):
        assert not await _asks(inner, action)
    failed = 0
    await until(lambda: failed > 1, "a report fails, and is made again")
    fails = False
    await until(lambda: bool(counted))
    # Beside those three, the one that settled it.
    assert counted[0] == {1: 4 * len(DATA)}


class _Uploads:
    """A client that uploads DATA and verifies it, and storage, which counts what it is asked."""

    def __init__(self, inner: Scripted, facade: RunningFacade) -> None:
        self.asked = 0
        self.status = pb.OBJECT_STATUS_PRESENT
        self._facade = facade
        self.inner = inner
        held = pb.WriteWholeObjectResponse(object=pb.Object(oid=OID, size=len(DATA)))
        inner.reply("WriteWholeObject", held)
        inner.answers["BatchStatObjects"] = self._stat
        self.tell(50)

    async def _stat(self, _request: object) -> pb.BatchStatObjectsResponse:
        self.asked += 1
        stat = pb.BatchStatObjectsResponse.ObjectStat(status=self.status, size=len(DATA))
        return pb.BatchStatObjectsResponse(objects=[stat])

    def tell(self, known_since: int) -> None:
        """Tell of removals from now on."""
        self.inner.reply("WatchRemovals", pb.WatchRemovalsResponse(server_started=100, known_since=known_since))

    async def put(self) -> None:
        """Upload."""
        assert (await action_of(self._facade, Operation.UPLOAD).put(DATA)).status_code == 200

    async def verify(self, size: int = len(DATA)) -> int:
        """Verify, and return the status."""
        action = action_of(self._facade, Operation.VERIFY, size)
        headers = {**action.header, "Content-Type": MEDIA_TYPE}
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            answer = await http.post(action.href, headers=headers, json={"oid": OID, "size": size})
        return answer.status_code

    async def settle(self) -> None:
        """Upload until the facade remembers it."""

        async def is_remembered() -> bool:
            await self.put()
            before = self.asked
            assert await self.verify() == 200
            return self.asked == before

        await until(is_remembered)
        self.asked = 0


@pytest.fixture
async def uploads(feed: Feed) -> _Uploads:
    """Uploads through a facade that has begun to learn of removals."""
    inner, facade, _ = feed
    uploads = _Uploads(inner, facade)
    await uploads.settle()
    return uploads


async def test_what_was_just_committed_is_verified_from_memory(uploads: _Uploads) -> None:
    """That object, in that size; of another one storage is asked."""
    assert [await uploads.verify() for _ in range(3)] == [200] * 3
    assert uploads.asked == 0
    assert await uploads.verify(99) == 404
    assert uploads.asked == 1


async def test_a_removal_ends_what_is_remembered_of_uploads(uploads: _Uploads) -> None:
    """A verify action of an object that was removed since its upload is told so, once the feed has reported it."""
    uploads.status = pb.OBJECT_STATUS_REMOVED
    uploads.tell(51)
    await until_answer(410, uploads.verify)


async def test_uploads_are_not_remembered_where_removals_are_not_known(uploads: _Uploads) -> None:
    """Storage is asked once the last answer is too old."""
    uploads.inner.fail("WatchRemovals", AWAY)

    async def is_asked() -> bool:
        assert await uploads.verify() == 200
        return uploads.asked > 0

    await until(is_asked)
    uploads.asked = 0
    await uploads.put()
    assert [await uploads.verify() for _ in range(3)] == [200] * 3
    assert uploads.asked == 3
