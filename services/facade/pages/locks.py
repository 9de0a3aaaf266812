"""The locks of a repository, live, with their release and their theft; and the locks that it has had."""

import time
from contextlib import nullcontext

from starlette.responses import Response
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import Reason, Unauthenticated
from services.facade import lock_events, locks
from services.facade.auth.authorizer import Permission
from services.facade.middleware.concurrency_limit import held_slot, move_to_watches
from services.facade.pages.forms import read_session_form, required
from services.facade.pages.rights import is_writer
from services.facade.pages.routing import PageRoute, form, page
from services.facade.pages.visit import Visit, session_caller
from services.facade.routes.request import idempotency_key
from services.facade.web.forwarded_headers import client_of

_PAGE = 50
_MAX_REASON = 500


async def show(visit: Visit) -> Response:
    """Show a page of the standing locks, filtered by folder and owner."""
    repository, query = visit.params["repository"], visit.query
    repository_id = await visit.authorize(repository)
    folder, owner = query.get("folder", ""), query.get("owner", "")
    request = pb.ListLocksRequest(
        repository_id=repository_id,
        path_prefix=folder or None,
        owner_name=owner or None,
        cursor=query.get("cursor", ""),
        limit=_PAGE,
    )
    clients, here = visit.context.clients, f"/{repository}/locks"
    reply = await clients.locks.call(clients.lock_stub.ListLocks, request)
    return visit.page(
        "locks.html",
        repository=repository,
        is_writer=await is_writer(visit, repository),
        locks=reply.locks,
        folder=folder,
        owner=owner,
        query=visit.request.scope["query_string"].decode("ascii", errors="replace"),
        back=visit.here,
        first=visit.link(here, folder=folder, owner=owner) if "cursor" in query else "",
        next=visit.link(here, folder=folder, owner=owner, cursor=reply.next_cursor) if reply.next_cursor else "",
    )


async def history(visit: Visit) -> Response:
    """Show a page of the released locks, the latest first."""
    repository, query = visit.params["repository"], visit.query
    repository_id = await visit.authorize(repository)
    path, owner = query.get("path", ""), query.get("owner", "")
    request = pb.ListReleasedLocksRequest(
        repository_id=repository_id,
        path=path or None,
        owner_name=owner or None,
        cursor=query.get("cursor", ""),
        limit=_PAGE,
    )
    context, here = visit.context, f"/-/history/{repository}"
    network = context.network_of(visit.request)
    async with held_slot(context.history_pages, network=network, user=visit.caller.name):
        reply = await context.clients.locks.call(context.clients.lock_stub.ListReleasedLocks, request)
    return visit.page(
        "history.html",
        repository=repository,
        is_writer=await is_writer(visit, repository),
        locks=reply.locks,
        path=path,
        owner=owner,
        first=visit.link(here, path=path, owner=owner) if "cursor" in query else "",
        next=visit.link(here, path=path, owner=owner, cursor=reply.next_cursor) if reply.next_cursor else "",
    )


async def release(visit: Visit) -> Response:
    """Remove the caller's lock; or with `force`, and a reason, anybody's."""
    repository, sent = visit.params["repository"], await read_session_form(visit)
    repository_id = await visit.authorize(repository, Permission.WRITE_ANY_REF)
    is_forced = "force" in sent
    await locks.delete(
        visit.context.clients,
        repository_id,
        visit.user,
        required(sent, "id"),
        force=is_forced,
        reason=required(sent, "reason", most=_MAX_REASON) if is_forced else "",
        key=idempotency_key(visit.request),
    )
    return visit.redirect_back(sent.get("back", "/"))


async def steal(visit: Visit) -> Response:
    """Replace another user's lock by one of the caller's, with a reason."""
    repository, sent = visit.params["repository"], await read_session_form(visit)
    repository_id = await visit.authorize(repository, Permission.WRITE_ANY_REF)
    await locks.steal(
        visit.context.clients,
        repository_id,
        visit.user,
        required(sent, "id"),
        reason=required(sent, "reason", most=_MAX_REASON),
        note="",
        ref="",
        key=idempotency_key(visit.request),
    )
    return visit.redirect_back(sent.get("back", "/"))


async def watch(visit: Visit) -> Response:
    """Send the changes of the locks as server-sent events, until the access or the session ends."""
    repository, context, request = visit.params["repository"], visit.context, visit.request
    repository_id = await visit.authorize(repository)
    address = client_of(request.scope).address
    network = context.network_of(request)
    slot = move_to_watches(request.scope, context.watches, network=network, user=visit.caller.name)
    events = lock_events.watch(
        context.clients,
        repository_id,
        request.headers.get("last-event-id") or None,
        check_access=lambda: _check_access(visit, repository, address),
        stop=context.stop,
    )
    return lock_events.EventStream(events, idle_seconds=context.settings.body_idle_seconds, ended=slot.end)


async def _check_access(visit: Visit, repository: str, address: str) -> None:
    """Check that the session and the access go on. Raises the errors of `authenticate` and `check`."""
    session, authorizer = visit.session, visit.context.authorizer
    caller = visit.caller
    if session is not None:
        if session.expires_at <= time.time():
            raise Unauthenticated(Reason.BAD_CREDENTIALS, "the session is over")
        user = await session_caller(authorizer, session, address, nullcontext)
        # A stranger at this forge stays one.
        caller = user if visit.caller.user_id else visit.caller
    await authorizer.check(caller, repository, Permission.READ, "")


ROUTES = (
    page("page_locks", "/{repository}/locks", show, by_accept=True),
    page("page_history", "/-/history/{repository}", history),
    # No HEAD: a stream has no end.
    PageRoute("page_watch", "/-/watch/{repository}", watch, methods=frozenset({"GET"})),
    form("page_release", "/-/release/{repository}", release, is_counted=False),
    form("page_steal", "/-/steal/{repository}", steal, is_counted=False),
)
