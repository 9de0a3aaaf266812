"""The first page of the site's administration."""

from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as pb

from services.facade.pages.routing import page
from services.facade.pages.site.changes import changes_of
from services.facade.pages.visit import Visit

PATH = "/-/site"
_LATEST = 10


async def show(visit: Visit) -> Response:
    """Show what there is to administer, with the counts that cost little, and the latest changes."""
    admin = visit.context.clients.admin_stub
    hooks = (await visit.administer(admin.ListHooks, pb.ListHooksRequest())).hooks
    forges = (await visit.administer(admin.ListForges, pb.ListForgesRequest())).forges
    issuers = (await visit.administer(admin.ListIssuers, pb.ListIssuersRequest())).issuers
    events = (await visit.administer(admin.ListAuditEvents, pb.ListAuditEventsRequest(limit=_LATEST))).events
    return visit.page(
        "site/overview.html",
        hook_count=len(hooks),
        disabled_count=sum(hook.HasField("disabled_at") for hook in hooks),
        forge_count=len(forges),
        issuer_count=len(issuers),
        events=[(event, changes_of(event)) for event in events],
    )


ROUTES = (page("page_site", PATH, show),)
