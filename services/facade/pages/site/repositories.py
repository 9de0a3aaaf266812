"""The repositories of the site, those in the bin with their way out of it, and the grants of one."""

from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason, ServiceError
from services.facade.pages.forms import read_session_form, required
from services.facade.pages.refusals import status_of_refusal
from services.facade.pages.routing import form, page
from services.facade.pages.site.lists import latest_first, page_links, part_of
from services.facade.pages.visit import Visit

PATH = "/-/site/repositories"
BIN_PATH = "/-/site/bin"
_GRANTS_PAGE = 200
ROLES = {pb.ROLE_READ: "read", pb.ROLE_WRITE: "write", pb.ROLE_ADMIN: "admin"}
_FORCED_UNLOCK = {pb.FORCED_UNLOCK_WRITERS: "whoever may write all refs", pb.FORCED_UNLOCK_ADMINS: "its admins"}


async def show(visit: Visit) -> Response:
    """Show a page of the repositories by name, of those alone whose names have a text."""
    name = visit.query.get("name", "")
    found = await _repositories(visit, name, removed=False)
    part = part_of(found, lambda repository: repository.name.casefold(), visit.query.get("cursor", ""))
    return visit.page(
        "site/repositories.html", part=part, name=name, links=page_links(visit, PATH, part.next_cursor, name=name)
    )


async def show_bin(visit: Visit) -> Response:
    """Show a page of the repositories in the bin, the latest removed first."""
    return await _bin(visit)


async def restore(visit: Visit) -> Response:
    """Take a repository out of the bin, under its name or another one, and show its grants."""
    sent = await read_session_form(visit)
    try:
        request = pb.RestoreRepositoryRequest(
            id=_number(sent, "id"), name=required(sent, "name"), new_name=sent.get("new_name", "").strip()
        )
        reply = await visit.administer(visit.context.clients.admin_stub.RestoreRepository, request)
    except ServiceError as error:
        return await _bin(visit, problem=error.message, status=status_of_refusal(error))
    return visit.redirect(f"/-/site/grants/{reply.repository.name}")


async def show_grants(visit: Visit) -> Response:
    """Show a repository's rules, and a page of its grants: those of users by name, then those of groups."""
    path = f"/-/site/grants/{visit.params['repository']}"
    request = pb.ListGrantsRequest(repository=visit.params["repository"])
    reply = await visit.administer(visit.context.clients.admin_stub.ListGrants, request)
    part = part_of(reply.grants, _grant_key, visit.query.get("cursor", ""), most=_GRANTS_PAGE)
    return visit.page(
        "site/grants.html",
        repository=reply.repository,
        part=part,
        roles=ROLES,
        forced_unlock=_FORCED_UNLOCK.get(reply.repository.forced_unlock, ""),
        links=page_links(visit, path, part.next_cursor),
    )


async def _bin(visit: Visit, *, problem: str = "", status: int = 200) -> Response:
    found = await _repositories(visit, "", removed=True)
    part = part_of(
        found,
        lambda repository: latest_first(repository.removed_at, repository.id),
        visit.query.get("cursor", ""),
    )
    links = page_links(visit, BIN_PATH, part.next_cursor)
    return visit.page("site/bin.html", status=status, problem=problem, part=part, links=links)


async def _repositories(visit: Visit, name: str, *, removed: bool) -> list[pb.Repository]:
    """Return the repositories whose names have a text; the call returns all."""
    request = pb.ListRepositoriesRequest(removed=removed)
    reply = await visit.administer(visit.context.clients.admin_stub.ListRepositories, request)
    wanted = name.casefold()
    return [repository for repository in reply.repositories if wanted in repository.name.casefold()]


def _number(sent: dict[str, str], field: str) -> int:
    text = required(sent, field, most=18)
    if not (text.isascii() and text.isdecimal()):
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected a number")
    return int(text)


def _grant_key(grant: pb.Grant) -> str:
    return f"{bool(grant.group_name):d} {grant.group_name or grant.user_name} {grant.role}"


ROUTES = (
    page("page_site_repositories", PATH, show),
    page("page_site_bin", BIN_PATH, show_bin),
    form("page_site_restored", BIN_PATH, restore),
    page("page_site_grants", "/-/site/grants/{repository}", show_grants),
)
