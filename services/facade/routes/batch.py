"""The batch endpoint, POST {base}/objects/batch (docs/protocol.md, "Batch")."""

from functools import partial

from fastapi import APIRouter, Request, Response

from services.facade.auth.authorizer import Permission
from services.facade.context import context_of
from services.facade.errors import Area
from services.facade.objects.batch import Limits, resolve_batch
from services.facade.routes.openapi import Responses, answers, json_request
from services.facade.routes.request import open_call_with_body
from services.facade.routes.route import endpoints_in
from services.facade.web.body_bounds import batch_bytes, check_lengths
from services.facade.web.request_log import add_log_fields
from services.facade.web.responses import json_response
from services.facade.web.schemas import BatchAnswer, BatchRequest

router = APIRouter(default_response_class=Response, route_class=endpoints_in(Area.BATCH), tags=["objects"])

_QUOTA_HEADER = "X-Towpath-Quota"


def _answers(*errors: int) -> Responses:
    described = answers(BatchAnswer, *errors)
    described[200]["headers"][_QUOTA_HEADER] = {
        "description": "from 80 % of the repository's quota on, its use and the quota in bytes: `used=412; limit=500`",
        "schema": {"type": "string"},
    }
    return described


@router.post(
    "/{repository:base}/objects/batch",
    operation_id="batch",
    summary="Negotiate the transfer of objects",
    responses=_answers(400, 401, 403, 404, 406, 408, 413, 415, 422, 429, 501, 507, 509),
    openapi_extra=json_request(BatchRequest),
)
async def batch(request: Request) -> Response:
    """Tell for each object what to do next, or what is wrong with it."""
    context = context_of(request)
    limits = Limits(context.settings.batch_objects, context.settings.object_bytes)
    call, asked = await open_call_with_body(
        request,
        BatchRequest,
        Permission.READ,
        max_bytes=batch_bytes(limits.objects),
        check=partial(check_lengths, max_objects=limits.objects),
    )
    add_log_fields(request.scope, direction=asked.operation, objects=len(asked.objects))
    answered = await resolve_batch(
        asked,
        call.repository,
        call.caller,
        authorizer=context.authorizer,
        clients=context.clients,
        limits=limits,
        maker=context.action_factory(request),
    )
    response = json_response(answered.body, call.dialect)
    if answered.quota:
        response.headers[_QUOTA_HEADER] = answered.quota
    return response
