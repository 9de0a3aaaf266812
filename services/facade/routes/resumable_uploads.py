"""Resumable uploads by tus 1.0.0: HEAD, PATCH and OPTIONS {base}/objects/{oid} (docs/protocol.md, "Resumable uploads").

The addresses are those of upload actions, which take PUT as well.
"""

import re
from email.utils import formatdate

from fastapi import APIRouter, Request, Response

from services.common.errors import FailedPrecondition, InvalidArgument, Reason
from services.facade.auth.action_tokens import ActionGrant, Operation
from services.facade.context import context_of
from services.facade.objects.resumable_upload import Progress, append, find_progress
from services.facade.routes.openapi import APPEND_REQUEST, append_answers, option_answers
from services.facade.routes.openapi_parameters import APPEND_PARAMETERS
from services.facade.routes.request import authorized_action
from services.facade.web.error_reasons import HttpReason
from services.facade.web.media_types import APPENDED, media_type

TUS_HEADER = "Tus-Resumable"
"""The header by which a request or an answer is one of the protocol tus."""

_VERSION = "1.0.0"
_EXTENSIONS = "expiration"
_PATH = "/{repository:base}/objects/{oid:oid}"
_OFFSET = re.compile("[0-9]{1,19}")

router = APIRouter(default_response_class=Response, tags=["objects"])


def mark(response: Response) -> Response:
    """Return an answer to a request of tus, an error too, with the headers that each of them has."""
    response.headers[TUS_HEADER] = _VERSION
    if response.status_code == 412:
        response.headers["Tus-Version"] = _VERSION
    return response


# Described with HEAD of a download action, which has the same address.
@router.head(_PATH, operation_id="upload_offset", include_in_schema=False)
async def upload_offset(request: Request) -> Response:
    """Tell how many bytes of an upload are kept: the size only where the repository holds the object."""
    grant = await _authorized(request)
    progress = await find_progress(context_of(request).clients, grant)
    headers = {**_headers(progress), "Upload-Length": str(grant.size), "Cache-Control": "no-store"}
    return Response(headers=headers)


@router.patch(
    _PATH,
    operation_id="append",
    summary="Add bytes to an upload",
    status_code=204,
    responses=append_answers(),
    openapi_extra={**APPEND_REQUEST, **APPEND_PARAMETERS},
)
async def patch(request: Request) -> Response:
    """Keep the body as the bytes that follow Upload-Offset; the last of them complete the object."""
    grant = await _authorized(request)
    headers = request.headers
    if media_type(headers.get("content-type", ""))[0] != APPENDED:
        raise InvalidArgument(HttpReason.UNSUPPORTED_MEDIA_TYPE, f"content-type: expected {APPENDED}")
    offset = headers.get("upload-offset", "")
    if not _OFFSET.fullmatch(offset) or int(offset) > grant.size:
        raise InvalidArgument(Reason.INVALID_FIELD, f"upload-offset: expected a number from 0 to {grant.size}")
    context = context_of(request)
    receive = context.transfer_watch(grant).receive(request.receive)
    progress = await append(context.clients, grant, int(offset), headers, receive, context.settings)
    return Response(status_code=204, headers=_headers(progress))


@router.options(
    _PATH,
    operation_id="upload_options",
    summary="Ask what of tus is supported",
    status_code=204,
    responses=option_answers(),
)
async def options(request: Request) -> Response:
    """Tell the version and the extensions of tus, and the methods."""
    headers = {"Tus-Version": _VERSION, "Tus-Extension": _EXTENSIONS, "Allow": "GET, HEAD, OPTIONS, PATCH, POST, PUT"}
    headers["Tus-Max-Size"] = str(context_of(request).settings.object_bytes)
    return Response(status_code=204, headers=headers)


async def _authorized(request: Request) -> ActionGrant:
    """Return the grant of an upload. Raises `FailedPrecondition` for another version, and as `authorized_action`."""
    if request.headers.getlist(TUS_HEADER) != [_VERSION]:
        raise FailedPrecondition(HttpReason.PRECONDITION_FAILED, f"tus-resumable: expected {_VERSION}")
    return await authorized_action(request, Operation.UPLOAD)


def _headers(progress: Progress) -> dict[str, str]:
    headers = {"Upload-Offset": str(progress.offset)}
    if progress.expires_at is not None:
        headers["Upload-Expires"] = formatdate(progress.expires_at, usegmt=True)
    return headers
