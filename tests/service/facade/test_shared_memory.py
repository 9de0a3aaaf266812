"""Uploads by way of memory that the facade shares with storage, and what they do without it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from towpath.storage.v1 import storage_service_pb2 as pb

from services.facade.auth.action_tokens import Operation
from services.facade.objects import upload
from tests.service.facade.conftest import Inner, Place, new_place
from tests.service.facade.inner_failures import OID, action_of, check_error, running_scripted
from tests.support.facade import running_facade
from tests.support.http import content, oid_of
from tests.support.loop import settled
from tests.support.waiting import until

MIB = 1024**2


def calls(method: str, status: str = "OK") -> float:
    """Return how many calls of a method have ended so."""
    labels = {"method": f"/towpath.storage.v1.StorageService/{method}", "status": status}
    return REGISTRY.get_sample_value("towpath_grpc_requests_total", labels) or 0


def ended() -> Callable[[], tuple[float, float]]:
    """Return what tells how many objects have come by way of memory, and how many in streams of messages, since."""
    shared, streamed = calls("WriteSharedObject"), calls("WriteObject")
    return lambda: (calls("WriteSharedObject") - shared, calls("WriteObject") - streamed)


async def is_held(place: Place, data: bytes) -> bool:
    """Tell whether an object was stored as it is, and nothing is left of its way."""
    assert await place.inner.storage.read(place.repository_id, oid_of(data)) == data
    return place.inner.storage.incoming() == [] and list(place.inner.memory.iterdir()) == []


@pytest.mark.parametrize("size", [MIB + 1, 2 * MIB, 4 * MIB, 4 * MIB + 1, 13_000_001])
async def test_a_large_object_goes_through_memory(place: Place, size: int) -> None:
    """Byte for byte, and no name stays in the folder."""
    data, since = content(f"shared {size}", size), ended()
    async with place.client() as alice:
        assert (await alice.upload(data)).status_code == 200
    # A call is counted when it has ended, which is after its answer.
    await until(lambda: since() == (1, 0))
    assert await is_held(place, data)


async def test_a_small_object_goes_in_a_message(place: Place) -> None:
    """That costs less."""
    data, since = content("small", MIB), ended()
    async with place.client() as alice:
        assert (await alice.upload(data)).status_code == 200
    assert since() == (0, 0)
    assert await is_held(place, data)


async def test_a_slow_client(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage takes a slow client for a dead one, so the facade passes bytes on even before a piece is full."""
    monkeypatch.setattr(upload, "_MAX_HOLD_SECONDS", 0.0)
    data, since = content("slow", 2 * MIB + 7), ended()

    async def body() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 100_003):
            yield data[start : start + 100_003]
            await settled()

    async with place.client() as alice:
        assert (await alice.upload(data, body=body())).status_code == 200
    # A call is counted when it has ended, which is after its answer.
    await until(lambda: since() == (1, 0))
    assert await is_held(place, data)


@pytest.mark.parametrize("exists", [True, False])
async def test_memory_that_is_not_shared(inner: Inner, tmp_path: Path, exists: bool) -> None:
    """Bytes go in messages where the folder is another one or none, and storage is not asked again and again."""
    folder = tmp_path / "other"
    if exists:
        folder.mkdir()
    refused, since = calls("WriteSharedObject", "FAILED_PRECONDITION"), ended()
    async with inner.running_facade(shared_memory_path=folder) as facade:
        place = await new_place(facade, inner)
        for number in range(3):
            data = content(f"not shared {exists} {number}", 3 * MIB)
            async with place.client() as alice:
                assert (await alice.upload(data)).status_code == 200
            assert await is_held(place, data)
    await until(lambda: since() == (0, 3))
    assert calls("WriteSharedObject", "FAILED_PRECONDITION") - refused == exists
    assert not exists or list(folder.iterdir()) == []


async def test_a_storage_that_is_older(tmp_path: Path) -> None:
    """It does not know the call, and is sent messages."""
    size = MIB + 1
    async with running_scripted(tmp_path) as (scripted, address):
        taken: list[bytes] = []

        async def write(messages: AsyncIterator[pb.WriteObjectRequest]) -> pb.WriteObjectResponse:
            taken.extend([message.data async for message in messages][1:])
            return pb.WriteObjectResponse(object=pb.Object(oid=OID, size=size))

        scripted.answers["WriteObject"] = write
        async with running_facade(address, address, shared_memory_path=tmp_path) as facade:
            assert (await action_of(facade, Operation.UPLOAD, size).put(bytes(size))).status_code == 200
    assert b"".join(taken) == bytes(size)


async def test_memory_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many uploads at once the first sixteen go through it, and the others in messages."""
    monkeypatch.setattr(upload, "_MAX_HOLD_SECONDS", 0.0)
    objects = [content(f"at once {number}", MIB + number + 1) for number in range(19)]
    since, go_on = ended(), asyncio.Event()

    async def body(data: bytes) -> AsyncIterator[bytes]:
        yield data[:-1]
        await go_on.wait()
        yield data[-1:]

    async with place.client() as alice, asyncio.TaskGroup() as group:
        uploads = [group.create_task(alice.upload(data, body=body(data))) for data in objects]
        incoming = place.inner.storage.incoming
        await until(lambda: len(incoming()) == len(objects))
        go_on.set()
        assert [(await each).status_code for each in uploads] == [200] * len(objects)
    assert since() == (16, 3)
    for data in objects:
        assert await is_held(place, data)


async def test_what_storage_refuses(place: Place) -> None:
    """The client is told why, at the end and in the middle, and nothing is left."""
    data = content("refused", 5 * MIB)
    async with place.client() as alice:
        action = await alice.offered("upload", data)
        check_error(await alice.put(action, bytes(len(data)), len(data)), 400)

        async def too_long() -> AsyncIterator[bytes]:
            for _ in range(40):
                yield bytes(MIB)

        check_error(await alice.http.put(action.href, content=too_long(), headers=action.header), 400)
        assert (await alice.put(action, data, len(data))).status_code == 200
    assert await is_held(place, data)


async def test_a_client_that_goes(place: Place) -> None:
    """Nothing is left of its upload."""
    data = content("gone", 5 * MIB)

    async def body() -> AsyncIterator[bytes]:
        yield data[: 3 * MIB]
        await until(place.inner.storage.incoming)
        raise ConnectionError

    async with place.client() as alice:
        with suppress(ConnectionError):
            await alice.upload(data, body=body())
    await until(lambda: place.inner.storage.incoming() == list(place.inner.memory.iterdir()) == [])
