"""The endpoint for collections of garbage, POST {base}/objects/retain (docs/protocol.md, "Collection of garbage")."""

from fastapi import APIRouter, Request, Response

from services.facade.auth.authorizer import Permission
from services.facade.errors import Area
from services.facade.objects.retain import parse_query, retain
from services.facade.routes.openapi import answers, list_request
from services.facade.routes.openapi_parameters import RETAIN_QUERY
from services.facade.routes.request import open_call, query_values
from services.facade.routes.route import endpoints_in
from services.facade.web import request_body
from services.facade.web.garbage_schemas import CollectionAnswer
from services.facade.web.responses import json_response

router = APIRouter(default_response_class=Response, route_class=endpoints_in(Area.ELSEWHERE), tags=["objects"])


@router.post(
    "/{repository:base}/objects/retain",
    operation_id="retain_objects",
    summary="Collect the objects that a list does not retain",
    responses=answers(CollectionAnswer, 401, 403, 404, 406, 408, 409, 413, 415, 422, 429),
    openapi_extra={**RETAIN_QUERY, **list_request("a line for each object's id, ascending, and `end COUNT DIGEST`")},
)
async def retain_objects(request: Request) -> Response:
    """Tell how much the list does not retain, and with `apply` remove it."""
    call = await open_call(request)
    # The lock service decides again, by the credential. This check spares the body of a caller that is refused.
    await call.authorize(Permission.ADMIN, "")
    query = parse_query(query_values(request))
    request_body.check_list(request.headers)
    settings = call.context.settings
    body = request_body.chunks(request.receive, settings.body_idle_seconds, settings.upload_min_bytes_per_second)
    answer = await retain(call.context.clients, call.repository, call.caller.shown, query, body)
    return json_response(answer, call.dialect)
