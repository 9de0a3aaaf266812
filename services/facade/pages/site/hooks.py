"""The webhooks of the site, and the deliveries of one, which can be made anew."""

from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import NotFound, Reason, ServiceError
from services.facade.pages.forms import read_session_form
from services.facade.pages.refusals import status_of_refusal
from services.facade.pages.routing import form, page
from services.facade.pages.site.lists import number_key, page_links, part_of
from services.facade.pages.visit import Visit

PATH = "/-/site/hooks"
_PAGE = 50
_MAX_DIGITS = 18
_FORMATS = {pb.HOOK_FORMAT_JSON: "JSON", pb.HOOK_FORMAT_SLACK: "Slack", pb.HOOK_FORMAT_DISCORD: "Discord"}


async def show(visit: Visit) -> Response:
    """Show a page of the hooks by their numbers."""
    reply = await visit.administer(visit.context.clients.admin_stub.ListHooks, pb.ListHooksRequest())
    part = part_of(reply.hooks, lambda hook: number_key(hook.id), visit.query.get("cursor", ""))
    return visit.page("site/hooks.html", part=part, formats=_FORMATS, links=page_links(visit, PATH, part.next_cursor))


async def show_hook(visit: Visit) -> Response:
    """Show a hook, and a page of its deliveries, the latest first: all, or those that have failed."""
    return await _hook(visit)


async def redeliver(visit: Visit) -> Response:
    """Make one delivery of a hook anew, or all that have ended without success."""
    sent, hook_id = await read_session_form(visit), _number(visit.params["name"])
    request = pb.RedeliverHookRequest(hook_id=hook_id)
    if "delivery" in sent:
        request.delivery_id = _number(sent["delivery"])
    else:
        request.failed = True
    try:
        reply = await visit.administer(visit.context.clients.admin_stub.RedeliverHook, request)
    except ServiceError as error:
        return await _hook(visit, problem=error.message, status=status_of_refusal(error))
    return visit.redirect(f"{PATH}/{hook_id}", queued=str(reply.count))


async def _hook(visit: Visit, *, problem: str = "", status: int = 200) -> Response:
    hook_id, failed = _number(visit.params["name"]), visit.query.get("failed", "")
    admin = visit.context.clients.admin_stub
    hooks = (await visit.administer(admin.ListHooks, pb.ListHooksRequest())).hooks
    hook = next((hook for hook in hooks if hook.id == hook_id), None)
    if hook is None:
        raise _not_found(visit.params["name"])
    request = pb.ListHookDeliveriesRequest(
        hook_id=hook_id, cursor=visit.query.get("cursor", ""), limit=_PAGE, failed=bool(failed)
    )
    reply = await visit.administer(admin.ListHookDeliveries, request)
    queued = visit.query.get("queued", "")
    return visit.page(
        "site/hook.html",
        status=status,
        problem=problem,
        hook=hook,
        format=_FORMATS.get(hook.format, ""),
        deliveries=reply.deliveries,
        failed=failed,
        queued=queued if queued.isdecimal() else "",
        links=page_links(visit, f"{PATH}/{hook_id}", reply.next_cursor, failed=failed),
    )


def _number(text: str) -> int:
    """Return the number of a hook or a delivery. Raises `NotFound` for any other text."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise _not_found(text)
    return int(text)


def _not_found(text: str) -> NotFound:
    return NotFound(Reason.HOOK_NOT_FOUND, f"there is no {text[:_MAX_DIGITS]} among the hooks and their deliveries")


ROUTES = (
    page("page_site_hooks", PATH, show),
    page("page_site_hook", f"{PATH}/{{name}}", show_hook),
    form("page_site_hook_redelivered", f"{PATH}/{{name}}", redeliver),
)
