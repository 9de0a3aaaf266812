"""The lock endpoints (docs/protocol.md, "Create lock", "List locks", "List locks for verification", "Delete lock")."""

from fastapi import APIRouter, Request, Response

from services.common.errors import PermissionDenied, ResourceExhausted
from services.facade import locks
from services.facade.auth.authorizer import Permission
from services.facade.errors import Area
from services.facade.routes.openapi import answers, empty_answers, json_request
from services.facade.routes.openapi_parameters import LOCK_QUERY
from services.facade.routes.request import idempotency_key, open_call, open_call_with_body, query_values
from services.facade.routes.route import endpoints_in
from services.facade.web.body_bounds import LOCK_BYTES
from services.facade.web.error_reasons import HttpReason
from services.facade.web.ranges import entity_tags
from services.facade.web.responses import json_response
from services.facade.web.schemas import (
    CreateLockRequest,
    DeleteLockRequest,
    LockAnswer,
    LockPage,
    LockVerification,
    VerifyLocksRequest,
)

router = APIRouter(default_response_class=Response, route_class=endpoints_in(Area.LOCKS), tags=["locks"])


@router.post(
    "/{repository:base}/locks",
    operation_id="create_lock",
    summary="Lock a path",
    status_code=201,
    responses=answers(LockAnswer, 400, 401, 403, 406, 408, 409, 413, 415, 422, 429, status=201),
    openapi_extra=json_request(CreateLockRequest),
)
async def create_lock(request: Request) -> Response:
    """Lock a path for the caller."""
    call, asked = await open_call_with_body(
        request, CreateLockRequest, Permission.WRITE, max_bytes=LOCK_BYTES, is_counted=False
    )
    repository_id = await call.authorize(Permission.WRITE, asked.ref_name)
    key = idempotency_key(request)
    created = await locks.create(
        call.context.clients,
        repository_id,
        call.caller.user_id,
        asked.path,
        note=asked.note or "",
        ref=asked.ref_name,
        key=key,
    )
    return json_response(created, call.dialect, status=201)


@router.get(
    "/{repository:base}/locks",
    operation_id="list_locks",
    summary="List the locks",
    responses=answers(LockPage, 401, 403, 406, 422, 429) | empty_answers(status=304),
    openapi_extra=LOCK_QUERY,
)
async def list_locks(request: Request) -> Response:
    """Return a page of the locks that match the query."""
    call = await open_call(request)
    query = query_values(request)
    limit = locks.parse_limit(query["limit"]) if "limit" in query else None
    ref = query.get("refspec", "")
    repository_id = await call.authorize(Permission.READ, ref)
    page, tag = await locks.list_page(
        call.context.clients,
        repository_id,
        path=query.get("path", ""),
        path_prefix=query.get("path_prefix", ""),
        lock_id=query.get("id", ""),
        owner=query.get("owner", ""),
        ref=ref,
        cursor=query.get("cursor", ""),
        limit=limit,
        known=entity_tags(request.headers.getlist("if-none-match")),
    )
    response = Response(status_code=304) if page is None else json_response(page, call.dialect)
    if tag:
        response.headers["ETag"] = tag
    return response


@router.post(
    "/{repository:base}/locks/verify",
    operation_id="verify_locks",
    summary="List the locks, split by owner",
    responses=answers(LockVerification, 400, 401, 403, 406, 408, 413, 415, 422, 429),
    openapi_extra=json_request(VerifyLocksRequest, required=False),
)
async def verify_locks(request: Request) -> Response:
    """Return a page of the caller's locks and those of others."""
    try:
        call, asked = await open_call_with_body(
            request, VerifyLocksRequest, Permission.WRITE, max_bytes=LOCK_BYTES, may_be_empty=True, is_counted=False
        )
    except ResourceExhausted as error:
        if error.reason != HttpReason.LOGINS_LIMITED:
            raise
        # After 429, git-lfs would tell its user to disable the lock check (trap-44).
        message = f"the credentials are not valid, or were not checked: {error.message}"
        raise PermissionDenied(HttpReason.LOGINS_REFUSED, message) from error
    # Users who may write only some refs see all locks too, and not every client names a ref here.
    permission = Permission.WRITE if asked.ref_name else Permission.WRITE_ANY_REF
    repository_id = await call.authorize(permission, asked.ref_name)
    page, tag = await locks.verify(
        call.context.clients,
        repository_id,
        call.caller.user_id,
        ref=asked.ref_name,
        cursor=asked.cursor or "",
        limit=asked.limit,
    )
    response = json_response(page, call.dialect)
    if tag:
        response.headers["ETag"] = tag
    return response


@router.post(
    "/{repository:base}/locks/{lock_id:lock_id}/unlock",
    operation_id="delete_lock",
    summary="Remove a lock",
    responses=answers(LockAnswer, 400, 401, 403, 404, 406, 408, 413, 415, 422, 429),
    openapi_extra=json_request(DeleteLockRequest, required=False),
)
async def delete_lock(request: Request) -> Response:
    """Remove a lock of the caller's, or with `force` anybody's."""
    call, asked = await open_call_with_body(
        request, DeleteLockRequest, Permission.WRITE, max_bytes=LOCK_BYTES, may_be_empty=True, is_counted=False
    )
    repository_id = await call.authorize(Permission.WRITE, asked.ref_name)
    removed = await locks.delete(
        call.context.clients,
        repository_id,
        call.caller,
        request.path_params["lock_id"],
        force=bool(asked.force),
        reason=asked.reason or "",
        key=idempotency_key(request),
    )
    return json_response(removed, call.dialect)
