"""A lock, and pages of them, as the protocol shows them (protocol: "Lock object").

The bodies with locks are plain dicts of the form that `models` describes: a page of a thousand is made often.
"""

from datetime import UTC, datetime
from typing import TypedDict

from pydantic_core import to_json
from towpath.locks.v1 import lock_service_pb2

from services.facade.web.error_reasons import invalid_reply


class LockOwner(TypedDict):
    """See `models.LockOwner`."""

    name: str


class Lock(TypedDict):
    """See `models.Lock`."""

    id: str
    path: str
    locked_at: datetime
    owner: LockOwner


def lock_body(lock: lock_service_pb2.Lock) -> Lock:
    """Return the body; every lock has an owner's name, without which clients crash (client row 4).

    Raises `ServiceError` (INVALID_REPLY) where a field is missing.
    """
    lock_id, path, owner = lock.id, lock.path, lock.owner_name
    if not (lock_id and path and owner and lock.HasField("locked_at")):
        raise invalid_reply("LockService", "a lock lacks its id, path, time or owner")
    locked_at = datetime.fromtimestamp(lock.locked_at.seconds, UTC)
    return {"id": lock_id, "path": path, "locked_at": locked_at, "owner": {"name": owner}}


def list_json(page: lock_service_pb2.ListLocksResponse) -> bytes:
    """Return the JSON of a `models.LockPage`. Raises as `lock_body` does."""
    return to_json({"locks": [lock_body(lock) for lock in page.locks], **_next(page.next_cursor)})


def verification_json(page: lock_service_pb2.VerifyLocksResponse) -> bytes:
    """Return the JSON of a `models.LockVerification`. Raises as `lock_body` does."""
    sides = {"ours": page.ours, "theirs": page.theirs}
    bodies = {side: [lock_body(lock) for lock in locks] for side, locks in sides.items()}
    return to_json({**bodies, **_next(page.next_cursor)})


def _next(cursor: str) -> dict[str, str]:
    return {"next_cursor": cursor} if cursor else {}
