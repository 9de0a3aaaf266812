"""Conversion between the records of this service and the protobuf messages of its API."""

from collections.abc import Iterable
from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.common.oid import is_oid
from services.storage import validation
from services.storage.backends.signing import SignedUrl
from services.storage.index.object_lists import ListedObject, ObjectOrder, ObjectState
from services.storage.index.objects import Record
from services.storage.index.reservations import Admission, Refusal
from services.storage.intent import Intent
from services.storage.objects.stat import ObjectKey, ObjectStat, Status

_MAX_REPOSITORIES = 1000

_STATUSES = {
    Status.PRESENT: pb.OBJECT_STATUS_PRESENT,
    Status.MISSING: pb.OBJECT_STATUS_MISSING,
    Status.REMOVED: pb.OBJECT_STATUS_REMOVED,
    Status.DAMAGED: pb.OBJECT_STATUS_DAMAGED,
    Status.OVER_QUOTA: pb.OBJECT_STATUS_OVER_QUOTA,
}

_INTENTS = {
    pb.INTENT_UNSPECIFIED: Intent.NONE,
    pb.INTENT_READ: Intent.READ,
    pb.INTENT_WRITE: Intent.WRITE,
}

_ORDERS = {
    pb.OBJECT_ORDER_UNSPECIFIED: ObjectOrder.OID,
    pb.OBJECT_ORDER_LARGEST: ObjectOrder.LARGEST,
    pb.OBJECT_ORDER_NEWEST: ObjectOrder.NEWEST,
}

_STATES = {
    pb.OBJECT_STATE_UNSPECIFIED: ObjectState.ANY,
    pb.OBJECT_STATE_HELD: ObjectState.HELD,
    pb.OBJECT_STATE_BIN: ObjectState.BIN,
    pb.OBJECT_STATE_DAMAGED: ObjectState.DAMAGED,
}


def intent_of(value: int) -> Intent:
    """Return the intent of a protobuf enum value. Raises `InvalidArgument` for an unknown value."""
    for number, intent in _INTENTS.items():
        if number == value:
            return intent
    raise InvalidArgument(Reason.INVALID_FIELD, f"intent: expected one of the Intent enum, got {value}")


def order_of(value: int) -> ObjectOrder:
    """Return the order of a protobuf enum value. Raises `InvalidArgument` for an unknown value."""
    for number, order in _ORDERS.items():
        if number == value:
            return order
    raise InvalidArgument(Reason.INVALID_FIELD, f"order: expected one of the ObjectOrder enum, got {value}")


def state_of(value: int) -> ObjectState:
    """Return the state of a protobuf enum value. Raises `InvalidArgument` for an unknown value."""
    for number, state in _STATES.items():
        if number == value:
            return state
    raise InvalidArgument(Reason.INVALID_FIELD, f"state: expected one of the ObjectState enum, got {value}")


def object_keys(
    keys: Iterable[pb.BatchStatObjectsRequest.ObjectKey | pb.SignObjectUrlsRequest.ObjectKey],
) -> list[ObjectKey]:
    """Return the objects of a request. Raises as `validation.oid` and `validation.not_negative` do."""
    found = [ObjectKey(key.oid, key.size) for key in keys]
    for key in found:
        # Fast path: a batch has hundreds of keys, nearly all valid, and the validators are called only to raise.
        if key.size < 0 or not is_oid(key.oid):
            validation.oid(key.oid)
            validation.not_negative("size", key.size)
    return found


def read_bytes(request: pb.CountReadsRequest) -> dict[int, int]:
    """Return the number of bytes read, by repository id. Raises `InvalidArgument`."""
    if len(request.bytes) > _MAX_REPOSITORIES:
        raise InvalidArgument(Reason.INVALID_FIELD, f"bytes: expected at most {_MAX_REPOSITORIES} repositories")
    return {
        validation.repository_id(id_): validation.not_negative("bytes", count) for id_, count in request.bytes.items()
    }


def object_message(record: Record) -> pb.Object:
    """Return the message of an object's record."""
    message = pb.Object(oid=record.oid, size=record.size, is_collected=record.is_collected)
    message.created_at.FromDatetime(record.created_at)
    if record.removed_at is not None:
        message.removed_at.FromDatetime(record.removed_at)
        message.removal_reason = record.removal_reason or ""
        message.removed_by = record.removed_by or ""
    if record.bin_until is not None:
        message.bin_until.FromDatetime(record.bin_until)
    return message


def listed_message(listed: ListedObject) -> pb.Object:
    """Return the message of an object in a list."""
    message = object_message(listed.record)
    message.is_damaged = listed.is_damaged
    message.added_by = listed.added_by or 0
    if listed.used_at is not None:
        message.used_at.FromDatetime(listed.used_at)
    return message


def add_stat(
    response: pb.BatchStatObjectsResponse,
    stat: ObjectStat,
    signed: SignedUrl | None,
    place: pb.BatchStatObjectsResponse.Place | None,
) -> None:
    """Append the status of one object to the response, with its signed URL and its place on a disk, if any."""
    message = response.objects.add(status=_STATUSES[stat.status], size=stat.size)
    if place is not None and place.suffix:
        message.place.CopyFrom(place)
    if stat.removal_reason:
        message.removal_reason = stat.removal_reason
    if signed is not None:
        message.signed.CopyFrom(signed_message(signed))
    if stat.admission is not None:
        _add_admission(response, message, stat.admission)


def _add_admission(
    response: pb.BatchStatObjectsResponse, message: pb.BatchStatObjectsResponse.ObjectStat, admission: Admission
) -> None:
    use = pb.BatchStatObjectsResponse.QuotaUse(
        used_bytes=admission.used, quota_bytes=admission.quota, is_of_user=admission.refused_by is Refusal.USER
    )
    if not admission.is_admitted:
        message.over_quota.CopyFrom(use)
    # The last one has what all of them use.
    if use.quota_bytes and not use.is_of_user:
        response.quota.CopyFrom(use)


def signed_message(signed: SignedUrl | None) -> pb.SignObjectUrlsResponse.SignedUrl:
    """Return the message of a signed URL; an empty message for None."""
    if signed is None:
        return pb.SignObjectUrlsResponse.SignedUrl()
    message = pb.SignObjectUrlsResponse.SignedUrl(url=signed.url, headers=signed.headers)
    message.expires_at.FromDatetime(signed.expires_at)
    return message


def timestamp(moment: datetime | None) -> Timestamp | None:
    """Return the message of a time, if any."""
    if moment is None:
        return None
    message = Timestamp()
    message.FromDatetime(moment)
    return message
