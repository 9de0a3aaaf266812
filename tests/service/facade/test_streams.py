"""Streams to and from storage that break: what goes on, and what is told."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from towpath.storage.v1 import storage_service_pb2 as storage

from services.common.errors import Reason, ResourceExhausted, ServiceError, Unavailable
from services.facade.auth.action_tokens import Operation
from tests.service.facade.inner_failures import DATA, OID, Scripted, action_of, check_error
from tests.support.facade import RunningFacade
from tests.support.loop import never
from tests.support.waiting import STEP_SECONDS


def _header(size: int = len(DATA)) -> storage.ReadObjectResponse:
    return storage.ReadObjectResponse(header=storage.ReadObjectResponse.Header(size=size))


async def test_a_download_goes_on_where_storage_broke_off(scripted: tuple[Scripted, RunningFacade]) -> None:
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
    href, header = action_of(facade, Operation.DOWNLOAD)
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        response = await http.get(href, headers=header)
    assert response.content == DATA
    assert asked == [(0, 100), (30, 70), (60, 40), (90, 10)]


@pytest.mark.parametrize("fault", ["fails", "ends", "stalls", "sends too much"])
async def test_a_download_that_cannot_go_on_is_cut(scripted: tuple[Scripted, RunningFacade], fault: str) -> None:
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
    href, header = action_of(facade, Operation.DOWNLOAD)
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        with pytest.raises(httpx.TransportError):
            await http.get(href, headers=header)


@pytest.mark.parametrize("messages", [[], [_header(5)], [storage.ReadObjectResponse(data=DATA)]])
async def test_a_download_without_a_right_header_is_a_502(
    scripted: tuple[Scripted, RunningFacade], messages: list[storage.ReadObjectResponse]
) -> None:
    """Nothing has been sent then, so the client can be told."""
    inner, facade = scripted

    async def read(_request: object) -> AsyncIterator[storage.ReadObjectResponse]:
        for message in messages:
            yield message

    inner.answers["ReadObject"] = read
    href, header = action_of(facade, Operation.DOWNLOAD)
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        check_error(await http.get(href, headers=header), 502)


async def test_a_small_upload_is_written_again_after_an_outage(scripted: tuple[Scripted, RunningFacade]) -> None:
    """The client sees nothing of a restart of storage."""
    inner, facade = scripted
    attempts = []

    async def write(request: storage.WriteWholeObjectRequest) -> storage.WriteWholeObjectResponse:
        attempts.append(request.data)
        if len(attempts) < 3:
            raise Unavailable(Reason.UNAVAILABLE, "away")
        return storage.WriteWholeObjectResponse(object=storage.Object(oid=OID, size=len(DATA)))

    inner.answers["WriteWholeObject"] = write
    href, header = action_of(facade, Operation.UPLOAD)
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        response = await http.put(href, content=DATA, headers=header)
    assert response.status_code == 200
    assert attempts == [DATA] * 3


async def test_an_upload_without_a_whole_reply_is_a_502(scripted: tuple[Scripted, RunningFacade]) -> None:
    """Nobody says that it is stored."""
    inner, facade = scripted
    inner.reply("WriteWholeObject", storage.WriteWholeObjectResponse())
    href, header = action_of(facade, Operation.UPLOAD)
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        check_error(await http.put(href, content=DATA, headers=header), 502)


@pytest.mark.parametrize("size", [100, 2_500_000, 9_000_000])
async def test_an_early_refusal_of_storage_is_told_as_what_it_is(
    scripted: tuple[Scripted, RunningFacade], size: int
) -> None:
    """A client that still sends gets storage's status, because gRPC must not forget it after a failed write."""
    inner, facade = scripted
    inner.fail("WriteObject", ResourceExhausted(Reason.STORAGE_FULL, "full"))
    inner.fail("WriteWholeObject", ResourceExhausted(Reason.STORAGE_FULL, "full"))
    inner.fail("WriteWholeObjects", ResourceExhausted(Reason.STORAGE_FULL, "full"))
    href, header = action_of(facade, Operation.UPLOAD, size)
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        for _ in range(5):
            answers = await asyncio.gather(*(http.put(href, content=b"x" * size, headers=header) for _ in range(4)))
            for answer in answers:
                check_error(answer, 507)
