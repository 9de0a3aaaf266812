"""The theft of a lock, and the history of locks (docs/protocol.md, "Steal lock", "Lock history")."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic_core import to_json
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.facade.clients.services import ServiceClients
from services.facade.locks import Body, coerce_limit, conflict_of, lock_body, next_page
from services.facade.web.error_reasons import invalid_reply


def parse_moment(field: str, text: str) -> Timestamp | None:
    """Return the moment in a query value, a day or a time, UTC unless it says otherwise; None if it is empty.

    Raises `InvalidArgument`.
    """
    if not text:
        return None
    moment = Timestamp()
    try:
        parsed = datetime.fromisoformat(text)
        moment.FromDatetime(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        expected = "a time such as 2026-01-31T10:00:00Z, or a day"
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected {expected}") from None
    return moment


async def steal(
    clients: ServiceClients, repository_id: int, user_id: int, lock_id: str, *, reason: str, note: str, key: str
) -> Body:
    """Replace another user's lock and return a `StolenLockAnswer`; `key` is the idempotency key, the same for a retry.

    Raises `AlreadyExists` (PATH_LOCKED) with the existing lock as its detail; see LockService.StealLock.
    """
    request = pb.StealLockRequest(
        repository_id=repository_id, user_id=user_id, id=lock_id, reason=reason, note=note, idempotency_key=key
    )
    with conflict_of("StealLock"):
        reply = await clients.locks.call(clients.lock_stub.StealLock, request, detail=pb.Lock())
    return {"lock": lock_body(reply.lock), "previous": released_body(reply.previous)}


async def list_history(
    clients: ServiceClients,
    repository_id: int,
    *,
    path: str,
    owner: str,
    since: Timestamp | None,
    until: Timestamp | None,
    cursor: str,
    limit: int | None,
) -> bytes:
    """Return a page of released locks as JSON (`LockHistoryPage`). A filter that is empty selects all.

    Raises `InvalidArgument` (INVALID_CURSOR).
    """
    request = pb.ListReleasedLocksRequest(
        repository_id=repository_id,
        path=path or None,
        owner_name=owner or None,
        since=since,
        until=until,
        cursor=cursor,
        limit=coerce_limit(limit),
    )
    reply = await clients.locks.call(clients.lock_stub.ListReleasedLocks, request)
    return to_json({"locks": [released_body(lock) for lock in reply.locks], **next_page(reply.next_cursor)})


def released_body(released: pb.ReleasedLock) -> Body:
    """Return the body of a released lock. Raises the errors of `lock_body`."""
    if not (released.released_by and released.HasField("released_at")):
        raise invalid_reply("LockService", "a released lock lacks the time or the user of its release")
    return {
        **lock_body(released.lock),
        "released_at": datetime.fromtimestamp(released.released_at.seconds, UTC),
        "released_by": {"name": released.released_by},
        "forced": released.forced,
        "stolen": released.stolen,
        **({"reason": released.reason} if released.reason else {}),
    }
