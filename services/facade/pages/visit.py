"""A visit: one request of a browser, its session, and the answers that a page gives."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

from google.protobuf.message import Message
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from services.common.errors import NotFound, PermissionDenied, Reason, Unauthenticated
from services.facade.auth.authorizer import Authorizer, Permission
from services.facade.auth.caller import Caller
from services.facade.auth.login_gate import Aside
from services.facade.auth.sessions import Session
from services.facade.context import AppContext, context_of
from services.facade.middleware.concurrency_limit import slot_of
from services.facade.pages.rendering import render
from services.facade.routes.request import query_values, take_from_rate
from services.facade.web.forwarded_headers import client_of, origin
from services.facade.web.request_log import add_log_fields

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    # The Origin of a form is "null" where the policy names no referrer to our own pages.
    "Referrer-Policy": "same-origin",
    "Vary": "Accept, Cookie",
}
"""No other origin is asked for anything, no page is shown within another, and no script stands in a page."""
_MAX_NEXT = 2_048
Reply = TypeVar("Reply")


class SignInNeeded(Exception):
    """A page that only a user with a session may see; `is_over` says that there was a session."""

    def __init__(self, *, is_over: bool = False) -> None:
        super().__init__()
        self.is_over = is_over


@dataclass(frozen=True)
class Visit:
    """One request of a browser, by a caller who may be anonymous."""

    request: Request
    context: AppContext
    origin: str
    """The address of the site as the browser knows it, such as `https://lfs.example.org/prefix`."""
    session: Session | None
    caller: Caller
    """The user of the session; an anonymous stranger at the page of a repository whose forge does not know the user."""

    @property
    def params(self) -> Mapping[str, str]:
        """The parts of the path that the page's pattern names."""
        return self.request.path_params

    @property
    def query(self) -> dict[str, str]:
        """The query; empty values are absent."""
        return query_values(self.request)

    @property
    def user(self) -> Caller:
        """The signed-in user. Raises `SignInNeeded`."""
        if not self.caller.user_id or self.session is None:
            raise SignInNeeded
        return self.caller

    @property
    def credential(self) -> str:
        """The credential of the signed-in user. Raises `SignInNeeded`."""
        if self.session is None:
            raise SignInNeeded
        return self.session.credential

    @property
    def csrf(self) -> str:
        """The text that each form of the session sends back; empty without a session."""
        return "" if self.session is None else self.session.csrf

    @property
    def here(self) -> str:
        """The path and the query of this page, without the prefix of a proxy."""
        query = self.request.scope["query_string"].decode("ascii", errors="replace")
        return quote(self.request.scope["path"]) + (f"?{query}" if query else "")

    def link(self, path: str, /, **query: str) -> str:
        """Return the address of a page; values of the query that are empty are left out."""
        given = urlencode({key: value for key, value in query.items() if value})
        return urlsplit(self.origin).path + quote(path) + (f"?{given}" if given else "")

    async def authorize(self, repository: str, permission: Permission = Permission.READ) -> int:
        """Return the id of a repository in which the caller has the permission.

        Raises `SignInNeeded` for an anonymous caller, and the errors of `Authorizer.check`.
        """
        add_log_fields(self.request.scope, repository=repository)
        try:
            return await self.context.authorizer.check(self.caller, repository, permission, "")
        except Unauthenticated as error:
            if error.reason == Reason.CREDENTIALS_REQUIRED:
                raise SignInNeeded from error
            raise

    async def administer(self, method: Callable[..., Awaitable[Reply]], request: Message) -> Reply:
        """Call a method of AdminService as the signed-in user, whose right is decided there.

        Raises `SignInNeeded`, `PermissionDenied` (NOT_ADMINISTRATOR), and the errors of the method.
        """
        if not self.user.administrator:
            # AdminService does not know the token of a forge at all, and the session would seem to be over.
            raise PermissionDenied(Reason.NOT_ADMINISTRATOR, f"{self.user.name} is not an administrator")
        try:
            return await self.context.clients.locks.call(method, request, secret=SecretStr(self.credential))
        except Unauthenticated as error:
            raise SignInNeeded(is_over=True) from error

    def page(self, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
        """Return a page."""
        return HTMLResponse(render(template, visit=self, **values), status_code=status, headers=HEADERS)

    def redirect(self, path: str, /, **query: str) -> RedirectResponse:
        """Return the answer to a form: the browser asks for a page."""
        return RedirectResponse(self.link(path, **query), status_code=303, headers=HEADERS)

    def redirect_back(self, path: str) -> RedirectResponse:
        """Return the same for a path and query that a page has given, quoted; `/` for anything else."""
        address = urlsplit(self.origin).path + local_path(path)
        return RedirectResponse(address, status_code=303, headers=HEADERS)


async def open_visit(request: Request, *, is_counted: bool = True) -> Visit:
    """Return the visit that a request makes; without `is_counted`, it costs nothing of the rate of its user or address.

    Raises `SignInNeeded` if the session's credential is not valid any more, and the errors of
    `Authorizer.authenticate`, `origin` and `take_from_rate`.
    """
    context, client, slot = context_of(request), client_of(request.scope), slot_of(request.scope)
    site = origin(context.settings.public_url, client)
    session = context.sessions.session(request.headers.getlist("cookie"))
    if session is None:
        if is_counted:
            await take_from_rate(request, Caller())
        return Visit(request, context, site, None, Caller())
    try:
        caller = await session_caller(context.authorizer, session, client.address, slot.released)
    except Unauthenticated as error:
        if error.reason == Reason.BAD_CREDENTIALS:
            raise SignInNeeded(is_over=True) from error
        raise
    if caller.is_refused_by_pages:
        raise SignInNeeded(is_over=True)
    await slot.wait_for(partial(slot.count_user, caller.name))
    add_log_fields(request.scope, user=caller.name)
    request.scope["state"]["token_id"] = caller.token_id
    if is_counted:
        await take_from_rate(request, caller)
    repository = request.path_params.get("repository", "")
    if session.repository and repository and not await _may_know(context.authorizer, caller, repository):
        caller = Caller()
    return Visit(request, context, site, session, caller)


async def session_caller(authorizer: Authorizer, session: Session, address: str, aside: Aside) -> Caller:
    """Return the user of a session, whichever repository is asked for. Raises the errors of `Authorizer.authenticate`.

    The forge that knows the credential is that of the session's repository: at another forge it would be a bad one.
    """
    return await authorizer.authenticate([f"Bearer {session.credential}"], address, session.repository, aside)


async def _may_know(authorizer: Authorizer, caller: Caller, repository: str) -> bool:
    """Return whether the forge of a repository is the one that knows the caller, who is a stranger at others."""
    try:
        await authorizer.check(caller, repository, Permission.READ, "")
    except Unauthenticated as error:
        return error.reason != Reason.BAD_CREDENTIALS
    except (NotFound, PermissionDenied):
        # The page says so.
        return True
    return True


def anonymous_visit(request: Request) -> Visit:
    """Return the visit of a browser about whose session nothing is known. Raises the errors of `origin`."""
    context = context_of(request)
    return Visit(request, context, origin(context.settings.public_url, client_of(request.scope)), None, Caller())


def local_path(text: str) -> str:
    """Return a path of this site that a form or a query names, or `/` if it names anything else."""
    is_local = text.startswith("/") and not text.startswith(("//", "/\\")) and len(text) <= _MAX_NEXT
    return text if is_local and text.isascii() and text.isprintable() else "/"
