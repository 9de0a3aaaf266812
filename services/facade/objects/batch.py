"""The batch: the actions, or the error, of each entry (docs/protocol.md, "Batch", rules 1 to 4).

Entries are built as JSON text in the form of the models in `schemas`, because a batch has hundreds of them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

from pydantic_core import to_json
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.common.oid import is_oid
from services.common.sizes import is_warned_of, quota_message
from services.facade.auth.action_tokens import ActionGrant, Operation
from services.facade.auth.authorizer import PERMISSIONS, Authorizer
from services.facade.auth.caller import Caller
from services.facade.clients.object_lookup import ObjectStat
from services.facade.clients.services import ServiceClients
from services.facade.objects.actions import ActionBuilder, ActionFactory
from services.facade.web.schemas import BatchRequest, ObjectEntry

TRANSFER = "basic"
RESUMABLE_TRANSFER = "tus"
HASH_ALGORITHM = "sha256"

_MAX_SIZE = 2**63 - 1
# git-lfs asks for this many, and signing them takes 2 ms; signing more would delay other requests for too long.
_MAX_INLINE_OBJECTS = 100
_DAMAGED = "the bytes of the object are damaged or lost on the server; a push from a clone that has them heals it"


@dataclass(frozen=True)
class Limits:
    """The most objects of a batch, and the most bytes of an object to upload."""

    objects: int
    object_bytes: int


class ObjectError(TypedDict):
    """The form of `schemas.ObjectError`."""

    code: int
    message: str


class ResolvedBatch(NamedTuple):
    """The JSON of a `schemas.BatchAnswer`, and the header X-Towpath-Quota; empty while the quota is not warned of."""

    body: bytes
    quota: str


async def resolve_batch(
    request: BatchRequest,
    repository: str,
    caller: Caller,
    *,
    authorizer: Authorizer,
    clients: ServiceClients,
    limits: Limits,
    maker: ActionFactory,
) -> ResolvedBatch:
    """Return the answer to a batch; the error of one object is in that object's entry.

    Raises `ServiceError` where the whole request fails: the errors of `check_request`, `Authorizer.check` and
    `ObjectLookupClient.stat`, and `InvalidArgument` where no object of an upload is valid.
    """
    check_request(request)
    operation = Operation(request.operation)
    repository_id = await authorizer.check(caller, repository, PERMISSIONS[operation], request.ref_name)
    faults = [check_entry(entry, request, limits) for entry in request.objects]
    asked = [(entry.oid, entry.size) for entry, fault in zip(request.objects, faults, strict=True) if fault is None]
    reply = pb.BatchStatObjectsResponse()
    objects: Iterable[ObjectStat] = ()
    if asked and operation is Operation.UPLOAD:
        reply = await clients.objects.announce(repository_id, asked, seconds=maker.seconds, user_id=caller.user_id)
        objects = reply.objects
    elif asked:
        objects = await clients.objects.stat(repository_id, asked, pb.INTENT_READ, seconds=maker.seconds)
    found = iter(objects)
    stats = [next(found) if fault is None else None for fault in faults]
    grant = ActionGrant(
        operation,
        repository,
        repository_id,
        oid="",
        size=0,
        user=caller.name,
        user_id=caller.user_id,
        token_id=caller.token_id,
        ref=request.ref_name,
        credential=caller.credential,
    )
    transfers = maker.for_operation(grant)
    verifies = (
        maker.for_operation(grant._replace(operation=Operation.VERIFY)) if operation is Operation.UPLOAD else None
    )

    errors = [
        fault if stat is None else refusal(entry, stat, operation)
        for entry, fault, stat in zip(request.objects, faults, stats, strict=True)
    ]
    if operation is Operation.UPLOAD:
        _check_any_valid(errors)

    transfer = RESUMABLE_TRANSFER if reply.is_resumable and is_resumable(request) else TRANSFER

    def answer() -> bytes:
        return body_of(
            transfer,
            (
                with_error(entry, error)
                if stat is None or error is not None
                else with_actions(entry, stat, transfers, verifies)
                for entry, error, stat in zip(request.objects, errors, stats, strict=True)
            ),
        )

    body = await asyncio.to_thread(answer) if len(asked) > _MAX_INLINE_OBJECTS else answer()
    return ResolvedBatch(body, quota_header(reply))


def quota_header(reply: pb.BatchStatObjectsResponse) -> str:
    """Return the header X-Towpath-Quota; empty while the use of the quota, if there is one, is not warned of."""
    use = reply.quota
    if not use.quota_bytes or not is_warned_of(use.used_bytes, use.quota_bytes):
        return ""
    return f"used={use.used_bytes}; limit={use.quota_bytes}"


def is_resumable(request: BatchRequest) -> bool:
    """Return whether the client uploads by tus where the server does."""
    return RESUMABLE_TRANSFER in (request.transfers or ())


def body_of(transfer: str, entries: Iterable[str]) -> bytes:
    """Return the JSON of an answer with these entries, each of which is JSON already."""
    return f'{{"transfer":"{transfer}","objects":[{",".join(entries)}],"hash_algo":"{HASH_ALGORITHM}"}}'.encode()


def check_request(request: BatchRequest) -> None:
    """Raise `InvalidArgument` where the client and the facade have no transfer in common."""
    if request.transfers and TRANSFER not in request.transfers:
        raise InvalidArgument(Reason.INVALID_FIELD, f"transfers: expected {TRANSFER} to be among them")


def check_entry(entry: ObjectEntry, request: BatchRequest, limits: Limits) -> ObjectError | None:
    """Return the error of an entry that is invalid in itself; None where it is valid."""
    if request.hash_algo is not None and request.hash_algo != HASH_ALGORITHM:
        return {"code": 409, "message": f"hash_algo: expected {HASH_ALGORITHM}"}
    if not is_oid(entry.oid):
        return {"code": 422, "message": "oid: expected 64 lower-case hexadecimal digits"}
    if type(entry.size) is not int or not 0 <= entry.size <= _MAX_SIZE:
        return {"code": 422, "message": "size: expected a whole number of bytes, at least 0"}
    if request.operation == "upload" and entry.size > limits.object_bytes:
        return {"code": 422, "message": f"size: expected at most {limits.object_bytes} bytes"}
    return None


def refusal(entry: ObjectEntry, found: ObjectStat, operation: Operation) -> ObjectError | None:
    """Return the error of a valid entry by the state of its object; None where there is no error."""
    if found.status == pb.OBJECT_STATUS_REMOVED:
        return {"code": 410, "message": removed_message(found.removal_reason, operation)}
    if found.status == pb.OBJECT_STATUS_PRESENT:
        if found.size != entry.size:
            return {"code": 422, "message": f"size: the object has {found.size} bytes"}
    elif found.status == pb.OBJECT_STATUS_OVER_QUOTA:
        use = found.over_quota
        return {"code": 507, "message": quota_message(use.used_bytes, use.quota_bytes, is_of_user=use.is_of_user)}
    elif operation is Operation.DOWNLOAD and found.status == pb.OBJECT_STATUS_DAMAGED:
        return {"code": 502, "message": _DAMAGED}
    elif operation is Operation.DOWNLOAD:
        return {"code": 404, "message": "the object does not exist"}
    return None


def with_actions(
    entry: ObjectEntry, found: ObjectStat, transfers: ActionBuilder, verifies: ActionBuilder | None
) -> str:
    """Return the answer to an entry without an error; `verifies` is None for downloads."""
    oid, size = entry.oid, entry.size
    if verifies is None:
        actions = f',"actions":{{"download":{transfers.build_transfer(oid, size, found)}}}'
    elif found.status != pb.OBJECT_STATUS_PRESENT:
        upload = transfers.build_transfer(oid, size, found)
        actions = f',"actions":{{"upload":{upload},"verify":{verifies.build(oid, size)}}}'
    else:
        actions = ""
    return f'{{"oid":"{oid}","size":{size},"authenticated":true{actions}}}'


def removed_message(reason: str, operation: Operation) -> str:
    """Return the message for an object that was removed; to an upload it says what the pusher can do."""
    removed = f"the object was removed: {reason}" if reason else "the object was removed"
    if operation is Operation.DOWNLOAD:
        return removed
    return f"{removed}; an administrator can undelete it, and `git push --no-verify` pushes without it"


def with_error(entry: ObjectEntry, error: ObjectError | None) -> str:
    """Return the answer to an entry with an error; it echoes the oid and the size that have the right type."""
    refused = {
        "oid": entry.oid if isinstance(entry.oid, str) else "",
        "size": entry.size if type(entry.size) is int else 0,
        "error": error,
    }
    return to_json(refused).decode()


def _check_any_valid(errors: Sequence[ObjectError | None]) -> None:
    if errors and all(error is not None and error["code"] == 422 for error in errors):
        first = errors[0]["message"] if errors[0] else ""
        raise InvalidArgument(Reason.INVALID_FIELD, f"objects: none is valid; the first: {first}")
