"""The groups of the site, and the members of one."""

from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.request_rate import format_request_rate
from services.facade.pages.routing import page
from services.facade.pages.site.lists import PAGE, page_links
from services.facade.pages.visit import Visit

PATH = "/-/site/groups"


async def show(visit: Visit) -> Response:
    """Show a page of the groups by name."""
    request = pb.ListGroupsRequest(cursor=visit.query.get("cursor", ""), limit=PAGE)
    reply = await visit.administer(visit.context.clients.admin_stub.ListGroups, request)
    return visit.page(
        "site/groups.html",
        groups=reply.groups,
        rate=format_request_rate,
        links=page_links(visit, PATH, reply.next_cursor),
    )


async def show_members(visit: Visit) -> Response:
    """Show a page of a group's members by name."""
    name = visit.params["name"]
    request = pb.ListGroupMembersRequest(group_name=name, cursor=visit.query.get("cursor", ""), limit=PAGE)
    reply = await visit.administer(visit.context.clients.admin_stub.ListGroupMembers, request)
    links = page_links(visit, f"{PATH}/{name}", reply.next_cursor)
    return visit.page("site/group.html", name=name, users=reply.users, links=links)


ROUTES = (
    page("page_site_groups", PATH, show),
    page("page_site_group", f"{PATH}/{{name}}", show_members),
)
