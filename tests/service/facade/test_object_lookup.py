"""Micro-batching of concurrent questions to storage about single objects; storage answers as each test says."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Reason, ServiceError, Unavailable
from services.common.rpc.client import ServiceClient
from services.facade.clients.object_lookup import ObjectLookupClient, ObjectStat
from tests.service.facade.inner_failures import Scripted

_OIDS = [f"{number:064x}" for number in range(20)]


class Inner:
    """Storage, as a test has it, and what it was asked."""

    def __init__(self, scripted: Scripted, objects: ObjectLookupClient) -> None:
        self.scripted = scripted
        self.objects = objects
        self.calls: list[Any] = []
        scripted.answers["BatchStatObjects"] = self._stat

    async def _stat(self, request: pb.BatchStatObjectsRequest) -> pb.BatchStatObjectsResponse:
        self.calls.append(request)
        objects = [
            pb.BatchStatObjectsResponse.ObjectStat(
                status=pb.OBJECT_STATUS_PRESENT, size=1000 * request.repository_id + each.size
            )
            for each in request.objects
        ]
        return pb.BatchStatObjectsResponse(objects=objects)


@pytest.fixture
async def inner(scripted_peer: tuple[Scripted, ServiceClient]) -> AsyncIterator[Inner]:
    """Storage, and the client whose questions are grouped."""
    scripted, peer = scripted_peer
    objects = ObjectLookupClient(peer)
    yield Inner(scripted, objects)
    await objects.close()


async def test_what_fails_for_all_is_asked_once(inner: Inner) -> None:
    """To ask for each alone would take as long again."""
    inner.scripted.fail("BatchStatObjects", Unavailable(Reason.UNAVAILABLE, "the database does not answer"))
    wanted = [inner.objects.stat(1, [(oid, 1)]) for oid in _OIDS]
    found = await asyncio.gather(*wanted, return_exceptions=True)
    assert {type(each) for each in found} == {Unavailable}
    assert inner.calls == []


async def test_objects_looked_at_at_once_share_a_call(inner: Inner) -> None:
    """Those of each repository, each object once; each is told of its own."""
    wanted = [(repository, oid, size) for repository in (1, 2) for size, oid in enumerate(_OIDS[:8])] * 2
    found = await asyncio.gather(*(inner.objects.stat(each[0], [each[1:]]) for each in wanted))
    assert [each.size for [each] in found] == [1000 * repository + size for repository, _, size in wanted]
    asked = {call.repository_id: [each.oid for each in call.objects] for call in inner.calls}
    assert asked == {1: _OIDS[:8], 2: _OIDS[:8]}
    assert len(inner.calls) == 2


async def test_batches_of_one_download_share_a_call(inner: Inner) -> None:
    """Those of uploads do not: whether there is room is told of what each announces."""
    read = [inner.objects.stat(1, [(oid, size)], pb.INTENT_READ, seconds=60) for size, oid in enumerate(_OIDS[:8])]
    assert [each.size for [each] in await asyncio.gather(*read)] == [1000 + size for size in range(8)]
    [call] = inner.calls
    assert (call.intent, call.expires_in, len(call.objects)) == (pb.INTENT_READ, 60, 8)
    inner.calls.clear()
    await asyncio.gather(*(inner.objects.stat(1, [(oid, 1)], pb.INTENT_WRITE) for oid in _OIDS[:8]))
    assert [len(call.objects) for call in inner.calls] == [1] * 8


_SIGNED = pb.SignObjectUrlsResponse.SignedUrl(url="https://store.example/object")


@pytest.mark.parametrize(
    "said",
    [
        ObjectStat(status=pb.OBJECT_STATUS_MISSING),
        ObjectStat(status=pb.OBJECT_STATUS_REMOVED),
        ObjectStat(status=pb.OBJECT_STATUS_PRESENT, size=1, signed=_SIGNED),
    ],
    ids=["missing", "removed", "signed"],
)
async def test_what_may_change_is_asked_for_each_time(inner: Inner, said: ObjectStat) -> None:
    """A missing object may be uploaded at any moment, and storage counts the bytes of each URL that it signs."""
    held = ObjectStat(status=pb.OBJECT_STATUS_PRESENT, size=1)
    for answer in (said, held):
        inner.scripted.reply("BatchStatObjects", pb.BatchStatObjectsResponse(objects=[answer]))
        assert await inner.objects.stat(1, [(_OIDS[0], 1)], pb.INTENT_READ, seconds=60) == [answer]


async def test_different_questions_share_no_call(inner: Inner) -> None:
    """Each object is asked about with the intent and for the time that its batch has."""
    await asyncio.gather(
        inner.objects.stat(1, [(_OIDS[0], 1)]),
        inner.objects.stat(1, [(_OIDS[0], 1)], pb.INTENT_READ),
        inner.objects.stat(1, [(_OIDS[0], 1)], pb.INTENT_READ, seconds=60),
    )
    asked = sorted((call.intent, call.expires_in) for call in inner.calls)
    assert asked == [(pb.INTENT_UNSPECIFIED, 0), (pb.INTENT_READ, 0), (pb.INTENT_READ, 60)]


async def test_one_repository_that_fails_does_not_hurt_the_other(inner: Inner) -> None:
    """Its objects alone are told the error."""
    working = inner.scripted.answers["BatchStatObjects"]

    async def answer(request: pb.BatchStatObjectsRequest) -> pb.BatchStatObjectsResponse:
        if request.repository_id == 2:
            raise Unavailable(Reason.UNAVAILABLE, "the database does not answer")
        reply: pb.BatchStatObjectsResponse = await working(request)
        return reply

    inner.scripted.answers["BatchStatObjects"] = answer
    wanted = [inner.objects.stat(repository, [(oid, 1)]) for repository in (1, 2) for oid in _OIDS[:4]]
    found = await asyncio.gather(*wanted, return_exceptions=True)
    assert [[type(stat) for stat in each] for each in found[:4] if isinstance(each, list)] == [[ObjectStat]] * 4
    assert all(isinstance(each, ServiceError) for each in found[4:])
