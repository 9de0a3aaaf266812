"""The forges and the issuers of the site, whose tokens are credentials here."""

from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as pb

from services.facade.pages.routing import page
from services.facade.pages.site.lists import page_links, part_of
from services.facade.pages.site.repositories import ROLES
from services.facade.pages.visit import Visit

FORGES_PATH = "/-/site/forges"
ISSUERS_PATH = "/-/site/issuers"
_KINDS = {
    pb.FORGE_KIND_GITHUB: "GitHub",
    pb.FORGE_KIND_GITLAB: "GitLab",
    pb.FORGE_KIND_GITEA: "Gitea",
    pb.FORGE_KIND_FORGEJO: "Forgejo",
}


async def show_forges(visit: Visit) -> Response:
    """Show a page of the forges by name."""
    reply = await visit.administer(visit.context.clients.admin_stub.ListForges, pb.ListForgesRequest())
    part = part_of(reply.forges, lambda forge: forge.name, visit.query.get("cursor", ""))
    return visit.page(
        "site/forges.html", part=part, kinds=_KINDS, links=page_links(visit, FORGES_PATH, part.next_cursor)
    )


async def show_issuers(visit: Visit) -> Response:
    """Show a page of the issuers of JSON Web Tokens by name."""
    reply = await visit.administer(visit.context.clients.admin_stub.ListIssuers, pb.ListIssuersRequest())
    part = part_of(reply.issuers, lambda issuer: issuer.name, visit.query.get("cursor", ""))
    return visit.page(
        "site/issuers.html", part=part, roles=ROLES, links=page_links(visit, ISSUERS_PATH, part.next_cursor)
    )


ROUTES = (
    page("page_site_forges", FORGES_PATH, show_forges),
    page("page_site_issuers", ISSUERS_PATH, show_issuers),
)
