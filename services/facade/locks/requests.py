"""The four lock calls, as requests to the LockService (docs/protocol.md, "Create lock" to "Delete lock")."""

import re
from collections.abc import Mapping

from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import AlreadyExists, InvalidArgument, Reason
from services.facade.clients.services import ServiceClients
from services.facade.locks.rendering import list_json, lock_body, verification_json
from services.facade.web.error_reasons import invalid_reply

Body = Mapping[str, object]
"""The body of an answer; each function names the model of `schemas` that has its form."""

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX_LIMIT = 2**31 - 1


def parse_limit(text: str) -> int:
    """Return the number in the query value `limit`. Raises `InvalidArgument`."""
    if not _NUMBER.fullmatch(text):
        raise InvalidArgument(Reason.INVALID_FIELD, "limit: expected a whole number")
    sign, digits = text[0], text.lstrip("+-0")
    # Python refuses to parse very long numbers.
    number = int(digits or "0") if len(digits) < 20 else _MAX_LIMIT
    return -number if sign == "-" else number


def coerce_limit(limit: int | None) -> int:
    """Return a limit for the LockService: 0, its default, where `limit` is absent or less than 1."""
    return max(0, min(limit or 0, _MAX_LIMIT))


async def create(clients: ServiceClients, repository_id: int, user_id: int, path: str, *, key: str) -> Body:
    """Lock a path and return a `LockAnswer`; `key` is the idempotency key, the same for a retry.

    Raises `AlreadyExists` (PATH_LOCKED) with the existing lock as its detail.
    """
    request = pb.CreateLockRequest(repository_id=repository_id, user_id=user_id, path=path, idempotency_key=key)
    try:
        reply = await clients.locks.call(clients.lock_stub.CreateLock, request, detail=pb.Lock())
    except AlreadyExists as error:
        if error.detail is None:
            raise invalid_reply("CreateLock", "the conflict lacks the standing lock") from error
        raise
    return {"lock": lock_body(reply.lock)}


async def list_page(
    clients: ServiceClients, repository_id: int, *, path: str, lock_id: str, cursor: str, limit: int | None
) -> bytes:
    """Return a page of locks as JSON (`LockPage`); an empty `path` or `lock_id` does not filter.

    Raises `InvalidArgument` (INVALID_CURSOR).
    """
    request = pb.ListLocksRequest(
        repository_id=repository_id,
        path=path or None,
        id=lock_id or None,
        cursor=cursor,
        limit=coerce_limit(limit),
    )
    return list_json(await clients.locks.call(clients.lock_stub.ListLocks, request))


async def verify(clients: ServiceClients, repository_id: int, user_id: int, *, cursor: str, limit: int | None) -> bytes:
    """Return a page of locks, split by owner, as JSON (`LockVerification`).

    Raises `InvalidArgument` (INVALID_CURSOR).
    """
    request = pb.VerifyLocksRequest(
        repository_id=repository_id, user_id=user_id, cursor=cursor, limit=coerce_limit(limit)
    )
    return verification_json(await clients.locks.call(clients.lock_stub.VerifyLocks, request))


async def delete(
    clients: ServiceClients, repository_id: int, user_id: int, lock_id: str, *, force: bool, key: str
) -> Body:
    """Remove a lock and return a `LockAnswer`; `key` is the idempotency key, the same for a retry.

    Raises `NotFound` (LOCK_NOT_FOUND) and `PermissionDenied`; see LockService.DeleteLock.
    """
    request = pb.DeleteLockRequest(
        repository_id=repository_id, id=lock_id, user_id=user_id, force=force, idempotency_key=key
    )
    reply = await clients.locks.call(clients.lock_stub.DeleteLock, request)
    return {"lock": lock_body(reply.lock)}
