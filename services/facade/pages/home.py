"""The first page: what this is, and the repositories that the caller may read."""

from typing import NamedTuple

from starlette.responses import Response
from towpath.access.v1 import access_service_pb2 as pb

from services.facade.pages.rights import PERMISSION_WORDS
from services.facade.pages.routing import page
from services.facade.pages.visit import Visit

_PAGE = 100


class _Row(NamedTuple):
    name: str
    may: str
    state: str


async def show(visit: Visit) -> Response:
    """Show a page of the repositories, by name."""
    clients, caller = visit.context.clients, visit.caller
    request = pb.ListUserRepositoriesRequest(
        user_id=caller.user_id,
        token_id=caller.deciding_token_id,
        cursor=visit.query.get("cursor", ""),
        limit=_PAGE,
    )
    reply = await clients.locks.call(clients.access_stub.ListUserRepositories, request)
    rows = [
        _Row(found.name, PERMISSION_WORDS.get(found.permission, "read"), _state(found)) for found in reply.repositories
    ]
    return visit.page(
        "home.html",
        repositories=rows,
        first=visit.link("/") if "cursor" in visit.query else "",
        next=visit.link("/", cursor=reply.next_cursor) if reply.next_cursor else "",
    )


def _state(found: pb.ListUserRepositoriesResponse.UserRepository) -> str:
    states = {"public": found.public, "archived": found.HasField("archived_at")}
    return ", ".join(name for name, holds in states.items() if holds)


ROUTES = (page("page_home", "/", show),)
