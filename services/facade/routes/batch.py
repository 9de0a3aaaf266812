"""POST {base}/objects/batch (protocol: "Batch")."""

from functools import partial

from fastapi import APIRouter, Request, Response

from services.facade.auth.authorizer import Permission
from services.facade.context import context_of
from services.facade.errors import Area
from services.facade.objects.batch import Limits, check_lengths, resolve_batch
from services.facade.routes.openapi import answers, json_request
from services.facade.routes.request import (
    accepted_dialect,
    authenticated_caller,
    read_json,
    refuse_anonymous,
    repository_name,
)
from services.facade.routes.route import endpoints_in
from services.facade.web.request_log import add_log_fields
from services.facade.web.responses import json_response
from services.facade.web.schemas import BatchAnswer, BatchRequest

router = APIRouter(default_response_class=Response, route_class=endpoints_in(Area.BATCH), tags=["objects"])


@router.post(
    "/{repository:base}/objects/batch",
    operation_id="batch",
    summary="Negotiate the transfer of objects",
    responses=answers(BatchAnswer, 400, 401, 403, 404, 406, 408, 413, 415, 422, 429, 501, 507, 509),
    openapi_extra=json_request(BatchRequest),
)
async def batch(request: Request) -> Response:
    """Tell for each object what to do next, or what is wrong with it."""
    repository = repository_name(request)
    dialect = accepted_dialect(request)
    caller = await authenticated_caller(request)
    await refuse_anonymous(request, caller, repository, Permission.READ)
    context = context_of(request)
    limits = Limits(context.settings.batch_objects, context.settings.object_bytes)
    asked = await read_json(
        request, BatchRequest, max_bytes=limits.body_bytes, check=partial(check_lengths, limits=limits)
    )
    add_log_fields(request.scope, direction=asked.operation, objects=len(asked.objects))
    answered = await resolve_batch(
        asked,
        repository,
        caller,
        authorizer=context.authorizer,
        clients=context.clients,
        limits=limits,
        maker=context.action_factory(request),
    )
    return json_response(answered, dialect)
