"""Which places of objects a facade reads without asking, by what storage tells of removals; and what it reports."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Reason, Unavailable
from services.facade.action_tokens import ActionTokens, Operation, Permit, Place
from tests.service.facade.inner_failures import DATA, OID, Scripted, running_scripted
from tests.support.action_tokens import issue
from tests.support.facade import SIGNING_KEY, RunningFacade, running_facade
from tests.support.http import Action
from tests.support.waiting import STEP_SECONDS, until

SUFFIX = "0123456789abcdef"
AWAY = Unavailable(Reason.UNAVAILABLE, "the database does not answer")


@asynccontextmanager
async def _scripted(folder: Path) -> AsyncIterator[tuple[Scripted, RunningFacade, Action]]:
    """Services of whose removals the test decides, a facade, and the action on DATA, which lies at its place."""
    async with running_scripted(folder) as (inner, address):
        path = folder / "objects" / OID[:2] / OID[2:4] / f"{OID}.{SUFFIX}"
        path.parent.mkdir(parents=True)
        path.write_bytes(DATA)
        inner.reply("LocateObject", pb.LocateObjectResponse(size=len(DATA), paths=[str(path.relative_to(folder))]))
        inner.reply("LocateObjects", pb.LocateObjectsResponse(objects=[pb.LocateObjectResponse()]))
        inner.reply("CountReads", pb.CountReadsResponse())
        async with running_facade(address, address, rpc_seconds=2.5, shared_storage_path=folder) as facade:
            yield inner, facade, _action(facade)


def _action(facade: RunningFacade, place: Place | None = None) -> Action:
    permit = Permit(
        Operation.DOWNLOAD, "demo/assets", 1, OID, len(DATA), "alice", place=place or Place(SUFFIX, 100, 50)
    )
    token = issue(ActionTokens(SecretStr(SIGNING_KEY)), permit, int(time.time()) + 60)
    return Action(f"{facade.origin}/demo/assets/objects/{OID}", {"Authorization": f"Bearer {token}"})


async def _get(action: Action) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        return await http.get(action.href, headers=action.header)


async def _asks(inner: Scripted, action: Action) -> bool:
    """Download, and tell whether storage was asked where the object lies."""
    asked = False
    answer = inner.answers["LocateObject"]

    async def locate(request: object) -> object:
        nonlocal asked
        asked = True
        return await answer(request)

    inner.answers["LocateObject"] = locate
    try:
        assert (await _get(action)).content == DATA
    finally:
        inner.answers["LocateObject"] = answer
    return asked


async def test_an_older_storage_is_asked_each_time(tmp_path: Path) -> None:
    """It does not tell of removals."""
    async with _scripted(tmp_path) as (inner, _, action):
        for _ in range(3):
            assert await _asks(inner, action)


@pytest.mark.parametrize(
    ("place", "asks"),
    [
        (Place(SUFFIX, 100, 50), False),
        (Place(SUFFIX, 100, 49), True),
        (Place(SUFFIX, 99, 50), True),
        (Place("0" * 16, 100, 50), True),
        (Place(f"{SUFFIX}/../{OID}.{SUFFIX}", 100, 50), True),
        (Place("", 100, 50), True),
    ],
)
async def test_which_places_are_read(tmp_path: Path, place: Place, *, asks: bool) -> None:
    """Of the same start of the database, no older than the last removal, and whose file is there."""
    async with _scripted(tmp_path) as (inner, facade, action):
        told = pb.WatchRemovalsResponse(server_started=100, known_since=50)
        inner.reply("WatchRemovals", told)

        async def is_settled() -> bool:
            return not await _asks(inner, action)

        await until(is_settled)
        assert await _asks(inner, _action(facade, place)) is asks


async def test_an_answer_that_comes_late_allows_nothing(tmp_path: Path) -> None:
    """It holds from when it was asked for: later than that it is worth nothing."""
    async with _scripted(tmp_path) as (inner, _, action):

        async def late(_request: object) -> pb.WatchRemovalsResponse:
            await asyncio.sleep(1.0)
            return pb.WatchRemovalsResponse(server_started=100, known_since=50)

        inner.answers["WatchRemovals"] = late
        for _ in range(6):
            assert await _asks(inner, action)
            await asyncio.sleep(0.3)


async def test_reports_that_fail_are_made_again(tmp_path: Path) -> None:
    """Nothing that was read is lost."""
    async with _scripted(tmp_path) as (inner, _, action):
        inner.reply("WatchRemovals", pb.WatchRemovalsResponse(server_started=100, known_since=50))
        counted: list[dict[int, int]] = []
        fails = True

        async def count(request: pb.CountReadsRequest) -> pb.CountReadsResponse:
            if fails:
                raise AWAY
            counted.append(dict(request.bytes))
            return pb.CountReadsResponse()

        inner.answers["CountReads"] = count

        async def is_settled() -> bool:
            return not await _asks(inner, action)

        await until(is_settled)
        for _ in range(3):
            assert not await _asks(inner, action)
        await asyncio.sleep(1)
        assert not counted
        fails = False
        await until(lambda: bool(counted))
        # Beside those three, the one that settled it.
        assert counted[0] == {1: 4 * len(DATA)}
