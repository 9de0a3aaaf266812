"""Records and rules of this service as messages of the contract."""

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.storage.index import Record
from services.storage.intent import Intent
from services.storage.signing import SignedUrl
from services.storage.stat import ObjectStat, Status

_STATUSES = {
    Status.PRESENT: pb.OBJECT_STATUS_PRESENT,
    Status.MISSING: pb.OBJECT_STATUS_MISSING,
    Status.REMOVED: pb.OBJECT_STATUS_REMOVED,
}

_INTENTS = {
    pb.INTENT_UNSPECIFIED: Intent.NONE,
    pb.INTENT_READ: Intent.READ,
    pb.INTENT_WRITE: Intent.WRITE,
}


def intent_of(value: int) -> Intent:
    """Return an intent. Raises `InvalidArgument` for a number that names none."""
    for number, intent in _INTENTS.items():
        if number == value:
            return intent
    raise InvalidArgument(Reason.INVALID_FIELD, f"intent: expected one of the Intent enum, got {value}")


def object_message(record: Record) -> pb.Object:
    """Return the message of an object's record."""
    message = pb.Object(oid=record.oid, size=record.size)
    message.created_at.FromDatetime(record.created_at)
    if record.removed_at is not None:
        message.removed_at.FromDatetime(record.removed_at)
        message.removal_reason = record.removal_reason or ""
        message.removed_by = record.removed_by or ""
    return message


def add_stat(
    response: pb.BatchStatObjectsResponse,
    stat: ObjectStat,
    signed: SignedUrl | None,
    place: pb.BatchStatObjectsResponse.Place | None,
) -> None:
    """Add the answer for one object, with its address at the store and its place on a disk if it has them."""
    message = response.objects.add(status=_STATUSES[stat.status], size=stat.size)
    if place is not None and place.suffix:
        message.place.CopyFrom(place)
    if stat.removal_reason:
        message.removal_reason = stat.removal_reason
    if signed is not None:
        message.signed.CopyFrom(signed_message(signed))


def signed_message(signed: SignedUrl | None) -> pb.SignObjectUrlsResponse.SignedUrl:
    """Return the message of a signed address; an empty one for none."""
    if signed is None:
        return pb.SignObjectUrlsResponse.SignedUrl()
    message = pb.SignObjectUrlsResponse.SignedUrl(url=signed.url, headers=signed.headers)
    message.expires_at.FromDatetime(signed.expires_at)
    return message
