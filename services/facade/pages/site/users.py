"""The users of the site, and what one of them has: tokens, keys, and objects that it has brought."""

from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.request_rate import format_request_rate
from services.facade.pages.routing import page
from services.facade.pages.site.lists import PAGE, page_links, part_of
from services.facade.pages.visit import Visit

PATH = "/-/site/users"


async def show(visit: Visit) -> Response:
    """Show a page of the users by name; with a name, lead to the page of that user."""
    if name := visit.query.get("name", "").strip():
        return visit.redirect(f"{PATH}/{name}")
    request = pb.ListUsersRequest(cursor=visit.query.get("cursor", ""), limit=PAGE)
    reply = await visit.administer(visit.context.clients.admin_stub.ListUsers, request)
    return visit.page(
        "site/users.html", users=reply.users, rate=format_request_rate, links=page_links(visit, PATH, reply.next_cursor)
    )


async def show_user(visit: Visit) -> Response:
    """Show a user's rights and usage, and the first of its tokens and of its keys by name."""
    name, admin = visit.params["name"], visit.context.clients.admin_stub
    users = (await visit.administer(admin.ListUsers, pb.ListUsersRequest(name=name))).users
    tokens = (await visit.administer(admin.ListTokens, pb.ListTokensRequest(user_name=name))).tokens
    keys = (await visit.administer(admin.ListSshKeys, pb.ListSshKeysRequest(user_name=name))).keys
    usage = (await visit.administer(admin.GetUserUsage, pb.GetUserUsageRequest(user_name=name))).usage
    return visit.page(
        "site/user.html",
        name=name,
        user=next((user for user in users if user.name == name), None),
        tokens=part_of(tokens, lambda token: token.name),
        keys=part_of(keys, lambda key: key.name),
        usage=usage,
        rate=format_request_rate,
    )


ROUTES = (
    page("page_site_users", PATH, show),
    page("page_site_user", f"{PATH}/{{name}}", show_user),
)
