"""AdminService: the audit log, and explanations of refusals."""

from functools import partial

from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.common.observability.request_id import is_acceptable
from services.locks.access.refusals import find_refusals
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.audit_messages import event_message, refusal_message
from services.locks.api.messages import moment_of
from services.locks.audit.reader import AuditFilter, cursor_of, list_events
from services.locks.models import User

_PAGE_DEFAULT = 100
_PAGE_MAX = 500
# An event of wide rules has 100 KiB and more, and a page is one message of gRPC. The first event is there in any case.
_PAGE_BYTES = 4 * 1024 * 1024


class RecordHandlers(Handlers):
    """Lists the audit log, and explains refusals."""

    @administrator_only
    async def ListAuditEvents(
        self, request: pb.ListAuditEventsRequest, _administrator: User
    ) -> pb.ListAuditEventsResponse:
        """Return a page of the audit log."""
        which = AuditFilter(
            since=moment_of("since", request.since) if request.HasField("since") else None,
            until=moment_of("until", request.until) if request.HasField("until") else None,
            actor=request.actor,
            type_prefix=request.type_prefix,
            repository=request.repository,
        )
        limit = min(request.limit, _PAGE_MAX) if request.limit > 0 else _PAGE_DEFAULT
        events, more = await self.database.run(partial(list_events, which=which, cursor=request.cursor, limit=limit))
        response = pb.ListAuditEventsResponse()
        size = 0
        for event in events:
            message = event_message(event)
            size += message.ByteSize()
            if response.events and size > _PAGE_BYTES:
                more = True
                break
            response.events.append(message)
            last = event
        if more:
            response.next_cursor = cursor_of(last)
        return response

    @administrator_only
    async def ExplainRequest(
        self, request: pb.ExplainRequestRequest, _administrator: User
    ) -> pb.ExplainRequestResponse:
        """Return why a request was refused."""
        if not is_acceptable(request.request_id):
            raise InvalidArgument(Reason.INVALID_FIELD, "request_id: expected 1 to 64 of A-Z a-z 0-9 . _ -")
        refusals = await self.database.run(partial(find_refusals, request=request.request_id))
        return pb.ExplainRequestResponse(refusals=map(refusal_message, refusals))
