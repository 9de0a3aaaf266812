"""The lock calls: requests to the LockService, and its replies as bodies (docs/protocol.md, "Lock object").

Bodies with locks are plain dicts, because pages of a thousand locks are rendered often.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from pydantic_core import to_json
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import AlreadyExists, InvalidArgument, Reason, ServiceError
from services.facade.auth.caller import Caller
from services.facade.clients.services import ServiceClients
from services.facade.web.error_reasons import HttpReason, invalid_reply

BatchReply = pb.CreateLocksResponse | pb.DeleteLocksResponse
Body = dict[str, object]
"""A JSON object in the form of a model of `schemas`; each function names the model."""

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX_LIMIT = 2**31 - 1
_TAG = re.compile(r'"([0-9]{1,18})-([0-9]{1,18})"', re.ASCII)


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


async def create(
    clients: ServiceClients, repository_id: int, user_id: int, path: str, *, note: str, ref: str, key: str
) -> Body:
    """Lock a path and return a `LockAnswer`; `key` is the idempotency key, the same for a retry.

    Raises `AlreadyExists` (PATH_LOCKED) with the existing lock as its detail.
    """
    request = pb.CreateLockRequest(
        repository_id=repository_id, user_id=user_id, path=path, note=note, ref=ref, idempotency_key=key
    )
    with _conflict_of("CreateLock"):
        reply = await clients.locks.call(clients.lock_stub.CreateLock, request, detail=pb.Lock())
    return {"lock": lock_body(reply.lock)}


@contextmanager
def _conflict_of(call: str) -> Iterator[None]:
    """Raise `ServiceError` (INVALID_REPLY) in place of a conflict that lacks the standing lock."""
    try:
        yield
    except AlreadyExists as error:
        if error.detail is None:
            raise invalid_reply(call, "the conflict lacks the standing lock") from error
        raise


async def list_page(
    clients: ServiceClients,
    repository_id: int,
    *,
    path: str,
    path_prefix: str,
    lock_id: str,
    owner: str,
    ref: str,
    cursor: str,
    limit: int | None,
    known: Sequence[str],
) -> tuple[bytes | None, str]:
    """Return a page of locks as JSON (`LockPage`), and its entity tag or "". A filter that is empty selects all.

    There is no page if the tag is among the `known` ones. Raises `InvalidArgument` (INVALID_CURSOR).
    """
    known_generation = _generation(repository_id, known)
    if known_generation is not None:
        generation = await clients.lock_generations.read(repository_id, known_generation)
        if generation == known_generation:
            return None, _entity_tag(repository_id, generation)
    request = pb.ListLocksRequest(
        repository_id=repository_id,
        path=path or None,
        path_prefix=path_prefix or None,
        id=lock_id or None,
        owner_name=owner or None,
        ref=ref,
        cursor=cursor,
        limit=coerce_limit(limit),
    )
    reply = await clients.locks.call(clients.lock_stub.ListLocks, request)
    return list_json(reply), _entity_tag(repository_id, reply.generation)


async def verify(
    clients: ServiceClients, repository_id: int, user_id: int, *, ref: str, cursor: str, limit: int | None
) -> tuple[bytes, str]:
    """Return a page, split by owner, as JSON (`LockVerification`), and the entity tag of the list of all locks.

    Raises `InvalidArgument` (INVALID_CURSOR).
    """
    request = pb.VerifyLocksRequest(
        repository_id=repository_id, user_id=user_id, ref=ref, cursor=cursor, limit=coerce_limit(limit)
    )
    reply = await clients.locks.call(clients.lock_stub.VerifyLocks, request)
    return verification_json(reply), _entity_tag(repository_id, reply.generation)


async def delete(
    clients: ServiceClients, repository_id: int, caller: Caller, lock_id: str, *, force: bool, reason: str, key: str
) -> Body:
    """Remove a lock and return a `LockAnswer`; `key` is the idempotency key, the same for a retry.

    Raises `NotFound` (LOCK_NOT_FOUND) and `PermissionDenied`; see LockService.DeleteLock.
    """
    request = pb.DeleteLockRequest(
        repository_id=repository_id,
        id=lock_id,
        user_id=caller.user_id,
        token_id=caller.deciding_token_id,
        force=force,
        reason=reason,
        idempotency_key=key,
    )
    reply = await clients.locks.call(clients.lock_stub.DeleteLock, request)
    return {"lock": lock_body(reply.lock)}


async def steal(
    clients: ServiceClients,
    repository_id: int,
    caller: Caller,
    lock_id: str,
    *,
    reason: str,
    note: str,
    ref: str,
    key: str,
) -> Body:
    """Replace another user's lock and return a `StolenLockAnswer`; `key` is the idempotency key, the same for a retry.

    Raises `AlreadyExists` (PATH_LOCKED) with the existing lock as its detail; see LockService.StealLock.
    """
    request = pb.StealLockRequest(
        repository_id=repository_id,
        user_id=caller.user_id,
        token_id=caller.deciding_token_id,
        id=lock_id,
        reason=reason,
        note=note,
        ref=ref,
        idempotency_key=key,
    )
    with _conflict_of("StealLock"):
        reply = await clients.locks.call(clients.lock_stub.StealLock, request, detail=pb.Lock())
    return {"lock": lock_body(reply.lock), "previous": released_body(reply.previous)}


async def create_many(
    clients: ServiceClients,
    repository_id: int,
    user_id: int,
    paths: Sequence[str],
    *,
    note: str,
    ref: str,
    atomic: bool,
) -> Body:
    """Lock paths and return a `LockPathsAnswer`; what the user has locked already counts as locked.

    With `atomic`, raises `ServiceError` (BATCH_REFUSED) if a path cannot be locked; its detail is the reply. See
    LockService.CreateLocks.
    """
    request = pb.CreateLocksRequest(
        repository_id=repository_id, user_id=user_id, paths=paths, note=note, ref=ref, all_or_nothing=atomic
    )
    reply = await clients.locks.call(clients.lock_stub.CreateLocks, request)
    return _batch_body(reply, "locked", atomic=atomic)


async def delete_many(
    clients: ServiceClients,
    repository_id: int,
    caller: Caller,
    paths: Sequence[str],
    *,
    force: bool,
    reason: str,
    ref: str,
    atomic: bool,
    key: str,
) -> Body:
    """Remove the locks of paths and return a `LockPathsAnswer`; `key` is the idempotency key, the same for a retry.

    With `atomic`, raises `ServiceError` (BATCH_REFUSED) if a lock cannot be removed; its detail is the reply. See
    LockService.DeleteLocks.
    """
    request = pb.DeleteLocksRequest(
        repository_id=repository_id,
        user_id=caller.user_id,
        token_id=caller.deciding_token_id,
        paths=paths,
        force=force,
        reason=reason,
        ref=ref,
        all_or_nothing=atomic,
        idempotency_key=key,
    )
    reply = await clients.locks.call(clients.lock_stub.DeleteLocks, request)
    return _batch_body(reply, "unlocked", atomic=atomic)


def _batch_body(reply: BatchReply, done: str, *, atomic: bool) -> Body:
    if not atomic:
        paths, failures = [lock.path for lock in reply.locks], list(map(failure_body, reply.failures))
        return {"batch": {"paths": paths, "failures": failures}}
    if reply.failures:
        first = reply.failures[0]
        problem = f"no path was {done}, because {len(reply.failures)} failed; {first.path}: {first.message}"
        raise ServiceError(HttpReason.BATCH_REFUSED, problem, detail=reply)
    return {"locks": list(map(lock_body, reply.locks))}


def failure_body(failure: pb.PathFailure) -> Body:
    """Return the body of a path that a batch of paths has left as it was."""
    return {"path": failure.path, "reason": failure.message}


def lock_body(lock: pb.Lock) -> Body:
    """Return the body of a lock, always with its owner's name: clients crash without it (client-4).

    Raises `ServiceError` (INVALID_REPLY) where a field is missing.
    """
    lock_id, path, owner = lock.id, lock.path, lock.owner_name
    if not (lock_id and path and owner and lock.HasField("locked_at")):
        raise invalid_reply("LockService", "a lock lacks its id, path, time or owner")
    locked_at = datetime.fromtimestamp(lock.locked_at.seconds, UTC)
    body: Body = {"id": lock_id, "path": path, "locked_at": locked_at, "owner": {"name": owner}}
    if lock.note:
        body["note"] = lock.note
    if lock.space:
        body["space"] = lock.space
    return body


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


def list_json(page: pb.ListLocksResponse) -> bytes:
    """Return the JSON of a `LockPage`. Raises the errors of `lock_body`."""
    return to_json({"locks": [lock_body(lock) for lock in page.locks], **next_page(page.next_cursor)})


def verification_json(page: pb.VerifyLocksResponse) -> bytes:
    """Return the JSON of a `LockVerification`. Raises the errors of `lock_body`."""
    sides = {"ours": page.ours, "theirs": page.theirs}
    bodies = {side: [lock_body(lock) for lock in locks] for side, locks in sides.items()}
    return to_json({**bodies, **next_page(page.next_cursor)})


def _entity_tag(repository_id: int, generation: int) -> str:
    """Return the entity tag of a list; "" if the lock service is of a version that tells no generation."""
    # Another repository can have the same name later, and begins to count anew.
    return f'"{repository_id}-{generation}"' if generation else ""


def _generation(repository_id: int, tags: Sequence[str]) -> int | None:
    """Return the newest generation of this repository among entity tags; None if there is none."""
    found = [int(match[2]) for tag in tags if (match := _TAG.fullmatch(tag)) and match[1] == str(repository_id)]
    return max(found, default=None)


def next_page(cursor: str) -> dict[str, str]:
    """Return the members of a page that name the next page."""
    return {"next_cursor": cursor} if cursor else {}
