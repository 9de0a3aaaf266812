"""What a client is told when an inner service fails: each row of the error table, over HTTP (design: "Errors")."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.message import Message
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.locks.v1 import lock_service_pb2 as locks
from towpath.storage.v1 import storage_service_pb2 as storage

from services.common.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    ServiceError,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from services.facade.action_tokens import ActionTokens, Operation, Permit
from services.facade.dialect import WIDESPREAD
from tests.service.facade.inner_failures import Scripted, running_scripted
from tests.support.facade import SIGNING_KEY, RunningFacade, running_facade
from tests.support.http import Client, content, oid_of

DATA = content("data", 100)
OID = oid_of(DATA)


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[tuple[Scripted, RunningFacade]]:
    """Services that do what the test says, and a facade in front of them that does not wait long for them."""
    async with (
        running_scripted(tmp_path) as (inner, address),
        running_facade(address, address, rpc_seconds=2.5) as facade,
    ):
        yield inner, facade


def _client(facade: RunningFacade) -> Client:
    return Client(f"{facade.origin}/demo/assets", "alice", "token")


def _action(facade: RunningFacade, operation: Operation, size: int = len(DATA)) -> tuple[str, dict[str, str]]:
    permit = Permit(operation, "demo/assets", 1, OID, size, "alice")
    token = ActionTokens(SecretStr(SIGNING_KEY)).issue(permit, int(time.time()) + 60)
    return f"{facade.origin}/demo/assets/objects/{OID}", {"Authorization": f"Bearer {token}"}


def _check_error(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    assert body["message"]
    assert body["request_id"] == response.headers["x-request-id"]
    assert "objects" not in body
    if status >= 500:
        assert body["request_id"] in body["message"]
        assert "secret words" not in body["message"] or status in (507, 509)
    assert ("retry-after" in response.headers) == (status in (429, 503))
    return body


FAILURES: list[tuple[Exception, int]] = [
    (InvalidArgument(Reason.INVALID_FIELD, "field: secret words"), 422),
    (ResourceExhausted(Reason.BATCH_TOO_LARGE, "secret words"), 413),
    (ResourceExhausted(Reason.RATE_LIMITED, "secret words"), 429),
    (ResourceExhausted(Reason.STORAGE_FULL, "secret words"), 507),
    (ResourceExhausted(Reason.BANDWIDTH_EXCEEDED, "secret words"), 509),
    (Unimplemented(Reason.UNIMPLEMENTED, "secret words"), 501),
    (Unavailable(Reason.UNAVAILABLE, "secret words"), 503),
    (Aborted("ABORTED", "secret words"), 503),
    (DeadlineExceeded(Reason.DEADLINE_EXCEEDED, "secret words"), 504),
    (Unauthenticated("UNAUTHENTICATED", "secret words"), 500),
    (ServiceError(Reason.INTERNAL, "secret words"), 500),
    (RuntimeError("secret words"), 500),
]


@pytest.mark.parametrize(("error", "status"), FAILURES, ids=lambda value: str(value))
async def test_a_batch_tells_of_a_failure_of_storage(
    scripted: tuple[Scripted, RunningFacade], error: Exception, status: int
) -> None:
    """Each has its HTTP status, and nothing of the inside is told (protocol: "Status codes of batch responses")."""
    inner, facade = scripted
    inner.fail("BatchStatObjects", error)
    async with _client(facade) as client:
        _check_error(await client.batch("upload", (OID, 100)), status)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unauthenticated(Reason.CREDENTIALS_REQUIRED, "credentials are needed"), 401),
        (PermissionDenied(Reason.ACCESS_DENIED, "you may not"), 403),
        (NotFound(Reason.REPOSITORY_NOT_FOUND, "no such repository"), 404),
        (Unavailable(Reason.UNAVAILABLE, "secret words"), 503),
    ],
)
async def test_a_batch_tells_of_a_refusal(
    scripted: tuple[Scripted, RunningFacade], error: Exception, status: int
) -> None:
    """The access is asked for before anything else."""
    inner, facade = scripted
    inner.fail("CheckAccess", error)
    async with _client(facade) as client:
        _check_error(await client.batch("upload", (OID, 100)), status)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound(Reason.REPOSITORY_NOT_FOUND, "no such repository"), 403),
        (NotFound(Reason.USER_NOT_FOUND, "no such user"), 403),
        (PermissionDenied(Reason.ACCESS_DENIED, "you may not"), 403),
        (Unimplemented(Reason.UNIMPLEMENTED, "secret words"), 500),
        (Unavailable(Reason.UNAVAILABLE, "secret words"), 503),
        (DeadlineExceeded(Reason.DEADLINE_EXCEEDED, "secret words"), 504),
        (RuntimeError("secret words"), 500),
    ],
)
@pytest.mark.parametrize("call", ["CheckAccess", "VerifyLocks"])
async def test_verify_locks_is_never_answered_404_or_501(
    scripted: tuple[Scripted, RunningFacade], call: str, error: Exception, status: int
) -> None:
    """A client would switch its lock checks off for good (client row 8)."""
    inner, facade = scripted
    inner.reply("VerifyLocks", locks.VerifyLocksResponse())
    inner.fail(call, error)
    async with _client(facade) as client:
        _check_error(await client.post("locks/verify"), status)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidArgument(Reason.HASH_MISMATCH, "other bytes"), 400),
        (InvalidArgument(Reason.SIZE_MISMATCH, "other size"), 400),
        (InvalidArgument(Reason.MALFORMED_STREAM, "malformed"), 400),
        (ResourceExhausted(Reason.STORAGE_FULL, "full"), 507),
        (ResourceExhausted(Reason.BANDWIDTH_EXCEEDED, "exceeded"), 509),
        (Unimplemented(Reason.UNIMPLEMENTED, "secret words"), 501),
        (Unavailable(Reason.UNAVAILABLE, "secret words"), 503),
        (DeadlineExceeded(Reason.DEADLINE_EXCEEDED, "secret words"), 504),
        (Unauthenticated("UNAUTHENTICATED", "secret words"), 500),
        (RuntimeError("secret words"), 500),
    ],
    ids=lambda value: str(value),
)
async def test_an_upload_tells_of_a_failure_of_storage(
    scripted: tuple[Scripted, RunningFacade], error: Exception, status: int
) -> None:
    """Never with 422, which a client takes for success (client row 1), nor 401 (client row 5)."""
    inner, facade = scripted
    inner.fail("WriteObject", error)
    href, header = _action(facade, Operation.UPLOAD)
    async with httpx.AsyncClient(trust_env=False) as http:
        response = await http.put(href, content=DATA, headers={**header, "Accept": WIDESPREAD.media_type})
    _check_error(response, status)
    assert response.headers["content-type"] == WIDESPREAD.media_type


BAD_REPLIES = [
    ("Authenticate", access.AuthenticateResponse()),
    ("CheckAccess", access.CheckAccessResponse()),
    ("BatchStatObjects", storage.BatchStatObjectsResponse()),
    ("BatchStatObjects", storage.BatchStatObjectsResponse(objects=[storage.BatchStatObjectsResponse.ObjectStat()])),
]


@pytest.mark.parametrize(("call", "reply"), BAD_REPLIES)
async def test_a_reply_that_lacks_something_is_a_502(
    scripted: tuple[Scripted, RunningFacade], call: str, reply: Message
) -> None:
    """No client sees an answer made of half a reply."""
    inner, facade = scripted
    inner.reply(call, reply)
    async with _client(facade) as client:
        _check_error(await client.batch("upload", (OID, 100)), 502)


async def test_a_lock_without_owner_is_a_502(scripted: tuple[Scripted, RunningFacade]) -> None:
    """A client crashes on it (client row 4); so it does on a lock that is not there."""
    inner, facade = scripted
    inner.reply("CreateLock", locks.CreateLockResponse())
    inner.reply("VerifyLocks", locks.VerifyLocksResponse(theirs=[locks.Lock(id="1", path="a")]))
    async with _client(facade) as client:
        _check_error(await client.lock("a"), 502)
        _check_error(await client.post("locks/verify"), 502)
        inner.fail("CreateLock", AlreadyExists(Reason.PATH_LOCKED, "locked"))
        _check_error(await client.lock("a"), 502)


async def test_a_service_that_does_not_answer_is_a_504(scripted: tuple[Scripted, RunningFacade]) -> None:
    """Every call has a deadline; a service that is not there at all is a 503."""
    inner, facade = scripted

    async def sleep(_request: object) -> None:
        await asyncio.sleep(30)

    inner.answers["BatchStatObjects"] = sleep
    async with _client(facade) as client:
        _check_error(await client.batch("upload", (OID, 100)), 504)
    async with running_facade("unix:/nonexistent.sock", "unix:/nonexistent.sock", rpc_seconds=0.3) as alone:
        async with _client(alone) as client:
            _check_error(await client.batch("upload", (OID, 100)), 503)
        href, header = _action(alone, Operation.UPLOAD)
        async with httpx.AsyncClient(trust_env=False) as http:
            _check_error(await http.put(href, content=DATA, headers=header), 503)
            ready = await http.get(f"{alone.origin}/readyz")
            alive = await http.get(f"{alone.origin}/healthz")
    assert (ready.status_code, alive.status_code) == (503, 200)
    assert ready.json() == {
        "status": "not ready",
        "services": {"storage": "not answering", "locks": "not answering"},
    }


def _header(size: int = len(DATA)) -> storage.ReadObjectResponse:
    return storage.ReadObjectResponse(header=storage.ReadObjectResponse.Header(size=size))


async def test_a_download_goes_on_where_storage_broke_off(scripted: tuple[Scripted, RunningFacade]) -> None:
    """From the byte that it had reached; the client sees nothing of it."""
    inner, facade = scripted
    offsets = []

    async def read(request: storage.ReadObjectRequest) -> AsyncIterator[storage.ReadObjectResponse]:
        offsets.append(request.offset)
        yield _header()
        yield storage.ReadObjectResponse(data=DATA[request.offset : request.offset + 30])
        if request.offset + 30 < len(DATA):
            raise Unavailable(Reason.UNAVAILABLE, "away")

    inner.answers["ReadObject"] = read
    href, header = _action(facade, Operation.DOWNLOAD)
    async with httpx.AsyncClient(trust_env=False) as http:
        response = await http.get(href, headers=header)
    assert response.content == DATA
    assert offsets == [0, 30, 60, 90]


@pytest.mark.parametrize("fault", ["fails", "ends", "stalls", "sends too much"])
async def test_a_download_that_cannot_go_on_is_cut(scripted: tuple[Scripted, RunningFacade], fault: str) -> None:
    """The client sees a broken connection, never a short body that looks whole (trap 2)."""
    inner, facade = scripted

    async def read(request: storage.ReadObjectRequest) -> AsyncIterator[storage.ReadObjectResponse]:
        yield _header()
        if request.offset == 0:
            yield storage.ReadObjectResponse(data=DATA[:30])
        if fault == "fails":
            raise ServiceError(Reason.INTERNAL, "broken disk")
        if fault == "stalls":
            await asyncio.sleep(30)
        if fault == "sends too much":
            yield storage.ReadObjectResponse(data=DATA)

    inner.answers["ReadObject"] = read
    href, header = _action(facade, Operation.DOWNLOAD)
    async with httpx.AsyncClient(trust_env=False) as http:
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
    href, header = _action(facade, Operation.DOWNLOAD)
    async with httpx.AsyncClient(trust_env=False) as http:
        _check_error(await http.get(href, headers=header), 502)


async def test_a_small_upload_is_written_again_after_an_outage(scripted: tuple[Scripted, RunningFacade]) -> None:
    """The client sees nothing of a restart of storage."""
    inner, facade = scripted
    attempts = []

    async def write(requests: AsyncIterator[storage.WriteObjectRequest]) -> storage.WriteObjectResponse:
        attempts.append(b"".join([message.data async for message in requests]))
        if len(attempts) < 3:
            raise Unavailable(Reason.UNAVAILABLE, "away")
        return storage.WriteObjectResponse(object=storage.Object(oid=OID, size=len(DATA)))

    inner.answers["WriteObject"] = write
    href, header = _action(facade, Operation.UPLOAD)
    async with httpx.AsyncClient(trust_env=False) as http:
        response = await http.put(href, content=DATA, headers=header)
    assert response.status_code == 200
    assert attempts == [DATA] * 3


async def test_an_upload_without_a_whole_reply_is_a_502(scripted: tuple[Scripted, RunningFacade]) -> None:
    """Nobody says that it is stored."""
    inner, facade = scripted
    inner.reply("WriteObject", storage.WriteObjectResponse())
    href, header = _action(facade, Operation.UPLOAD)
    async with httpx.AsyncClient(trust_env=False) as http:
        _check_error(await http.put(href, content=DATA, headers=header), 502)
