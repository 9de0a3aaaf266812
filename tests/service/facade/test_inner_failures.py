"""Answers to a client when an inner service fails: each row of the error table, over HTTP."""

import asyncio

import httpx
import pytest
from google.protobuf.message import Message
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
from services.facade.auth.action_tokens import Operation
from services.facade.web.media_types import GIT_LFS
from tests.service.facade.inner_failures import DATA, OID, Scripted, action_of, check_error, client_of
from tests.support.facade import RunningFacade, running_facade
from tests.support.waiting import STEP_SECONDS, until

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
    async with client_of(facade) as client:
        check_error(await client.batch("upload", (OID, 100)), status)


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
    async with client_of(facade) as client:
        check_error(await client.batch("upload", (OID, 100)), status)


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
    """A client would switch its lock checks off for good (client-8)."""
    inner, facade = scripted
    inner.reply("VerifyLocks", locks.VerifyLocksResponse())
    inner.fail(call, error)
    async with client_of(facade) as client:
        check_error(await client.post("locks/verify"), status)


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
    """Never with 422, which a client takes for success (client-1), nor 401 (client-5)."""
    inner, facade = scripted
    inner.fail("WriteObject", error)
    inner.fail("WriteWholeObject", error)
    href, header = action_of(facade, Operation.UPLOAD)
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        response = await http.put(href, content=DATA, headers={**header, "Accept": GIT_LFS.media_type})
    check_error(response, status)
    assert response.headers["content-type"] == GIT_LFS.media_type


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
    async with client_of(facade) as client:
        check_error(await client.batch("upload", (OID, 100)), 502)


async def test_a_lock_without_owner_is_a_502(scripted: tuple[Scripted, RunningFacade]) -> None:
    """A client crashes on it (client-4); so it does on a lock that is not there."""
    inner, facade = scripted
    inner.reply("CreateLock", locks.CreateLockResponse())
    inner.reply("VerifyLocks", locks.VerifyLocksResponse(theirs=[locks.Lock(id="1", path="a")]))
    async with client_of(facade) as client:
        check_error(await client.lock("a"), 502)
        check_error(await client.post("locks/verify"), 502)
        inner.fail("CreateLock", AlreadyExists(Reason.PATH_LOCKED, "locked"))
        check_error(await client.lock("a"), 502)


async def test_a_service_that_does_not_answer_is_a_504(scripted: tuple[Scripted, RunningFacade]) -> None:
    """Every call has a deadline; a service that is not there at all is a 503."""
    inner, facade = scripted

    async def sleep(_request: object) -> None:
        await asyncio.sleep(30)

    inner.answers["BatchStatObjects"] = sleep
    async with client_of(facade) as client:
        check_error(await client.batch("upload", (OID, 100)), 504)
    async with running_facade("unix:/nonexistent.sock", "unix:/nonexistent.sock", rpc_seconds=0.3) as alone:
        async with client_of(alone) as client:
            check_error(await client.batch("upload", (OID, 100)), 503)
        href, header = action_of(alone, Operation.UPLOAD)
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            check_error(await http.put(href, content=DATA, headers=header), 503)
            ready = await http.get(f"{alone.origin}/readyz")
            alive = await http.get(f"{alone.origin}/healthz")
    assert (ready.status_code, alive.status_code) == (503, 200)
    assert ready.json() == {
        "status": "not ready",
        "services": {"storage": "not answering", "locks": "not answering"},
    }


@pytest.mark.parametrize("reply", [None, access.CountFailedLoginsResponse()], ids=["not known", "lacks addresses"])
async def test_bad_credentials_are_slowed_all_the_same(
    scripted: tuple[Scripted, RunningFacade], reply: Message | None
) -> None:
    """A facade counts for itself where the lock service is of the version before, and tells again and again."""
    inner, facade = scripted
    inner.fail("Authenticate", Unauthenticated(Reason.BAD_CREDENTIALS, "the token is not valid"))
    told: list[int] = []

    async def answer(request: access.CountFailedLoginsRequest) -> Message:
        told.append(request.failed[0].count)
        if reply is None:
            raise Unimplemented(Reason.UNIMPLEMENTED, "CountFailedLogins is not implemented")
        return reply

    inner.answers["CountFailedLogins"] = answer
    async with client_of(facade) as client:
        statuses = [(await client.locks()).status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    await until(lambda: len(told) >= 2)
    assert told[-1] == 10
