"""The batch (protocol: "Batch", rules 1 to 4): which actions, or which error, each entry gets.

Answers are JSON of the form that `models` describes, written as such: a batch has hundreds.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from pydantic_core import to_json
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason, ResourceExhausted
from services.common.oid import is_oid
from services.facade.auth.action_tokens import ActionGrant, Operation
from services.facade.auth.authorizer import Authorizer, Caller, Permission
from services.facade.clients.object_lookup import ObjectStat
from services.facade.clients.services import ServiceClients
from services.facade.objects.actions import ActionBuilder, ActionFactory
from services.facade.web.schemas import MAX_TRANSFERS, BatchRequest, ObjectEntry

TRANSFER = "basic"
HASH_ALGORITHM = "sha256"

_MAX_SIZE = 2**63 - 1
# An entry with the largest size, indented; and the rest of the body, of which a ref is as long as a client likes.
_ENTRY_BYTES = 160
_REST_BYTES = 64 * 1024
# As many as git-lfs asks for, which take 2 ms; to sign more tokens takes longer than others should wait.
_MAX_INLINE_OBJECTS = 100
_PERMISSIONS = {"download": Permission.READ, "upload": Permission.WRITE}
_INTENTS = {"download": pb.INTENT_READ, "upload": pb.INTENT_WRITE}


@dataclass(frozen=True)
class Limits:
    """How many objects a batch may have, and how many bytes an object that is uploaded."""

    objects: int
    object_bytes: int

    @property
    def body_bytes(self) -> int:
        """The most bytes of a batch's body."""
        return self.objects * _ENTRY_BYTES + _REST_BYTES


class ObjectError(TypedDict):
    """See `models.ObjectError`."""

    code: int
    message: str


async def resolve_batch(
    request: BatchRequest,
    repository: str,
    caller: Caller,
    *,
    authorizer: Authorizer,
    clients: ServiceClients,
    limits: Limits,
    maker: ActionFactory,
) -> bytes:
    """Return the JSON that `models.BatchAnswer` describes; what is wrong with one object is told in its entry.

    Raises `ServiceError` for what is wrong with the request: see `check_request`, `Authorizer.check`,
    `ObjectLookupClient.stat`, and `InvalidArgument` where no object of an upload is valid.
    """
    check_request(request)
    permission = _PERMISSIONS[request.operation]
    repository_id = await authorizer.check(caller, repository, permission, request.ref_name)
    faults = [check_entry(entry, request, limits) for entry in request.objects]
    asked = [(entry.oid, entry.size) for entry, fault in zip(request.objects, faults, strict=True) if fault is None]
    intent = _INTENTS[request.operation]
    found = iter(await clients.objects.stat(repository_id, asked, intent, seconds=maker.seconds) if asked else ())
    stats = [next(found) if fault is None else None for fault in faults]
    operation = Operation(request.operation)
    grant = ActionGrant(
        operation, repository, repository_id, "", 0, caller.name, caller.user_id, caller.token_id, request.ref_name
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

    def answer() -> bytes:
        return body_of(
            with_error(entry, error)
            if stat is None or error is not None
            else with_actions(entry, stat, transfers, verifies)
            for entry, error, stat in zip(request.objects, errors, stats, strict=True)
        )

    return await asyncio.to_thread(answer) if len(asked) > _MAX_INLINE_OBJECTS else answer()


def body_of(entries: Iterable[str]) -> bytes:
    """Return the JSON of an answer with these entries, each JSON too."""
    return f'{{"transfer":"{TRANSFER}","objects":[{",".join(entries)}],"hash_algo":"{HASH_ALGORITHM}"}}'.encode()


def check_lengths(value: object, limits: Limits) -> None:
    """Raise for too many objects (`ResourceExhausted`, BATCH_TOO_LARGE) or transfers (`InvalidArgument`) in a body.

    The value is the body's JSON: to look at each entry takes long where there are many.
    """
    if not isinstance(value, dict):
        return
    objects, transfers = value.get("objects"), value.get("transfers")
    if isinstance(objects, list) and len(objects) > limits.objects:
        raise ResourceExhausted(
            Reason.BATCH_TOO_LARGE,
            f"objects: expected at most {limits.objects}; set lfs.transfer.batchSize to {limits.objects} or less",
        )
    if isinstance(transfers, list) and len(transfers) > MAX_TRANSFERS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"transfers: expected at most {MAX_TRANSFERS}")


def check_request(request: BatchRequest) -> None:
    """Raise `InvalidArgument` for no transfer in common."""
    if request.transfers and TRANSFER not in request.transfers:
        raise InvalidArgument(Reason.INVALID_FIELD, f"transfers: expected {TRANSFER} to be among them")


def check_entry(entry: ObjectEntry, request: BatchRequest, limits: Limits) -> ObjectError | None:
    """Return what is wrong with an entry, whatever is held; None where nothing is."""
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
    """Return why a valid entry has no actions, by what is held of it; None where nothing is wrong."""
    if found.status == pb.OBJECT_STATUS_REMOVED:
        return {"code": 410, "message": removed_message(found.removal_reason)}
    if found.status == pb.OBJECT_STATUS_PRESENT:
        if found.size != entry.size:
            return {"code": 422, "message": f"size: the object has {found.size} bytes"}
    elif operation is Operation.DOWNLOAD:
        return {"code": 404, "message": "the object does not exist"}
    return None


def with_actions(
    entry: ObjectEntry, found: ObjectStat, transfers: ActionBuilder, verifies: ActionBuilder | None
) -> str:
    """Return the answer for an entry that is not refused; downloads have no `verifies`."""
    oid, size = entry.oid, entry.size
    if verifies is None:
        actions = f',"actions":{{"download":{transfers.build_transfer(oid, size, found)}}}'
    elif found.status != pb.OBJECT_STATUS_PRESENT:
        upload = transfers.build_transfer(oid, size, found)
        actions = f',"actions":{{"upload":{upload},"verify":{verifies.build(oid, size)}}}'
    else:
        actions = ""
    return f'{{"oid":"{oid}","size":{size},"authenticated":true{actions}}}'


def removed_message(reason: str) -> str:
    """Return what is told of an object that was removed."""
    return f"the object was removed: {reason}" if reason else "the object was removed"


def with_error(entry: ObjectEntry, error: ObjectError | None) -> str:
    """Return the answer with an error; it echoes what the entry has of the right type."""
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
