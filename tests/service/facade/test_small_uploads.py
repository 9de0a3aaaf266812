"""Small objects that come at once and are handed to storage in one call; storage does what a test says."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason, ServiceError, Unavailable, status_of
from services.common.rpc.client import ServiceClient
from services.facade.clients.small_uploads import SmallUploadClient
from services.facade.web.error_reasons import HttpReason
from tests.service.facade.inner_failures import Scripted

_OIDS = [f"{number:064x}" for number in range(8)]
_WRONG = _OIDS[5]


class Inner:
    """Storage, as a test has it, and what it was asked."""

    def __init__(self, scripted: Scripted, objects: SmallUploadClient) -> None:
        self.scripted = scripted
        self.calls: list[Any] = []
        self._objects = objects
        scripted.answers.update(WriteWholeObject=self._write_one, WriteWholeObjects=self._write_all)

    async def write(self, *oids: str, size: int = 3) -> list[str]:
        """Write all of them at once; return why each was refused, an empty string where it was not."""
        written = [
            self._objects.write(pb.WriteWholeObjectRequest(repository_id=1, oid=oid, size=size, data=bytes(size)))
            for oid in oids
        ]
        return list(map(_reason, await asyncio.gather(*written, return_exceptions=True)))

    async def _write_one(self, request: pb.WriteWholeObjectRequest) -> pb.WriteWholeObjectResponse:
        self.calls.append(request)
        if request.oid == _WRONG:
            raise InvalidArgument(Reason.HASH_MISMATCH, "other bytes")
        return _held(request)

    async def _write_all(self, request: pb.WriteWholeObjectsRequest) -> pb.WriteWholeObjectsResponse:
        self.calls.append(request)
        return pb.WriteWholeObjectsResponse(
            objects=[_refused() if each.oid == _WRONG else _held(each) for each in request.objects]
        )

    def kinds(self) -> list[type]:
        """Return which calls there were."""
        return [type(call) for call in self.calls]


def _held(request: pb.WriteWholeObjectRequest) -> pb.WriteWholeObjectResponse:
    return pb.WriteWholeObjectResponse(object=pb.Object(oid=request.oid, size=request.size))


def _refused() -> pb.WriteWholeObjectResponse:
    response = pb.WriteWholeObjectResponse()
    response.error.Pack(status_of(InvalidArgument(Reason.HASH_MISMATCH, "other bytes")))
    return response


def _reason(ended: BaseException | None) -> str:
    if ended is None:
        return ""
    assert isinstance(ended, ServiceError), ended
    return ended.reason


@pytest.fixture
async def inner(scripted_peer: tuple[Scripted, ServiceClient]) -> AsyncIterator[Inner]:
    """Storage, and the client that hands small objects to it."""
    scripted, peer = scripted_peer
    objects = SmallUploadClient(peer)
    yield Inner(scripted, objects)
    await objects.close()


def _expected(oids: Sequence[str]) -> list[str]:
    return [Reason.HASH_MISMATCH if oid == _WRONG else "" for oid in oids]


async def test_what_comes_at_once_shares_a_call(inner: Inner) -> None:
    """Objects that arrive at once share a call, but an object that arrives alone has its own call."""
    oids = _OIDS[:5]
    assert await inner.write(*oids) == [""] * 5
    [call] = inner.calls
    assert [(each.repository_id, each.oid, each.size, each.data) for each in call.objects] == [
        (1, oid, 3, bytes(3)) for oid in oids
    ]
    assert await inner.write(oids[0]) == [""]
    assert inner.kinds() == [pb.WriteWholeObjectsRequest, pb.WriteWholeObjectRequest]


async def test_one_that_is_refused_is_told_why(inner: Inner) -> None:
    """It alone, and nothing is sent again."""
    assert await inner.write(*_OIDS) == _expected(_OIDS)
    assert inner.kinds() == [pb.WriteWholeObjectsRequest]


async def test_large_ones_go_alone(inner: Inner) -> None:
    """Their bytes take more than the call, and many would not fit into one."""
    assert await inner.write(*_OIDS[:5], size=1024 * 1024) == [""] * 5
    assert inner.kinds() == [pb.WriteWholeObjectRequest] * 5


@pytest.mark.parametrize("count", [0, 1, 9])
async def test_a_reply_of_another_length_is_not_believed(inner: Inner, count: int) -> None:
    """Nobody is told that bytes are held which are not."""
    held = [pb.WriteWholeObjectResponse(object=pb.Object(oid=_OIDS[0]))] * count
    inner.scripted.reply("WriteWholeObjects", pb.WriteWholeObjectsResponse(objects=held))
    assert await inner.write(*_OIDS) == [HttpReason.INVALID_REPLY] * len(_OIDS)


async def test_a_reply_without_the_object_is_not_believed(inner: Inner) -> None:
    """Nobody says that it is held."""
    inner.scripted.reply("WriteWholeObject", pb.WriteWholeObjectResponse())
    inner.scripted.reply("WriteWholeObjects", pb.WriteWholeObjectsResponse(objects=[pb.WriteWholeObjectResponse()] * 8))
    assert await inner.write(*_OIDS) == [HttpReason.INVALID_REPLY] * 8


async def test_what_fails_for_all_is_tried_once(inner: Inner) -> None:
    """Each caller decides for itself whether to retry, so the facade does not retry for the whole group."""
    inner.scripted.fail("WriteWholeObjects", Unavailable(Reason.UNAVAILABLE, "the database does not answer"))
    assert await inner.write(*_OIDS) == [Reason.UNAVAILABLE] * len(_OIDS)
    assert inner.calls == []
