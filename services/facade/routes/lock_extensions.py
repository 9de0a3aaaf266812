"""The lock endpoints that are our own: history, events, many paths, and the theft of a lock (docs/protocol.md)."""

from contextlib import nullcontext

from fastapi import APIRouter, Request, Response

from services.facade import lock_events, lock_history, locks
from services.facade.auth.authorizer import Permission
from services.facade.errors import Area
from services.facade.middleware.concurrency_limit import held_slot, move_to_watches
from services.facade.routes.openapi import answers, event_answers, json_request
from services.facade.routes.openapi_parameters import EVENT_PARAMETERS, HISTORY_QUERY
from services.facade.routes.request import (
    idempotency_key,
    open_call,
    open_call_with_body,
    open_stream_call,
    query_values,
)
from services.facade.routes.route import endpoints_in
from services.facade.web.body_bounds import LOCK_BYTES, LOCK_PATHS_BYTES
from services.facade.web.forwarded_headers import client_of
from services.facade.web.responses import json_response
from services.facade.web.schemas import (
    LockHistoryPage,
    LockPathsAnswer,
    LockPathsRequest,
    StealLockRequest,
    StolenLockAnswer,
)

router = APIRouter(default_response_class=Response, route_class=endpoints_in(Area.LOCKS), tags=["locks"])


@router.get(
    "/{repository:base}/locks/history",
    operation_id="list_released_locks",
    summary="List the released locks",
    responses=answers(LockHistoryPage, 401, 403, 406, 422, 429),
    openapi_extra=HISTORY_QUERY,
)
async def list_released_locks(request: Request) -> Response:
    """Return a page of the locks that the repository has had, the latest released first."""
    call = await open_call(request)
    query = query_values(request)
    limit = locks.parse_limit(query["limit"]) if "limit" in query else None
    since, until = (lock_history.parse_moment(field, query.get(field, "")) for field in ("since", "until"))
    repository_id = await call.authorize(Permission.READ, "")
    async with held_slot(call.context.history_pages, network=call.context.network_of(request), user=call.caller.name):
        page = await lock_history.list_history(
            call.context.clients,
            repository_id,
            path=query.get("path", ""),
            owner=query.get("owner", ""),
            since=since,
            until=until,
            cursor=query.get("cursor", ""),
            limit=limit,
        )
    return json_response(page, call.dialect)


@router.get(
    "/{repository:base}/locks/events",
    operation_id="watch_lock_events",
    summary="Watch the changes of locks",
    responses=event_answers(401, 403, 406, 429),
    openapi_extra=EVENT_PARAMETERS,
)
async def watch_lock_events(request: Request) -> Response:
    """Send the changes of the repository's locks as server-sent events, after the event that `Last-Event-ID` names."""
    call = await open_stream_call(request, lock_events.EventStream.media_type)
    context, headers, client = call.context, request.headers, client_of(request.scope)
    ref = query_values(request).get("refspec", "")
    repository_id = await call.authorize(Permission.READ, ref)
    network = context.network_of(request)
    slot = move_to_watches(request.scope, context.watches, network=network, user=call.caller.name)

    async def check_access() -> None:
        shown = headers.getlist("authorization")
        caller = await context.authorizer.authenticate(shown, client.address, call.repository, nullcontext)
        await context.authorizer.check(caller, call.repository, Permission.READ, ref)

    events = lock_events.watch(
        context.clients,
        repository_id,
        headers.get("last-event-id") or None,
        check_access=check_access,
        stop=context.stop,
    )
    return lock_events.EventStream(events, idle_seconds=context.settings.body_idle_seconds, ended=slot.end)


@router.post(
    "/{repository:base}/locks/batch/lock",
    operation_id="create_locks",
    summary="Lock many paths",
    responses=answers(LockPathsAnswer, 400, 401, 403, 406, 408, 409, 413, 415, 422, 429)
    | answers(LockPathsAnswer, status=201),
    openapi_extra=json_request(LockPathsRequest, plain_json=True),
)
async def create_locks(request: Request) -> Response:
    """Lock paths for the caller: each that can be locked, or with `atomic` all of them or none."""
    call, asked = await open_call_with_body(
        request, LockPathsRequest, Permission.WRITE, max_bytes=LOCK_PATHS_BYTES, plain_json=True, is_counted=False
    )
    repository_id = await call.authorize(Permission.WRITE, asked.ref_name)
    created = await locks.create_many(
        call.context.clients,
        repository_id,
        call.caller.user_id,
        asked.paths,
        note=asked.note or "",
        ref=asked.ref_name,
        atomic=bool(asked.atomic),
    )
    return json_response(created, call.dialect, status=201 if asked.atomic else 200)


@router.post(
    "/{repository:base}/locks/batch/unlock",
    operation_id="delete_locks",
    summary="Remove the locks of many paths",
    responses=answers(LockPathsAnswer, 400, 401, 403, 406, 408, 409, 413, 415, 422, 429),
    openapi_extra=json_request(LockPathsRequest, plain_json=True),
)
async def delete_locks(request: Request) -> Response:
    """Remove the caller's locks of paths, or with `force` anybody's: each that can be, or with `atomic` all or none."""
    call, asked = await open_call_with_body(
        request, LockPathsRequest, Permission.WRITE, max_bytes=LOCK_PATHS_BYTES, plain_json=True, is_counted=False
    )
    repository_id = await call.authorize(Permission.WRITE, asked.ref_name)
    removed = await locks.delete_many(
        call.context.clients,
        repository_id,
        call.caller,
        asked.paths,
        force=bool(asked.force),
        reason=asked.reason or "",
        ref=asked.ref_name,
        atomic=bool(asked.atomic),
        key=idempotency_key(request),
    )
    return json_response(removed, call.dialect)


@router.post(
    "/{repository:base}/locks/{lock_id:lock_id}/steal",
    operation_id="steal_lock",
    summary="Steal the lock of another user",
    status_code=201,
    responses=answers(StolenLockAnswer, 400, 401, 403, 404, 406, 408, 409, 413, 415, 422, 429, status=201),
    openapi_extra=json_request(StealLockRequest),
)
async def steal_lock(request: Request) -> Response:
    """Replace another user's lock by a lock of the caller's: a stale lock, or with the rights of `force` any."""
    call, asked = await open_call_with_body(
        request, StealLockRequest, Permission.WRITE, max_bytes=LOCK_BYTES, is_counted=False
    )
    repository_id = await call.authorize(Permission.WRITE, asked.ref_name)
    taken = await locks.steal(
        call.context.clients,
        repository_id,
        call.caller,
        request.path_params["lock_id"],
        reason=asked.reason,
        note=asked.note or "",
        ref=asked.ref_name,
        key=idempotency_key(request),
    )
    return json_response(taken, call.dialect, status=201)
