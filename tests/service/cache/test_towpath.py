"""A cache in front of a real Towpath: one fetch for all, rights as the upstream says, locks and uploads through it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from towpath.access.v1 import admin_service_pb2 as admin

from tests.service.cache.conftest import MIB, Inner, Office, new_place
from tests.support.cache import running_cache
from tests.support.facade import RunningFacade
from tests.support.http import Client, basic, content, oid_of
from tests.support.waiting import STEP_SECONDS, until


async def test_sixteen_readers_and_one_fetch(office: Office) -> None:
    """All ask at once, by one slow way: the upstream sends the object once, and each reader has it whole."""
    data = content("sixteen", 8 * MIB)
    await office.hold(data)
    office.proxy.bytes_per_second = 16 * MIB
    clients = [office.client("alice" if number % 2 else "bob") for number in range(16)]
    try:
        answers = await asyncio.gather(*(client.download(oid_of(data), len(data)) for client in clients))
    finally:
        for client in clients:
            await client.http.aclose()
    assert [answer.status_code for answer in answers] == [200] * 16
    assert all(answer.content == data for answer in answers)
    assert office.sent(oid_of(data)) == 1
    assert await office.cache.metric("towpath_cache_fetched_bytes_total") == len(data)
    assert await office.cache.metric("towpath_cache_downloads_total", source="fetched") == 1
    assert office.cache.kept == {oid_of(data)}


@pytest.mark.parametrize("right_seconds", [0, 600])
async def test_kept_objects_are_answered_here(office: Office, right_seconds: float) -> None:
    """Within the time of a right, neither batch nor download reaches the upstream; without it, the batch alone does."""
    data = content("kept", 300_000)
    await office.hold(data)
    async with office.client() as alice:
        assert (await alice.download(oid_of(data), len(data))).content == data
        before = len(office.proxy.requests)
        assert (await alice.download(oid_of(data), len(data))).content == data
        assert office.sent(oid_of(data)) == 1
        assert len(office.proxy.requests) == before + (1 if right_seconds == 0 else 0)


@pytest.mark.parametrize("right_seconds", [600])
async def test_without_a_right_nothing_is_got(office: Office) -> None:
    """Carol gets the upstream's own refusal, though the object is here and alice's right to it is remembered."""
    data = content("private", 100_000)
    await office.hold(data)
    async with office.client() as alice, office.client("carol") as carol, office.place.client("carol") as directly:
        assert (await alice.download(oid_of(data), len(data))).content == data
        refused = await carol.batch("download", (oid_of(data), len(data)))
        expected = await directly.batch("download", (oid_of(data), len(data)))
        assert (refused.status_code, refused.json()["message"]) == (expected.status_code, expected.json()["message"])
        assert refused.status_code in (403, 404)
        action = await alice.offered("download", data)
        assert (await carol.http.get(action.href)).status_code == 403
        base, _, oid = action.href.rpartition("/objects/")
        other = f"{base.removesuffix(office.place.name)}studio/another/objects/{oid}"
        assert (await alice.http.get(other, headers=action.header)).status_code == 403
        another = f"{base}/objects/{oid_of(b'another')}"
        assert (await alice.http.get(another, headers=action.header)).status_code == 403
        assert (await alice.http.put(action.href, headers=action.header, content=b"")).status_code == 403


async def test_bad_credentials_are_the_upstreams_affair(office: Office) -> None:
    """The challenge of the upstream comes through, by which git asks for a password."""
    async with Client(f"{office.cache.origin}/{office.place.name}", "alice", "wrong") as stranger:
        answer = await stranger.batch("download", (oid_of(b""), 0))
    assert answer.status_code == 401
    assert "Blob-Authenticate" in answer.headers
    assert "LFS-Authenticate" in answer.headers


@pytest.mark.parametrize("right_seconds", [1])
async def test_an_ended_right_ends_here(office: Office) -> None:
    """A grant that is taken away counts once the remembered right has passed."""
    data = content("ended", 50_000)
    await office.hold(data)
    async with office.client("bob") as bob:
        assert (await bob.download(oid_of(data), len(data))).content == data
        locks = office.place.inner.locks
        request = admin.RevokeAccessRequest(user_name="bob", repository=office.place.name)
        await locks.admin_peer.call(locks.admin.RevokeAccess, request)

        async def is_refused() -> bool:
            return (await bob.batch("download", (oid_of(data), len(data)))).status_code != httpx.codes.OK

        await until(is_refused, "the cache asks again")


async def test_uploads_pass_through_and_are_not_kept(office: Office) -> None:
    """The upload and its verification lead to the cache, and the upstream holds the object afterwards."""
    data = content("pushed", 3 * MIB)
    async with office.client() as alice:
        response = await alice.batch("upload", (oid_of(data), len(data)))
        [entry] = response.json()["objects"]
        assert {action["href"].startswith(f"{office.cache.origin}/") for action in entry["actions"].values()} == {True}
        assert (await alice.upload(data)).status_code == 200
        verify = entry["actions"]["verify"]
        told = {"oid": oid_of(data), "size": len(data)}
        headers = {**verify["header"], "Content-Type": "application/vnd.blob+json"}
        assert (await alice.http.post(verify["href"], json=told, headers=headers)).status_code == 200
        assert office.cache.kept == set()
        held = await alice.batch("upload", (oid_of(data), len(data)))
        assert "actions" not in held.json()["objects"][0]
    async with office.place.client("bob") as bob:
        assert (await bob.download(oid_of(data), len(data))).content == data


async def test_an_upload_of_another_length_is_refused(office: Office) -> None:
    """Neither more nor fewer bytes than the batch said reach the upstream as the object."""
    data = content("measured", 10_000)
    async with office.client() as alice:
        for wrong in (data[:-1], data + b"!"):
            action = await alice.offered("upload", data)
            answer = await alice.put(action, wrong, len(wrong))
            assert answer.status_code == 400, answer.text


async def test_locks_pass_through(office: Office) -> None:
    """Lock, conflict, list, verification and unlock are the upstream's."""
    async with office.client() as alice, office.client("bob", ref="refs/heads/bob") as bob:
        locked = await alice.lock("cut/scene.blend")
        assert locked.status_code == 201, locked.text
        conflict = await bob.lock("cut/scene.blend")
        assert conflict.status_code == 409
        assert conflict.json()["lock"]["owner"]["name"] == "alice"
        assert [lock["path"] for lock in await bob.all_locks()] == ["cut/scene.blend"]
        verified = await alice.post("locks/verify")
        assert [lock["path"] for lock in verified.json()["ours"]] == ["cut/scene.blend"]
        assert (await alice.unlock(locked.json()["lock"]["id"])).status_code == 200
        assert await alice.all_locks() == []


async def test_watches_through_a_cache_are_bounded(facade: RunningFacade, inner: Inner, tmp_path: Path) -> None:
    """As at the upstream: strangers have a tenth of them, and credentials a quarter."""
    place = await new_place(facade, inner, public=True)
    shown = [{"Authorization": basic(user, inner.tokens[user])} for user in ("alice", "bob")]
    async with (
        running_cache(tmp_path / "office", facade.origin, lock_watches=8) as cache,
        httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http,
        AsyncExitStack() as streams,
    ):

        async def status(headers: dict[str, str]) -> int:
            stream = http.stream("GET", f"{cache.origin}/{place.name}/locks/events", headers=headers)
            return (await streams.enter_async_context(stream)).status_code

        assert [await status({}) for _ in range(2)] == [200, 429]
        assert [await status(shown[0]) for _ in range(3)] == [200, 200, 429]
        assert await status(shown[1]) == 200
        assert await cache.metric("towpath_lock_watches") == 4
        await streams.aclose()

        async def is_empty() -> bool:
            return await cache.metric("towpath_lock_watches") == 0

        await until(is_empty, "the watches have ended")
        assert await status({}) == 200
