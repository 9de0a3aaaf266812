"""Fields of records of the storage service, and rows of the audit log, as the audit log and AdminService tell them."""

import json
import re
from collections.abc import Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2 import Object, SetLimitsResponse
from towpath.storage.v1.store_service_pb2 import Store

from services.common.errors import InvalidArgument, Reason
from services.common.observability.request_id import is_acceptable
from services.locks.access.refusals import Refused
from services.locks.models import AuditEvent, Refusal

_MAX_REFUSALS = 1_000

# A store's URL must not contain credentials; nothing is kept in which a person has put some all the same.
_CREDENTIALS = re.compile(r"//[^/\s]*@|[?#].*")


def object_fields(removed: Object) -> dict[str, Any]:
    """Return the fields of an object for the audit log."""
    return message_fields(removed)


def store_fields(store: Store) -> dict[str, Any]:
    """Return the fields of a store for the audit log, with its URL as far as that is certainly no secret."""
    fields = message_fields(store)
    if "url" in fields:
        fields["url"] = _CREDENTIALS.sub(lambda found: "//" if found[0].startswith("//") else "", fields["url"])
    return fields


def message_fields(message: Message) -> dict[str, Any]:
    """Return the fields of a message for the audit log."""
    fields: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return fields


def event_message(event: AuditEvent) -> pb.AuditEvent:
    """Return the message of an event of the audit log."""
    texts = ("type", "actor", "source", "request_id", "subject", "repository")
    message = pb.AuditEvent(id=event.id, **{name: getattr(event, name) for name in texts})
    message.created_at.FromDatetime(event.created_at)
    if event.before is not None:
        message.before = json.dumps(event.before, ensure_ascii=False)
    if event.after is not None:
        message.after = json.dumps(event.after, ensure_ascii=False)
    return message


def refusal_message(refusal: Refusal) -> pb.RefusalRecord:
    """Return the message of a refusal."""
    texts = ("reason", "message", "rule", "source", "user_name", "repository", "permission", "ref", "groups")
    message = pb.RefusalRecord(
        grants=(pb.RefusalRecord.GrantRecord(**grant) for grant in refusal.grants),
        **{name: getattr(refusal, name) for name in texts},
    )
    message.created_at.FromDatetime(refusal.created_at)
    return message


def refusals_of(request: access.RecordRefusalsRequest) -> Sequence[Refused]:
    """Return the refusals of a request. Raises `InvalidArgument` (INVALID_FIELD)."""
    if len(request.refusals) > _MAX_REFUSALS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"refusals: expected at most {_MAX_REFUSALS}")
    return [
        Refused(
            refusal.reason,
            refusal.message,
            "the answer that the client got",
            "" if refusal.user_name else "anonymous or unknown",
            user_name=refusal.user_name,
            token_id=refusal.token_id,
            repository=refusal.repository,
            permission=refusal.operation,
            request_id=refusal.request_id if is_acceptable(refusal.request_id) else "",
        )
        for refusal in request.refusals
    ]


def limit_fields(limits: SetLimitsResponse.Limits) -> dict[str, Any]:
    """Return the fields of the limits of a repository; a limit that is the default of the storage service is absent."""
    return {name.name: value for name, value in limits.ListFields()}
