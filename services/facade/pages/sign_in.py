"""Sign-in to the pages with a token of ours, a token of a git forge, or a JSON Web Token; and sign-out."""

import time
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from services.common.errors import InvalidArgument, NotFound, PermissionDenied, Reason, ServiceError, Unauthenticated
from services.common.token_prefix import TOKEN_PREFIX
from services.facade.auth.sessions import MAX_CREDENTIAL, SESSION_SECONDS, Session
from services.facade.auth.sign_ins import list_sign_ins
from services.facade.middleware.concurrency_limit import slot_of
from services.facade.pages.forms import read_form, read_session_form
from services.facade.pages.routing import PageRoute, bare, form
from services.facade.pages.visit import Visit, anonymous_visit, local_path
from services.facade.routes.request import repository_name_in
from services.facade.web.error_reasons import HttpReason
from services.facade.web.forwarded_headers import client_of

PATH = "/-/sign-in"
_JSON_WEB_TOKEN_DOTS = 2
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def sign_in_first(request: Request, *, is_over: bool) -> Response:
    """Return the answer to a browser whose page needs a session: the way to the sign-in, and back to the page."""
    visit = anonymous_visit(request)
    next_path = visit.here if request.method in ("GET", "HEAD") else "/"
    if not is_over and request.headers.get("sec-fetch-site") == "cross-site":
        # The cookie of a session does not come with a click on another site; it comes with the page's own refresh.
        return visit.page("again.html", next_path=visit.origin + next_path)
    response = visit.redirect(PATH, next=next_path, over="1" if is_over else "")
    if is_over:
        response.headers.append("Set-Cookie", visit.context.sessions.end())
    return response


async def show_sign_in(request: Request) -> Response:
    """Show the form."""
    visit = anonymous_visit(request)
    return await _form(visit, next_path=local_path(visit.query.get("next", "/")), is_over="over" in visit.query)


async def sign_in(request: Request) -> Response:
    """Begin a session with the credential of the form, or show the form again with the reason."""
    visit = anonymous_visit(request)
    sent = await read_form(request)
    next_path = local_path(sent.get("next", "/"))
    try:
        session = await _session(visit, sent)
    except (Unauthenticated, InvalidArgument, NotFound, PermissionDenied) as error:
        if error.reason == HttpReason.CROSS_SITE:
            raise
        return await _form(visit, next_path=next_path, problem=error.message, status=401)
    response = visit.redirect_back(next_path)
    response.headers.append("Set-Cookie", visit.context.sessions.keep(session))
    return response


async def _session(visit: Visit, sent: dict[str, str]) -> Session:
    """Return a session for the credential in a form.

    Raises `Unauthenticated`, `InvalidArgument`, `NotFound`, `PermissionDenied`.
    """
    context, scope = visit.context, visit.request.scope
    address, slot = client_of(scope).address, slot_of(scope)
    if not _keeps_cookies(visit.origin):
        raise PermissionDenied(HttpReason.INSECURE, "sign-in needs https")
    token, repository = sent.get("token", "").strip(), repository_name_in(sent.get("repository", "").strip("/ "))
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise InvalidArgument(Reason.INVALID_FIELD, "token: expected a token, without spaces")
    expires_at, is_own = int(time.time()) + SESSION_SECONDS, False
    if token.count(".") == _JSON_WEB_TOKEN_DOTS and not token.startswith(TOKEN_PREFIX):
        _, given = await context.authorizer.exchange(token, address, slot.released)
        token, expires_at, is_own = given.access_token, min(expires_at, int(time.time()) + given.expires_in), True
    if len(token) > MAX_CREDENTIAL:
        raise InvalidArgument(Reason.INVALID_FIELD, f"token: expected at most {MAX_CREDENTIAL} characters")
    is_of_forge = not token.startswith(TOKEN_PREFIX)
    caller = await context.authorizer.authenticate([f"Bearer {token}"], address, repository, slot.released)
    if caller.is_refused_by_pages:
        message = "the token is that of a program or of an SSH session, and the pages are for people"
        raise PermissionDenied(Reason.ACCESS_DENIED, message)
    return Session(token, expires_at, repository if is_of_forge else "", is_own)


def _keeps_cookies(origin: str) -> bool:
    """Return whether a browser keeps the cookie of a session: from https, and from its own machine."""
    site = urlsplit(origin)
    return site.scheme == "https" or site.hostname in _LOOPBACK


async def _form(
    visit: Visit, *, next_path: str, is_over: bool = False, problem: str = "", status: int = 200
) -> Response:
    try:
        issuers = (await list_sign_ins(visit.context.clients)).issuers
    except ServiceError:
        # A token may be good all the same.
        issuers = []
    return visit.page(
        "sign_in.html",
        status=status,
        next_path=next_path,
        is_over=is_over,
        problem=problem,
        issuers=issuers,
        is_secure=_keeps_cookies(visit.origin),
    )


async def sign_out(visit: Visit) -> Response:
    """End the session, and the token that came with its sign-in."""
    await read_session_form(visit)
    if visit.session is not None and visit.session.is_own:
        address, slot = client_of(visit.request.scope).address, slot_of(visit.request.scope)
        await visit.context.authorizer.revoke(visit.session.credential, address, slot.released)
    response = visit.redirect(PATH)
    response.headers.append("Set-Cookie", visit.context.sessions.end())
    return response


ROUTES: tuple[PageRoute, ...] = (
    bare("page_sign_in", PATH, show_sign_in),
    bare("page_sign_in_sent", PATH, sign_in, methods=frozenset({"POST"})),
    form("page_sign_out", "/-/sign-out", sign_out, is_counted=False),
)
