"""The objects of a repository: the largest, newest and damaged ones, those in the bin, and the way back from there."""

from typing import NamedTuple

from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import FailedPrecondition, InvalidArgument, NotFound, Reason
from services.common.oid import is_oid
from services.facade.pages.forms import read_session_form, required
from services.facade.pages.rights import authorize_writer, may_write
from services.facade.pages.routing import form, page
from services.facade.pages.visit import Visit
from services.facade.web.request_log import add_log_fields

_PAGE = 50
_PATH = "/-/objects/"


class _View(NamedTuple):
    """One of the lists: its name in words, the sentence where it is empty, and what storage is asked for."""

    label: str
    empty: str
    order: "pb.ObjectOrder.ValueType"
    state: "pb.ObjectState.ValueType"


_HELD, _LARGEST, _NEWEST = pb.OBJECT_STATE_HELD, pb.OBJECT_ORDER_LARGEST, pb.OBJECT_ORDER_NEWEST
_VIEWS = {
    "largest": _View("Largest", "No object is stored here.", _LARGEST, _HELD),
    "newest": _View("Newest", "No object is stored here.", _NEWEST, _HELD),
    "damaged": _View("Damaged", "No object is damaged.", _LARGEST, pb.OBJECT_STATE_DAMAGED),
    "bin": _View("In the bin", "The bin is empty.", _NEWEST, pb.OBJECT_STATE_BIN),
}


async def show(visit: Visit) -> Response:
    """Show a page of one of the lists of objects."""
    chosen, restored = visit.query.get("list", "largest"), visit.query.get("restored", "")
    if chosen not in _VIEWS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"list: expected one of {', '.join(_VIEWS)}")
    return await _page(visit, chosen, restored=restored if is_oid(restored) else "")


async def _page(visit: Visit, chosen: str, *, restored: str = "", problem: str = "") -> Response:
    repository, query, view = visit.params["repository"], visit.query, _VIEWS[chosen]
    reply = await _objects(visit, repository, view, query.get("cursor", ""))
    here = _PATH + repository
    return visit.page(
        "objects.html",
        status=409 if problem else 200,
        repository=repository,
        views=[(name, each.label, visit.link(here, list=name)) for name, each in _VIEWS.items()],
        chosen=chosen,
        view=view,
        objects=reply.objects,
        restored=restored,
        problem=problem,
        names_are_shown=visit.caller.administrator or (chosen == "bin" and await may_write(visit, repository)),
        first=visit.link(here, list=chosen) if "cursor" in query else "",
        next=visit.link(here, list=chosen, cursor=reply.next_cursor) if reply.next_cursor else "",
    )


async def _objects(
    visit: Visit, repository: str, view: _View, cursor: str
) -> pb.ListObjectsResponse | admin.ListRepositoryObjectsResponse:
    """Return a page of objects; an administrator sees those of every repository, as from the command line."""
    clients = visit.context.clients
    if visit.caller.administrator:
        add_log_fields(visit.request.scope, repository=repository)
        return await visit.administer(
            clients.admin_stub.ListRepositoryObjects,
            admin.ListRepositoryObjectsRequest(
                repository=repository, order=view.order, state=view.state, cursor=cursor, limit=_PAGE
            ),
        )
    request = pb.ListObjectsRequest(
        repository_id=await authorize_writer(visit, repository),
        order=view.order,
        state=view.state,
        cursor=cursor,
        limit=_PAGE,
    )
    return await clients.storage.call(clients.storage_stub.ListObjects, request)


async def restore(visit: Visit) -> Response:
    """Take an object out of the bin, as an administrator; the list tells why if it is not there any more."""
    repository, sent = visit.params["repository"], await read_session_form(visit)
    oid = required(sent, "oid")
    add_log_fields(visit.request.scope, repository=repository)
    request = admin.RestoreObjectRequest(repository=repository, oid=oid, bytes_required=True)
    try:
        await visit.administer(visit.context.clients.admin_stub.RestoreObject, request)
    except (FailedPrecondition, NotFound) as error:
        if error.reason not in (Reason.OBJECT_PURGED, Reason.OBJECT_NOT_FOUND):
            raise
        # Somebody else was quicker, or its time in the bin has ended since the page was shown.
        return await _page(visit, "bin", problem=error.message)
    return visit.redirect(_PATH + repository, list="bin", restored=oid)


ROUTES = (
    page("page_objects", _PATH + "{repository}", show),
    form("page_object_restored", "/-/restore-object/{repository}", restore),
)
