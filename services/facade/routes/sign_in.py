"""Sign-in: the issuers at which people sign in, exchange of their tokens, and revocation (docs/protocol.md, "Sign-in").

No repository has these addresses: none of its own begins with "-", and ".well-known" is followed by no endpoint's path.
"""

from fastapi import APIRouter, Request, Response

from services.facade.auth.sign_ins import list_sign_ins
from services.facade.context import context_of
from services.facade.errors import Area
from services.facade.middleware.concurrency_limit import slot_of
from services.facade.routes.openapi import empty_answers, form_request, plain_answers
from services.facade.routes.request import read_form
from services.facade.routes.route import endpoints_in
from services.facade.web.forwarded_headers import client_of
from services.facade.web.request_log import add_log_fields
from services.facade.web.sign_in_schemas import ExchangedToken, SignIns, TokenExchange, TokenRevocation

# A JSON Web Token has 16 KiB at most, and a form may escape each of its bytes.
_MAX_BYTES = 64 * 1024

router = APIRouter(default_response_class=Response, route_class=endpoints_in(Area.ELSEWHERE), tags=["sign-in"])


@router.get(
    "/.well-known/towpath",
    operation_id="sign_ins",
    summary="Tell where people sign in",
    responses=plain_answers(SignIns, 429),
)
async def sign_ins(request: Request) -> Response:
    """Answer with the issuers at which people sign in."""
    found = await list_sign_ins(context_of(request).clients)
    return Response(found.model_dump_json(exclude_none=True), media_type="application/json")


@router.post(
    "/-/token",
    operation_id="exchange_token",
    summary="Give a short token for a JSON Web Token of an issuer (RFC 8693)",
    responses=plain_answers(ExchangedToken, 401, 408, 413, 415, 422, 429),
    openapi_extra=form_request(TokenExchange),
)
async def exchange_token(request: Request) -> Response:
    """Give a token of ours with the user, the groups and the grants of a JSON Web Token."""
    form = await read_form(request, TokenExchange, max_bytes=_MAX_BYTES)
    address = client_of(request.scope).address
    user, given = await context_of(request).authorizer.exchange(
        form.subject_token, address, slot_of(request.scope).released
    )
    add_log_fields(request.scope, user=user)
    return Response(given.model_dump_json(), media_type="application/json", headers={"Cache-Control": "no-store"})


@router.post(
    "/-/revoke",
    operation_id="revoke_token",
    summary="End a token that was given for a sign-in (RFC 7009)",
    responses=empty_answers(400, 408, 413, 415, 422, 429),
    openapi_extra=form_request(TokenRevocation),
)
async def revoke_token(request: Request) -> Response:
    """End a token of ours; the answer to an unknown token is the same."""
    form = await read_form(request, TokenRevocation, max_bytes=_MAX_BYTES)
    address = client_of(request.scope).address
    user = await context_of(request).authorizer.revoke(form.token, address, slot_of(request.scope).released)
    add_log_fields(request.scope, user=user)
    return Response(headers={"Cache-Control": "no-store"})
