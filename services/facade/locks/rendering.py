"""Rendering of locks and of pages of locks (docs/protocol.md, "Lock object").

Bodies with locks are plain dicts in the form of the models in `schemas`, because pages of a thousand locks are
rendered often.
"""

from datetime import UTC, datetime
from typing import TypedDict

from pydantic_core import to_json
from towpath.locks.v1 import lock_service_pb2

from services.facade.web.error_reasons import invalid_reply


class LockOwner(TypedDict):
    """The form of `schemas.LockOwner`."""

    name: str


class Lock(TypedDict):
    """The form of `schemas.Lock`."""

    id: str
    path: str
    locked_at: datetime
    owner: LockOwner


def lock_body(lock: lock_service_pb2.Lock) -> Lock:
    """Return the body of a lock, always with its owner's name: clients crash without it (client-4).

    Raises `ServiceError` (INVALID_REPLY) where a field is missing.
    """
    lock_id, path, owner = lock.id, lock.path, lock.owner_name
    if not (lock_id and path and owner and lock.HasField("locked_at")):
        raise invalid_reply("LockService", "a lock lacks its id, path, time or owner")
    locked_at = datetime.fromtimestamp(lock.locked_at.seconds, UTC)
    return {"id": lock_id, "path": path, "locked_at": locked_at, "owner": {"name": owner}}


def list_json(page: lock_service_pb2.ListLocksResponse) -> bytes:
    """Return the JSON of a `schemas.LockPage`. Raises the errors of `lock_body`."""
    return to_json({"locks": [lock_body(lock) for lock in page.locks], **_next(page.next_cursor)})


def verification_json(page: lock_service_pb2.VerifyLocksResponse) -> bytes:
    """Return the JSON of a `schemas.LockVerification`. Raises the errors of `lock_body`."""
    sides = {"ours": page.ours, "theirs": page.theirs}
    bodies = {side: [lock_body(lock) for lock in locks] for side, locks in sides.items()}
    return to_json({**bodies, **_next(page.next_cursor)})


def _next(cursor: str) -> dict[str, str]:
    return {"next_cursor": cursor} if cursor else {}
