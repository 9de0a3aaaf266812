"""Downloads: GET and HEAD {base}/objects/{oid}, by the token of an action of the cache."""

from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from services.cache.context import CacheContext
from services.cache.readers import Damaged, Pieces, Reader
from services.cache.tokens import Grant
from services.common.errors import FailedPrecondition, ServiceError, Unavailable
from services.facade.server.object_response import ObjectResponse, WholeResponse, can_send_files
from services.facade.server.sendfile import FilePart
from services.facade.web import ranges
from services.facade.web.error_reasons import HttpReason
from services.facade.web.request_log import add_log_fields


async def download(request: Request, grant: Grant, context: CacheContext) -> Response:
    """Send the object, or the part of it that Range names; to HEAD, only the headers.

    Raises `FailedPrecondition` (PRECONDITION_FAILED), `OutOfRange`, the errors of `Objects.open`, and `Damaged`
    where the object was damaged on the disk twice in a row.
    """
    headers = request.headers
    etag = f'"{grant.oid}"'
    if not ranges.if_match_matches(headers.getlist("if-match"), etag):
        raise FailedPrecondition(HttpReason.PRECONDITION_FAILED, f"if-match: expected {etag} or *")
    whole = ranges.ByteRange(0, grant.size)
    if request.method == "HEAD":
        return Response(headers=ranges.headers(whole, grant.size, etag, partial=False))
    if ranges.if_none_match_matches(headers.getlist("if-none-match"), etag):
        return Response(status_code=304, headers={"ETag": etag})
    asked = headers.getlist("range") if ranges.if_range_matches(headers.get("if-range"), etag) else []
    part = ranges.parse_range(asked, grant.size)
    try:
        part, first, rest = await _begun(request, grant, context, part)
    except Damaged:
        # Nothing was sent, so that the client need not ask again.
        part, first, rest = await _begun(request, grant, context, part)
    requested = part or whole
    answered = ranges.headers(requested, grant.size, etag, partial=part is not None)
    status = 206 if part else 200
    if isinstance(first, bytes) and len(first) == requested.end - requested.start:
        await rest.aclose()
        return WholeResponse(first, status_code=status, headers=answered)
    return ObjectResponse(
        first, rest, status_code=status, headers=answered, idle_seconds=context.settings.body_idle_seconds
    )


async def _begun(
    request: Request, grant: Grant, context: CacheContext, part: ranges.ByteRange | None
) -> tuple[ranges.ByteRange | None, bytes | FilePart, Pieces]:
    """Open the object; return the part that is sent, None for all of it, its first piece, and the others."""
    reader = await _opened(request, grant, context)
    if reader.is_whole_only:
        part = None
    pieces = _sent(reader, part or ranges.ByteRange(0, grant.size), by_kernel=can_send_files(request.scope))
    return part, await anext(pieces, b""), pieces


async def _opened(request: Request, grant: Grant, context: CacheContext) -> Reader:
    try:
        reader, source = await context.objects.open(grant)
    except ServiceError as error:
        # The next batch asks the upstream, whose word on this object was other than this.
        if not isinstance(error, Unavailable) or not grant.url:
            context.rights.forget(grant.caller, grant.oid)
        raise
    add_log_fields(request.scope, source=source)
    return reader


async def _sent(reader: Reader, part: ranges.ByteRange, *, by_kernel: bool) -> Pieces:
    try:
        async with aclosing(reader.pieces(part, by_kernel=by_kernel)) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        await reader.close()
