"""Conversions of webhooks and their deliveries to protobuf messages, and of requests to the types of the domain."""

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2 import Object

from services.common.errors import InvalidArgument, Reason
from services.locks.api.messages import timestamp
from services.locks.models import HookDelivery, Repository
from services.locks.webhooks.formats import Format, message_id
from services.locks.webhooks.hooks import HookWithRepository, NewHook

_FORMAT_NUMBERS = {
    Format.JSON: pb.HOOK_FORMAT_JSON,
    Format.SLACK: pb.HOOK_FORMAT_SLACK,
    Format.DISCORD: pb.HOOK_FORMAT_DISCORD,
}
_FORMATS = {number: form for form, number in _FORMAT_NUMBERS.items()} | {pb.HOOK_FORMAT_UNSPECIFIED: Format.JSON}


def new_hook_of(request: pb.CreateHookRequest) -> NewHook:
    """Return the hook that a request describes. Raises `InvalidArgument` for an unknown format."""
    form = _FORMATS.get(request.format)
    if form is None:
        names = ", ".join(pb.HookFormat.Name(number) for number in _FORMAT_NUMBERS.values())
        raise InvalidArgument(Reason.INVALID_FIELD, f"format: expected one of {names}")
    return NewHook(
        repository=request.repository,
        url=request.url,
        events=list(request.events),
        form=form,
        allows_private=request.allow_private,
    )


def hook_message(found: HookWithRepository) -> pb.Hook:
    """Return the message of a hook."""
    hook = found.hook
    return pb.Hook(
        id=hook.id,
        repository=found.repository,
        url=hook.url,
        events=hook.events,
        format=_FORMAT_NUMBERS[Format(hook.format)],
        allow_private=hook.allows_private,
        created_at=timestamp(hook.created_at),
        disabled_at=None if hook.disabled_at is None else timestamp(hook.disabled_at),
        disabled_because=hook.disabled_because,
    )


def delivery_message(delivery: HookDelivery) -> pb.HookDelivery:
    """Return the message of a delivery."""

    def moment(name: str) -> Timestamp | None:
        value = getattr(delivery, name)
        return None if value is None else timestamp(value)

    return pb.HookDelivery(
        id=delivery.id,
        message_id=message_id(delivery.message_uuid),
        event_type=delivery.event_type,
        repository=delivery.payload["repository_name"],
        created_at=timestamp(delivery.created_at),
        attempts=delivery.attempts,
        next_attempt_at=moment("next_attempt_at"),
        delivered_at=moment("delivered_at"),
        response_status=delivery.response_status or 0,
        problem=delivery.problem,
    )


def removed_object_payload(repository: Repository, removed: Object) -> dict[str, Any]:
    """Return the payload of the event that an object was removed."""
    return {
        "repository_name": repository.name,
        "oid": removed.oid,
        "size": removed.size,
        "reason": removed.removal_reason,
        "caused_by": removed.removed_by,
        "created_at": removed.removed_at.ToJsonString(),
    }
