"""A user's own tokens: their list, a new one, and the end of one."""

from starlette.responses import Response
from towpath.access.v1 import access_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason, ServiceError, Unauthenticated
from services.facade.pages import sign_in
from services.facade.pages.forms import read_session_form, required
from services.facade.pages.refusals import status_of_refusal
from services.facade.pages.routing import form, page
from services.facade.pages.visit import SignInNeeded, Visit

PATH = "/-/tokens"
_PAGE = 100
_DAY_SECONDS = 24 * 3600
_LIVES = {"30": "30 days", "90": "90 days", "365": "a year", "0": "no end"}
_MAX_NAME = 64


async def show(visit: Visit) -> Response:
    """Show a page of the user's tokens by name, and the form for a new one."""
    return await _page(visit)


async def create(visit: Visit) -> Response:
    """Make a token, and show its secret in the answer: no later page can show it."""
    sent = await read_session_form(visit)
    clients = visit.context.clients
    try:
        if (days := sent.get("days", "")) not in _LIVES:
            raise InvalidArgument(Reason.INVALID_FIELD, f"days: expected one of {', '.join(_LIVES)}")
        request = pb.CreateUserTokenRequest(
            name=required(sent, "name", most=_MAX_NAME),
            expires_in_seconds=int(days) * _DAY_SECONDS,
            credential=visit.credential,
        )
        made = await clients.locks.call(clients.access_stub.CreateUserToken, request)
    except ServiceError as error:
        return await _refused(visit, error, sent)
    return await _page(visit, made=made)


async def revoke(visit: Visit) -> Response:
    """End a token; with that of the session, the session is over too."""
    sent = await read_session_form(visit)
    caller, clients = visit.user, visit.context.clients
    try:
        request = pb.RevokeUserTokenRequest(name=required(sent, "name"), credential=visit.credential)
        ended = await clients.locks.call(clients.access_stub.RevokeUserToken, request)
    except ServiceError as error:
        return await _refused(visit, error, {})
    if ended.token.id != caller.token_id:
        return visit.redirect(PATH)
    response = visit.redirect(sign_in.PATH, over="1")
    response.headers.append("Set-Cookie", visit.context.sessions.end())
    return response


async def _refused(visit: Visit, error: ServiceError, sent: dict[str, str]) -> Response:
    """Show the page with a refusal, and the form as it was sent. Raises `SignInNeeded`, and what no user can mend."""
    if isinstance(error, Unauthenticated):
        raise SignInNeeded(is_over=True) from error
    return await _page(visit, problem=error.message, status=status_of_refusal(error), sent=sent)


async def _page(
    visit: Visit,
    *,
    made: pb.CreateUserTokenResponse | None = None,
    problem: str = "",
    status: int = 200,
    sent: dict[str, str] | None = None,
) -> Response:
    clients = visit.context.clients
    request = pb.ListUserTokensRequest(cursor=visit.query.get("cursor", ""), limit=_PAGE, credential=visit.credential)
    try:
        reply = await clients.locks.call(clients.access_stub.ListUserTokens, request)
    except Unauthenticated as error:
        raise SignInNeeded(is_over=True) from error
    return visit.page(
        "tokens.html",
        status=status,
        tokens=reply.tokens,
        made=made,
        problem=problem,
        lives=_LIVES,
        sent=sent or {},
        first=visit.link(PATH) if "cursor" in visit.query else "",
        next=visit.link(PATH, cursor=reply.next_cursor) if reply.next_cursor else "",
    )


ROUTES = (
    page("page_tokens", PATH, show),
    form("page_token_made", PATH, create),
    form("page_token_revoked", f"{PATH}/revoke", revoke),
)
