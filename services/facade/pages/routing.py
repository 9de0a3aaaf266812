"""Addresses of the pages: which requests of a browser they answer, and which of them answers."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from services.facade.pages.visit import Visit
from services.facade.web.media_types import is_named, prefers_html

SITE = "/-/"
"""The addresses of the pages begin so, but for `/`, `/docs` and those of a repository: no repository's name does."""

_REPOSITORY = r"(?P<repository>[A-Za-z0-9._][A-Za-z0-9._-]*(?:/[A-Za-z0-9._-]+)*)"
_GET = frozenset({"GET", "HEAD"})
_POST = frozenset({"POST"})

Show = Callable[[Visit], Awaitable[Response]]
Answer = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class PageRoute:
    """A page, or a form of one.

    `show` gets the visit, whose caller has been authenticated; `answer` gets the bare request. `{repository}` in the
    path is the name of one, and `{name}` one segment. A page with `by_accept` has the address of the interface, and is
    for those alone who prefer HTML.
    """

    operation_id: str
    path: str
    show: Show | None = None
    answer: Answer | None = None
    methods: frozenset[str] = _GET
    by_accept: bool = False
    is_counted: bool = True
    """False where a request costs nothing of the user's rate: changes of locks."""
    pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        pattern = re.escape(self.path).replace(r"\{repository\}", _REPOSITORY).replace(r"\{name\}", "(?P<name>[^/]+)")
        object.__setattr__(self, "pattern", re.compile(pattern))


def page(operation_id: str, path: str, show: Show, *, by_accept: bool = False) -> PageRoute:
    """Return the route of a page."""
    return PageRoute(operation_id, path, show, by_accept=by_accept)


def form(operation_id: str, path: str, show: Show, *, is_counted: bool = True) -> PageRoute:
    """Return the route of a form that is sent."""
    return PageRoute(operation_id, path, show, methods=_POST, is_counted=is_counted)


def bare(operation_id: str, path: str, answer: Answer, *, methods: frozenset[str] = _GET) -> PageRoute:
    """Return a route that needs no session."""
    return PageRoute(operation_id, path, answer=answer, methods=methods)


def may_be_page(scope: Scope, own: frozenset[str]) -> bool:
    """Return whether a request could be for a page: one below `SITE`, one at an `own` address, or a browser's.

    A client that names a dialect of the interface is answered by the interface at all addresses but those below `SITE`.
    """
    path: str = scope["path"]
    if path.startswith(SITE):
        return True
    if scope["method"] in _GET and path in own:
        return not is_named(Headers(scope=scope).getlist("accept"))
    return wants_page(scope)


def wants_page(scope: Scope) -> bool:
    """Return whether a request is that of a browser for a page, by its Accept header."""
    return (
        scope["method"] in _GET
        and any(name == b"accept" and b"html" in value for name, value in scope["headers"])
        and prefers_html(Headers(scope=scope).getlist("accept"))
    )
