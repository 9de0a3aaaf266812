"""Forms of the pages: only a page of this site may send them, and only in its own session."""

import hmac
from urllib.parse import urlsplit

from starlette.requests import Request

from services.common.errors import InvalidArgument, PermissionDenied, Reason
from services.facade.context import context_of
from services.facade.middleware.concurrency_limit import slot_of
from services.facade.pages.visit import SignInNeeded, Visit
from services.facade.web import request_body
from services.facade.web.error_reasons import HttpReason
from services.facade.web.forwarded_headers import client_of

# A JSON Web Token has 8 KiB at most, and a form may escape each byte of a path of 4,096.
_MAX_BYTES = 32 * 1024
CSRF_FIELD = "csrf"


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that a page of this site has sent.

    Raises `PermissionDenied` (CROSS_SITE), and the errors of `request_body.check_form`, `read` and `parse_form`.
    """
    _check_same_origin(request)
    request_body.check_form(request.headers)
    async with slot_of(request.scope).released():
        data = await request_body.read(
            request.headers,
            request.receive,
            max_bytes=_MAX_BYTES,
            seconds=context_of(request).settings.json_body_seconds,
        )
    return request_body.parse_form(data)


async def read_session_form(visit: Visit) -> dict[str, str]:
    """Return the fields of a form of the visit's own session. Raises the errors of `read_form`, and `SignInNeeded`."""
    if visit.session is None:
        raise SignInNeeded
    form = await read_form(visit.request)
    if not hmac.compare_digest(form.get(CSRF_FIELD, "").encode(), visit.csrf.encode()):
        raise _cross_site("the form is not one of your session; load the page again")
    return form


def required(form: dict[str, str], field: str, *, most: int = 1_000) -> str:
    """Return a field that a form must have. Raises `InvalidArgument`."""
    value = form.get(field, "").strip()
    if not value or len(value) > most:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected 1 to {most} characters")
    return value


def _check_same_origin(request: Request) -> None:
    """Raise `PermissionDenied` unless the browser says that a page of this site has sent the form.

    Browsers tell `Sec-Fetch-Site` to https and to the own machine alone, and `Origin` with each form.
    """
    site = request.headers.get("sec-fetch-site")
    if site == "same-origin":
        return
    seen, public_url = client_of(request.scope), context_of(request).settings.public_url
    own = {f"{seen.scheme}://{host}" for host in seen.hosts}
    if public_url is not None:
        # Where no proxy is trusted, it alone names the address that the browser knows.
        own.add(urlsplit(public_url)._replace(path="").geturl())
    if site is not None or request.headers.get("origin") not in own:
        raise _cross_site("the form was not sent by a page of this site")


def _cross_site(message: str) -> PermissionDenied:
    return PermissionDenied(HttpReason.CROSS_SITE, message)
