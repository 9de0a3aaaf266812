"""Streams to and from storage that break: what goes on, and what is told."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from towpath.storage.v1 import storage_service_pb2 as storage

from services.common.errors import Reason, ResourceExhausted, ServiceError, Unavailable
from services.facade.auth.action_tokens import Operation
from tests.service.facade.inner_failures import DATA, Running, action_of, check_error
from tests.support.loop import never


def _header(size: int = len(DATA)) -> storage.ReadObjectResponse:
    return storage.ReadObjectResponse(header=storage.ReadObjectResponse.Header(size=size))


async def test_a_download_goes_on_where_storage_broke_off(scripted: Running) -> None:
    """From the byte that it had reached, and no further than its part; the client sees nothing of it."""
    inner, facade = scripted
    asked = []

    async def read(request: storage.ReadObjectRequest) -> AsyncIterator[storage.ReadObjectResponse]:
        asked.append((request.offset, request.length))
        yield _header()
        yield storage.ReadObjectResponse(data=DATA[request.offset : request.offset + 30])
        if request.offset + 30 < len(DATA):
            raise Unavailable(Reason.UNAVAILABLE, "away")

    inner.answers["ReadObject"] = read
    response = await action_of(facade, Operation.DOWNLOAD).get()
    assert response.content == DATA
    assert asked == [(0, 100), (30, 70), (60, 40), (90, 10)]


@pytest.mark.parametrize("fault", ["fails", "ends", "stalls", "sends too much"])
async def test_a_download_that_cannot_go_on_is_cut(scripted: Running, fault: str) -> None:
    """The client sees a broken connection, never a short body that looks whole (trap-2)."""
    inner, facade = scripted

    async def read(request: storage.ReadObjectRequest) -> AsyncIterator[storage.ReadObjectResponse]:
        yield _header()
        if request.offset == 0:
            yield storage.ReadObjectResponse(data=DATA[:30])
        if fault == "fails":
            raise ServiceError(Reason.INTERNAL, "broken disk")
        if fault == "stalls":
            await never()
        if fault == "sends too much":
            yield storage.ReadObjectResponse(data=DATA)

    inner.answers["ReadObject"] = read
    with pytest.raises(httpx.TransportError):
        await action_of(facade, Operation.DOWNLOAD).get()


@pytest.mark.parametrize("messages", [[], [_header(5)], [storage.ReadObjectResponse(data=DATA)]])
async def test_a_download_without_a_right_header_is_a_502(
    scripted: Running, messages: list[storage.ReadObjectResponse]
) -> None:
    """Nothing has been sent then, so the client can be told."""
    inner, facade = scripted

    async def read(_request: object) -> AsyncIterator[storage.ReadObjectResponse]:
        for message in messages:
            yield message

    inner.answers["ReadObject"] = read
    check_error(await action_of(facade, Operation.DOWNLOAD).get(), 502)


@pytest.mark.parametrize("size", [100, 2_500_000, 9_000_000])
async def test_an_early_refusal_of_storage_is_told_as_what_it_is(
    scripted: Running, http: httpx.AsyncClient, size: int
) -> None:
    """A client that still sends gets storage's status, because gRPC must not forget it after a failed write."""
    inner, facade = scripted
    for name in ("WriteObject", "WriteWholeObject", "WriteWholeObjects"):
        inner.fail(name, ResourceExhausted(Reason.STORAGE_FULL, "full"))
    action, body = action_of(facade, Operation.UPLOAD, size), b"x" * size
    for _ in range(5):
        puts = [http.put(action.href, content=body, headers=action.header) for _ in range(4)]
        for answer in await asyncio.gather(*puts):
            check_error(answer, 507)
