"""The history of locks (docs/protocol.md, "Lock history")."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic_core import to_json
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.facade.clients.services import ServiceClients
from services.facade.locks import coerce_limit, next_page, released_body


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
