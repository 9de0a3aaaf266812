"""Sign-in at an issuer (OpenID Connect) by authorization code with PKCE: a page leads there, and one takes it back."""

import base64
import hashlib
import hmac
import secrets
import time

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from towpath.access.v1 import access_service_pb2 as pb

from services.common.errors import PermissionDenied
from services.facade.auth.sessions import SESSION_SECONDS, SIGN_IN_SECONDS, PendingSignIn, Session
from services.facade.middleware.concurrency_limit import slot_of
from services.facade.pages.routing import bare
from services.facade.pages.visit import HEADERS, Visit, anonymous_visit, local_path
from services.facade.web.error_reasons import HttpReason
from services.facade.web.forwarded_headers import client_of

_BACK = "/-/sign-in/callback"


async def leave(request: Request) -> Response:
    """Lead the browser to the issuer."""
    visit = anonymous_visit(request)
    sign_in = PendingSignIn(
        issuer=request.path_params["name"],
        state=secrets.token_urlsafe(24),
        nonce=secrets.token_urlsafe(24),
        verifier=secrets.token_urlsafe(48),
        next_path=local_path(visit.query.get("next", "/")),
        expires_at=int(time.time()) + SIGN_IN_SECONDS,
    )
    challenge = base64.urlsafe_b64encode(hashlib.sha256(sign_in.verifier.encode()).digest()).decode().rstrip("=")
    clients = visit.context.clients
    asked = pb.StartSignInRequest(
        issuer=sign_in.issuer,
        redirect_uri=_redirect_uri(visit),
        state=sign_in.state,
        nonce=sign_in.nonce,
        code_challenge=challenge,
    )
    reply = await clients.locks.call(clients.access_stub.StartSignIn, asked)
    response = RedirectResponse(reply.authorization_url, status_code=303, headers=HEADERS)
    response.headers.append("Set-Cookie", visit.context.sessions.keep_pending(sign_in))
    return response


async def come_back(request: Request) -> Response:
    """Begin a session for the code that the issuer has sent the browser back with."""
    visit = anonymous_visit(request)
    sessions, query = visit.context.sessions, visit.query
    sign_in = sessions.pending(request.headers.getlist("cookie"))
    if sign_in is None or not hmac.compare_digest(query.get("state", "").encode(), sign_in.state.encode()):
        raise PermissionDenied(HttpReason.CROSS_SITE, "this sign-in was not begun here, or took too long; begin anew")
    if "error" in query:
        told = query.get("error_description") or query["error"]
        raise PermissionDenied(HttpReason.SIGN_IN_REFUSED, f"{sign_in.issuer} has refused the sign-in: {told[:200]}")
    asked = pb.FinishSignInRequest(
        issuer=sign_in.issuer,
        redirect_uri=_redirect_uri(visit),
        code=query.get("code", ""),
        code_verifier=sign_in.verifier,
        nonce=sign_in.nonce,
        response_issuer=query.get("iss", ""),
    )
    address, slot = client_of(request.scope).address, slot_of(request.scope)
    _, given = await visit.context.authorizer.finish_sign_in(asked, address, slot.released)
    expires_at = int(time.time()) + min(SESSION_SECONDS, given.expires_in)
    response = visit.redirect_back(sign_in.next_path)
    response.headers.append("Set-Cookie", sessions.keep(Session(given.access_token, expires_at, is_own=True)))
    response.headers.append("Set-Cookie", sessions.end_pending())
    return response


def _redirect_uri(visit: Visit) -> str:
    return visit.origin + _BACK


ROUTES = (
    bare("page_sign_in_back", _BACK, come_back),
    bare("page_sign_in_leave", "/-/sign-in/with/{name}", leave),
)
