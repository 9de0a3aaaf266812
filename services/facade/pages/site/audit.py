"""The audit log of the site."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.facade.pages.refusals import status_of_refusal
from services.facade.pages.routing import page
from services.facade.pages.site.changes import changes_of
from services.facade.pages.site.lists import page_links
from services.facade.pages.visit import Visit

PATH = "/-/site/audit"
_FILTERS = ("actor", "type", "repository", "since", "until")
_PAGE = 50
_MAX_CHARACTERS = 255


async def show(visit: Visit) -> Response:
    """Show a page of the audit log, the latest event first, filtered by actor, type, repository and time."""
    filters = {name: visit.query.get(name, "") for name in _FILTERS}
    admin = visit.context.clients.admin_stub
    status, problem, reply = 200, "", pb.ListAuditEventsResponse()
    try:
        request = pb.ListAuditEventsRequest(
            cursor=visit.query.get("cursor", ""),
            limit=_PAGE,
            actor=_text("actor", filters["actor"]),
            type_prefix=_text("type", filters["type"]),
            repository=_text("repository", filters["repository"]),
            since=_stamp("since", filters["since"]),
            until=_stamp("until", filters["until"]),
        )
        reply = await visit.administer(admin.ListAuditEvents, request)
    except InvalidArgument as error:
        status, problem = status_of_refusal(error), error.message
    return visit.page(
        "site/audit.html",
        status=status,
        problem=problem,
        filters=filters,
        events=[(event, changes_of(event)) for event in reply.events],
        links=page_links(visit, PATH, reply.next_cursor, **filters),
    )


def _text(field: str, text: str) -> str:
    """Return a text that can be looked for. Raises `InvalidArgument`."""
    if len(text) > _MAX_CHARACTERS or "\0" in text:
        raise InvalidArgument(
            Reason.INVALID_FIELD, f"{field}: expected at most {_MAX_CHARACTERS} characters without NUL"
        )
    return text


def _stamp(field: str, text: str) -> Timestamp | None:
    """Return a day, or a minute of it, in UTC; None for an empty text. Raises `InvalidArgument`."""
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is not None:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected such as 2026-01-31 or 2026-01-31T12:00, in UTC")
    return Timestamp(seconds=int(when.replace(tzinfo=UTC).timestamp()))


ROUTES = (page("page_site_audit", PATH, show),)
