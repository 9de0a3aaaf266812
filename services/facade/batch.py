"""The batch (protocol: "Batch", rules 1 to 4): which actions, or which error, each entry gets.

Answers are plain dicts of the form that `models` describes: a batch has hundreds.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason, ResourceExhausted
from services.common.oid import is_oid
from services.facade.access import Access, Caller, Permission
from services.facade.action_tokens import Operation, Permit
from services.facade.actions import Action, ActionMaker, ObjectActions
from services.facade.models import MOST_TRANSFERS, BatchRequest, ObjectEntry
from services.facade.peers import Peers
from services.facade.stored_objects import ObjectStat

TRANSFER = "basic"
HASH_ALGORITHM = "sha256"

_LARGEST_SIZE = 2**63 - 1
# An entry with the largest size, indented; and the rest of the body, of which a ref is as long as a client likes.
_ENTRY_BYTES = 160
_REST_BYTES = 64 * 1024
# As many as git-lfs asks for, which take 2 ms; to sign more tokens takes longer than others should wait.
_ANSWERED_AT_ONCE = 100
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


class ObjectAnswer(TypedDict):
    """See `models.ObjectAnswer`."""

    oid: str
    size: int
    authenticated: NotRequired[bool]
    actions: NotRequired[dict[str, Action]]
    error: NotRequired[ObjectError]


async def negotiate(
    request: BatchRequest,
    repository: str,
    caller: Caller,
    *,
    access: Access,
    peers: Peers,
    limits: Limits,
    maker: ActionMaker,
) -> dict[str, object]:
    """Return the body that `models.BatchAnswer` describes; what is wrong with one object is told in its entry.

    Raises `ServiceError` for what is wrong with the request: see `check_request`, `Access.check`, `StoredObjects.stat`,
    and `InvalidArgument` where no object of an upload is valid.
    """
    check_request(request)
    permission = _PERMISSIONS[request.operation]
    repository_id = await access.check(caller, repository, permission, request.ref_name)
    faults = [check_entry(entry, request, limits) for entry in request.objects]
    asked = [(entry.oid, entry.size) for entry, fault in zip(request.objects, faults, strict=True) if fault is None]
    intent = _INTENTS[request.operation]
    found = iter(await peers.objects.stat(repository_id, asked, intent, seconds=maker.seconds) if asked else ())

    operation = Operation(request.operation)
    permit = Permit(
        operation, repository, repository_id, "", 0, caller.name, caller.user_id, caller.token_id, request.ref_name
    )
    transfers = maker.of(permit)
    verifies = maker.of(permit._replace(operation=Operation.VERIFY)) if operation is Operation.UPLOAD else None

    def answer() -> list[ObjectAnswer]:
        return [
            answer_entry(entry, next(found), transfers, verifies) if fault is None else _refuse(entry, fault)
            for entry, fault in zip(request.objects, faults, strict=True)
        ]

    answers = await asyncio.to_thread(answer) if len(asked) > _ANSWERED_AT_ONCE else answer()
    if request.operation == "upload":
        _check_any_valid(answers)
    return {"transfer": TRANSFER, "objects": answers, "hash_algo": HASH_ALGORITHM}


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
    if isinstance(transfers, list) and len(transfers) > MOST_TRANSFERS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"transfers: expected at most {MOST_TRANSFERS}")


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
    if type(entry.size) is not int or not 0 <= entry.size <= _LARGEST_SIZE:
        return {"code": 422, "message": "size: expected a whole number of bytes, at least 0"}
    if request.operation == "upload" and entry.size > limits.object_bytes:
        return {"code": 422, "message": f"size: expected at most {limits.object_bytes} bytes"}
    return None


def answer_entry(
    entry: ObjectEntry, found: ObjectStat, transfers: ObjectActions, verifies: ObjectActions | None
) -> ObjectAnswer:
    """Return the answer for an entry that is valid, by what is held of it; downloads have no `verifies`."""
    status = found.status
    oid, size = entry.oid, entry.size
    if status == pb.OBJECT_STATUS_REMOVED:
        return _refuse(entry, {"code": 410, "message": removed_message(found.removal_reason)})
    held = status == pb.OBJECT_STATUS_PRESENT
    if held and found.size != size:
        return _refuse(entry, {"code": 422, "message": f"size: the object has {found.size} bytes"})
    answer: ObjectAnswer = {"oid": oid, "size": size, "authenticated": True}
    if verifies is None:
        if not held:
            return _refuse(entry, {"code": 404, "message": "the object does not exist"})
        answer["actions"] = {"download": transfers.transfer(oid, size, found)}
    elif not held:
        answer["actions"] = {"upload": transfers.transfer(oid, size, found), "verify": verifies.make(oid, size)}
    return answer


def removed_message(reason: str) -> str:
    """Return what is told of an object that was removed."""
    return f"the object was removed: {reason}" if reason else "the object was removed"


def _refuse(entry: ObjectEntry, error: ObjectError) -> ObjectAnswer:
    """Return the answer with an error; it echoes what the entry has of the right type."""
    return {
        "oid": entry.oid if isinstance(entry.oid, str) else "",
        "size": entry.size if type(entry.size) is int else 0,
        "error": error,
    }


def _check_any_valid(answers: Sequence[ObjectAnswer]) -> None:
    errors = [answer.get("error") for answer in answers]
    if errors and all(error is not None and error["code"] == 422 for error in errors):
        first = errors[0]["message"] if errors[0] else ""
        raise InvalidArgument(Reason.INVALID_FIELD, f"objects: none is valid; the first: {first}")
