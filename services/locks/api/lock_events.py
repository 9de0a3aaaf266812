"""Conversion of the events of locks to protobuf messages."""

from towpath.locks.v1 import lock_service_pb2 as pb

from services.locks.api.messages import lock_message, timestamp
from services.locks.events.feed import Update
from services.locks.events.reader import Event
from services.locks.locking.table import LockWithOwner
from services.locks.webhooks.event_types import LOCK_CREATED, LOCK_RELEASED, LOCK_STOLEN

_TYPES = {
    LOCK_CREATED: pb.LOCK_EVENT_TYPE_CREATED,
    LOCK_RELEASED: pb.LOCK_EVENT_TYPE_RELEASED,
    LOCK_STOLEN: pb.LOCK_EVENT_TYPE_STOLEN,
}


def update_message(update: Update) -> pb.WatchLocksResponse:
    """Return the response of a watch."""
    return pb.WatchLocksResponse(
        events=map(event_message, update.events), position=str(update.position), reset=update.reset
    )


def event_message(event: Event) -> pb.LockEvent:
    """Return the message of an event."""
    owner = event.owner_id, event.owner_name
    lock = LockWithOwner(event.lock_id, event.path, event.locked_at, *owner, event.note, event.space)
    return pb.LockEvent(
        position=str(event.position),
        type=_TYPES[event.type],
        lock=lock_message(lock),
        caused_by=event.caused_by,
        reason=event.reason,
        forced=event.forced,
        previous_id="" if event.previous_id is None else str(event.previous_id),
        previous_owner_name=event.previous_owner,
        created_at=timestamp(event.created_at),
    )
