"""The actions' URLs: GET, HEAD, PUT and POST {base}/objects/{oid}.

See docs/protocol.md, "Basic transfer: download action", "Basic transfer: upload action" and "Basic transfer: verify
action".
"""

from fastapi import APIRouter, Request, Response

from services.common.errors import FailedPrecondition, NotFound, Reason
from services.facade.auth.action_tokens import ActionGrant, Operation
from services.facade.context import context_of
from services.facade.objects import verify as held
from services.facade.objects.download import read_object
from services.facade.objects.upload import upload
from services.facade.routes.openapi import BYTES_REQUEST, bytes_answers, empty_answers, json_request
from services.facade.routes.openapi_parameters import HEAD_PARAMETERS
from services.facade.routes.request import authorized_action, read_json
from services.facade.server.object_response import ObjectResponse, WholeResponse, can_send_files
from services.facade.web import ranges
from services.facade.web.error_reasons import HttpReason
from services.facade.web.schemas import VerifyObjectRequest

router = APIRouter(default_response_class=Response, tags=["objects"])

# The body of a verify request needs 150 bytes.
_VERIFY_BYTES = 4 * 1024
# Clients verify an upload right after it.
_COMMITTED_SECONDS = 60.0
_PATH = "/{repository:base}/objects/{oid:oid}"


@router.get(_PATH, operation_id="download", summary="Download an object", responses=bytes_answers())
async def download(request: Request) -> Response:
    """Send the object, or the part of it that Range names."""
    grant = await authorized_action(request, Operation.DOWNLOAD)
    context = context_of(request)
    headers = request.headers
    etag = f'"{grant.oid}"'
    await _check_expected(request, grant, etag)
    if ranges.if_none_match_matches(headers.getlist("if-none-match"), etag):
        await held.require_stored(context.clients, grant.repository_id, grant.oid, grant.size)
        return Response(status_code=304, headers={"ETag": etag})
    asked = headers.getlist("range") if ranges.if_range_matches(headers.get("if-range"), etag) else []
    part = ranges.parse_range(asked, grant.size)
    requested = part or ranges.ByteRange(0, grant.size)
    status = 206 if part else 200
    answered = ranges.headers(requested, grant.size, etag, partial=part is not None)
    disk = context.shared_disk
    if disk is not None and (data := disk.read_cached(grant, requested)) is not None:
        return WholeResponse(data, status_code=status, headers=answered)
    read = read_object(context.clients, disk, grant, requested, by_kernel=can_send_files(request.scope))
    sent = context.transfer_watch(grant).pieces(read)
    first = await anext(sent, b"")
    if isinstance(first, bytes) and len(first) == requested.end - requested.start:
        # No bytes follow, but the sender may still raise an error.
        async for _ in sent:
            pass
        return WholeResponse(first, status_code=status, headers=answered)
    return ObjectResponse(
        first, sent, status_code=status, headers=answered, idle_seconds=context.settings.body_idle_seconds
    )


@router.head(
    _PATH,
    operation_id="head",
    summary="Ask for an object's headers, or for the progress of its upload",
    responses=bytes_answers(head=True),
    openapi_extra=HEAD_PARAMETERS,
)
async def head(request: Request) -> Response:
    """Answer as to GET of the whole object, without the object."""
    grant = await authorized_action(request, Operation.DOWNLOAD)
    etag = f'"{grant.oid}"'
    await _check_expected(request, grant, etag)
    await held.require_stored(context_of(request).clients, grant.repository_id, grant.oid, grant.size)
    whole = ranges.ByteRange(0, grant.size)
    return Response(headers=ranges.headers(whole, grant.size, etag, partial=False))


async def _check_expected(request: Request, grant: ActionGrant, etag: str) -> None:
    """Raise `FailedPrecondition` (PRECONDITION_FAILED) where If-Match names another object and this object is held.

    Where this object is not held, raise the error of `held.require_stored` instead.
    """
    if not ranges.if_match_matches(request.headers.getlist("if-match"), etag):
        await held.require_stored(context_of(request).clients, grant.repository_id, grant.oid, grant.size)
        raise FailedPrecondition(HttpReason.PRECONDITION_FAILED, f"if-match: expected {etag} or *")


@router.put(
    _PATH,
    operation_id="upload",
    summary="Upload an object",
    responses=empty_answers(400, 403, 404, 408, 410, 429, 501, 507, 509),
    openapi_extra=BYTES_REQUEST,
)
async def put(request: Request) -> Response:
    """Store the body as the object."""
    grant = await authorized_action(request, Operation.UPLOAD)
    context = context_of(request)
    receive = context.transfer_watch(grant).receive(request.receive)

    async def write() -> tuple[bool, float]:
        await upload(context.clients, context.shared_memory, grant, request.headers, receive, context.settings)
        return True, _COMMITTED_SECONDS

    await context.committed.fetch((grant.repository_id, grant.oid, grant.size), write)
    return Response()


@router.post(
    _PATH,
    operation_id="verify",
    summary="Verify that an object was uploaded",
    responses=empty_answers(400, 403, 404, 408, 410, 413, 415, 429, 501, 507),
    openapi_extra=json_request(VerifyObjectRequest),
)
async def verify(request: Request) -> Response:
    """Answer 200 where the object is held in this size, or is from now on, since the store confirms it."""
    grant = await authorized_action(request, Operation.VERIFY)
    asked = await read_json(request, VerifyObjectRequest, max_bytes=_VERIFY_BYTES)
    if (asked.oid, asked.size) != (grant.oid, grant.size):
        raise NotFound(Reason.OBJECT_NOT_FOUND, "oid: this is the address of another object")
    context = context_of(request)
    # The client may have uploaded to the store directly, past the facade; the store is asked once.
    is_direct = False

    async def confirm() -> tuple[bool, float]:
        nonlocal is_direct
        is_direct = await held.confirm_upload(context.clients, grant)
        return True, 0

    await context.committed.get_or_fetch((grant.repository_id, grant.oid, grant.size), confirm)
    # git-lfs verifies three times within a millisecond (client-verify) over open connections. A killed facade ends all
    # of them; a new connection waits for the next facade. With TLS, new connections are too expensive.
    is_last = is_direct and context.settings.https_certificate is None
    return Response(headers={"Connection": "close"} if is_last else None)
