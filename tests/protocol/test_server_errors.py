"""Failures behind the facade, each with its one status (docs/protocol.md, "Errors").

The facade is the real process; the inner services fail as each test says.
"""

from collections.abc import Iterator

import httpx
import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.locks.v1 import lock_service_pb2 as locks
from towpath.storage.v1 import storage_service_pb2 as storage

from services.common import errors
from services.common.errors import Reason, ServiceError
from services.conformance.blobs import Blob
from services.conformance.dialects import Dialect
from tests.protocol.client import Client
from tests.protocol.inner import LOCK, Inner, running_facade

SECRET = "the words of a failure inside"
BLOB = Blob(b"x")
FAILURES: list[tuple[ServiceError, int]] = [
    (errors.InvalidArgument(Reason.INVALID_FIELD, SECRET), 422),
    (errors.PermissionDenied(Reason.ACCESS_DENIED, SECRET), 403),
    (errors.ResourceExhausted(Reason.RATE_LIMITED, SECRET), 429),
    (errors.ResourceExhausted(Reason.STORAGE_FULL, SECRET), 507),
    (errors.ResourceExhausted(Reason.BANDWIDTH_EXCEEDED, SECRET), 509),
    (errors.Unavailable(Reason.UNAVAILABLE, SECRET), 503),
    (errors.Aborted(Reason.UNAVAILABLE, SECRET), 503),
    (errors.DeadlineExceeded(Reason.DEADLINE_EXCEEDED, SECRET), 504),
    (ServiceError(Reason.INTERNAL, SECRET), 500),
    (errors.FailedPrecondition("SOMETHING_NEW", SECRET), 500),
    (errors.ResourceExhausted("SOMETHING_NEW", SECRET), 500),
    (errors.Unauthenticated("", SECRET), 500),
]
LOCK_CALLS = {"CreateLock": "lock", "ListLocks": "locks", "VerifyLocks": "verify", "DeleteLock": "unlock"}


@pytest.fixture(scope="module")
def facade() -> Iterator[tuple[str, Inner]]:
    """A facade before services that fail as they are told to."""
    with running_facade(TOWPATH_RPC_SECONDS="10") as running:
        yield running


@pytest.fixture
def inner(facade: tuple[str, Inner]) -> Iterator[Inner]:
    """The inner services, which answer well at first."""
    yield facade[1]
    facade[1].reset()


@pytest.fixture
def zoe(facade: tuple[str, Inner], http: httpx.Client) -> Client:
    """Zoe, who may do everything that her facade can do."""
    return Client(http, f"{facade[0]}/a", "Bearer x")


def locking(client: Client, call: str) -> httpx.Response:
    """Do what ends in this call of the LockService."""
    match call:
        case "CreateLock":
            return client.lock("a")
        case "ListLocks":
            return client.locks()
        case "VerifyLocks":
            return client.verify_locks()
    return client.unlock("7")


def assert_tells(answer: httpx.Response, status: int) -> None:
    """Assert the status, a Retry-After where it has one, and that nothing of the inside is in the body."""
    assert answer.status_code == status
    assert ("retry-after" in answer.headers) is (status in (429, 503))
    assert (SECRET in answer.text) is (status not in (500, 501, 502, 503, 504))
    assert "objects" not in answer.json()


@pytest.mark.parametrize(("error", "status"), FAILURES, ids=[f"{e.status.name}-{e.reason}" for e, _ in FAILURES])
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_failure_behind_a_batch_has_its_status(
    zoe: Client, inner: Inner, dialect: Dialect, operation: str, error: ServiceError, status: int
) -> None:
    """A failed batch has the status of its cause and no `objects`, so that clients know whether to retry."""
    inner.failures["BatchStatObjects"] = error
    assert_tells(zoe.speaking(dialect).batch(operation, BLOB.entry), status)


@pytest.mark.parametrize(("error", "status"), FAILURES, ids=[f"{e.status.name}-{e.reason}" for e, _ in FAILURES])
@pytest.mark.parametrize("call", LOCK_CALLS)
def test_a_failure_behind_a_locking_endpoint_has_its_status(
    zoe: Client, inner: Inner, call: str, error: ServiceError, status: int
) -> None:
    """A failed lock request has the status of its cause, so that clients know whether to retry."""
    inner.failures[call] = error
    assert_tells(locking(zoe, call), status)


def test_a_method_that_is_not_there_is_501_on_a_batch_and_500_on_locks(zoe: Client, inner: Inner) -> None:
    """A missing method is 501 on a batch but 500 on locks, where 501 ends the lock checks for good (client-8)."""
    unimplemented = errors.Unimplemented(Reason.UNIMPLEMENTED, SECRET)
    inner.failures = dict.fromkeys(["BatchStatObjects", *LOCK_CALLS], unimplemented)
    assert_tells(zoe.batch("download", BLOB.entry), 501)
    for call in LOCK_CALLS:
        assert_tells(locking(zoe, call), 500)


def test_an_unknown_repository_is_404_on_a_batch_and_403_on_locks(zoe: Client, inner: Inner) -> None:
    """An unknown repository is 404 on a batch but 403 on locks, where 404 ends the lock checks for good (client-8)."""
    inner.failures["CheckAccess"] = errors.NotFound(Reason.REPOSITORY_NOT_FOUND, SECRET)
    assert_tells(zoe.batch("download", BLOB.entry), 404)
    for call in LOCK_CALLS:
        assert_tells(locking(zoe, call), 403)


@pytest.mark.parametrize("call", ["Authenticate", "CheckAccess"])
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ServiceError(Reason.INTERNAL, SECRET), 500),
        (errors.Unavailable(Reason.UNAVAILABLE, SECRET), 503),
        (errors.DeadlineExceeded(Reason.DEADLINE_EXCEEDED, SECRET), 504),
    ],
    ids=["internal", "unavailable", "late"],
)
def test_a_failure_to_decide_about_access_lets_nobody_in(
    zoe: Client, inner: Inner, call: str, error: ServiceError, status: int
) -> None:
    """A failure to decide about access is never taken for permission, on batches and on locks alike."""
    inner.failures[call] = error
    assert_tells(zoe.batch("download", BLOB.entry), status)
    assert_tells(zoe.locks(), status)


@pytest.mark.parametrize(
    ("call", "reply"),
    [
        ("Authenticate", access.AuthenticateResponse()),
        ("CheckAccess", access.CheckAccessResponse()),
        ("BatchStatObjects", storage.BatchStatObjectsResponse()),
        (
            "BatchStatObjects",
            storage.BatchStatObjectsResponse(objects=[storage.BatchStatObjectsResponse.ObjectStat()]),
        ),
    ],
    ids=["user", "repository", "object", "status"],
)
def test_a_reply_that_lacks_something_is_502_on_a_batch(
    zoe: Client, inner: Inner, call: str, reply: access.AuthenticateResponse
) -> None:
    """A reply without a required field is 502, because the fault is behind the facade and not the client's."""
    inner.replies[call] = reply
    assert_tells(zoe.batch("download", BLOB.entry), 502)


@pytest.mark.parametrize("missing", ["id", "path", "locked_at", "owner_name"])
@pytest.mark.parametrize("call", LOCK_CALLS)
def test_a_lock_that_lacks_something_is_502(zoe: Client, inner: Inner, call: str, missing: str) -> None:
    """A lock without owner kills git-lfs, so a reply that lacks a required field is 502 (client-4)."""
    lock = locks.Lock()
    lock.CopyFrom(LOCK)
    lock.ClearField(missing)  # type: ignore[arg-type] # one of the names that the stub lists
    inner.replies = {
        "CreateLock": locks.CreateLockResponse(lock=lock),
        "ListLocks": locks.ListLocksResponse(locks=[lock]),
        "VerifyLocks": locks.VerifyLocksResponse(theirs=[lock]),
        "DeleteLock": locks.DeleteLockResponse(lock=lock),
    }
    assert_tells(locking(zoe, call), 502)


def test_a_conflict_without_its_lock_is_502(zoe: Client, inner: Inner) -> None:
    """A 409 shows the clashing lock, so a reply without that lock is 502 (protocol: Create lock, 409)."""
    inner.failures["CreateLock"] = errors.AlreadyExists(Reason.PATH_LOCKED, SECRET)
    assert_tells(zoe.lock("a"), 502)
    inner.failures["CreateLock"] = errors.AlreadyExists(Reason.PATH_LOCKED, SECRET, detail=LOCK)
    answer = zoe.lock("a")
    assert answer.status_code == 409
    assert answer.json()["lock"]["owner"] == {"name": "zoe"}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidArgument(Reason.HASH_MISMATCH, SECRET), 400),
        (errors.InvalidArgument(Reason.SIZE_MISMATCH, SECRET), 400),
        (errors.ResourceExhausted(Reason.STORAGE_FULL, SECRET), 507),
        (errors.ResourceExhausted(Reason.BANDWIDTH_EXCEEDED, SECRET), 509),
        (errors.FailedPrecondition(Reason.OBJECT_REMOVED, SECRET, removal_reason=SECRET), 410),
        (errors.Unauthenticated(Reason.CREDENTIALS_REQUIRED, SECRET), 403),
        (errors.NotFound(Reason.OBJECT_NOT_FOUND, SECRET), 404),
        (errors.DeadlineExceeded(Reason.DEADLINE_EXCEEDED, SECRET), 504),
        (ServiceError(Reason.INTERNAL, SECRET), 500),
    ],
    ids=lambda value: value.reason if isinstance(value, ServiceError) else str(value),
)
def test_a_failure_behind_an_action_has_its_status(zoe: Client, inner: Inner, error: ServiceError, status: int) -> None:
    """The git-lfs client takes 422 for success and repeats 401, so neither answers a transfer (client-1, client-5)."""
    actions = zoe.entry("upload", BLOB)["actions"]
    inner.failures = dict.fromkeys(["WriteWholeObject", "BatchStatObjects", "ConfirmObject"], error)
    assert_tells(zoe.put(actions["upload"], BLOB.content), status)
    assert_tells(zoe.verify(actions["verify"], BLOB.entry), status)
