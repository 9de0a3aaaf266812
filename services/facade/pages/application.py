"""The pages as a layer before the interface: it answers what is asked of a page, and passes on all else."""

from collections.abc import Callable, Sequence
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.common.errors import NotFound, Reason, ServiceError
from services.facade.context import AppContext
from services.facade.errors import ErrorRenderer
from services.facade.pages import docs, home, issuer_sign_in, locks, objects, repository, sign_in, static, tokens, usage
from services.facade.pages.routing import PageRoute, may_be_page, wants_page
from services.facade.pages.site import routes as site
from services.facade.pages.visit import SignInNeeded, Visit, anonymous_visit, open_visit
from services.facade.web.error_reasons import ClientDisconnected, HttpReason, method_not_allowed

_ROUTES: tuple[PageRoute, ...] = (
    *static.ROUTES,
    *sign_in.ROUTES,
    *issuer_sign_in.ROUTES,
    *home.ROUTES,
    *docs.ROUTES,
    *locks.ROUTES,
    *objects.ROUTES,
    *usage.ROUTES,
    *tokens.ROUTES,
    *site.ROUTES,
    # Last, because a repository may have almost any address.
    *repository.ROUTES,
)
_PHRASES = {status.value: status.phrase for status in HTTPStatus} | {509: "Bandwidth limit exceeded"}
_OWN = frozenset(route.path for route in _ROUTES if not route.by_accept and "{" not in route.path)


class Pages:
    """Answers the requests for pages, and passes other requests to `others`.

    `is_interface` tells whether an address is one of the interface, at which no page of a repository is; `describe`
    returns the OpenAPI description of the interface.
    """

    def __init__(
        self,
        others: ASGIApp,
        context: AppContext,
        errors: ErrorRenderer,
        is_interface: Callable[[str], bool],
        describe: docs.Describe,
    ) -> None:
        self._others = others
        self._context = context
        self._errors = errors
        self._is_interface = is_interface
        self._describe = describe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. An unexpected error is raised again after the answer 500 was sent."""
        if not may_be_page(scope, _OWN):
            await self._others(scope, receive, send)
            return
        found = self._routes(scope["path"])
        if not found and (self._is_interface(scope["path"]) or not wants_page(scope)):
            await self._others(scope, receive, send)
            return
        scope["state"]["context"] = self._context
        docs.keep_description(scope, self._describe)
        request = Request(scope, receive)
        try:
            response = await self._answer(found, request)
        except (SignInNeeded, ServiceError, ClientDisconnected) as error:
            response = self._failure(error, request)
        except Exception:  # the browser gets 500, and `RequestScope` logs the error
            await self._failure(ServiceError(Reason.INTERNAL, "internal error"), request)(scope, receive, send)
            raise
        await response(scope, receive, send)

    def _routes(self, path: str) -> list[PageRoute]:
        """Return the routes of an address; none where the interface answers."""
        found = [route for route in _ROUTES if route.pattern.fullmatch(path)]
        if all(route.path == repository.PATH for route in found) and self._is_interface(path):
            return []
        return found

    async def _answer(self, found: Sequence[PageRoute], request: Request) -> Response:
        route = next((route for route in found if request.method in route.methods), None)
        if route is None:
            if not found:
                raise NotFound(HttpReason.ROUTE_NOT_FOUND, "nothing is served at this address")
            raise method_not_allowed(request.method, {method for each in found for method in each.methods})
        matched = route.pattern.fullmatch(request.scope["path"])
        request.scope["route"] = route
        request.scope["path_params"] = matched.groupdict() if matched else {}
        if route.answer is not None:
            return await route.answer(request)
        assert route.show is not None  # noqa: S101 - a route has one of the two
        visit = request.scope["state"]["visit"] = await open_visit(request, is_counted=route.is_counted)
        return await route.show(visit)

    def _failure(self, error: SignInNeeded | ServiceError | ClientDisconnected, request: Request) -> Response:
        if isinstance(error, ClientDisconnected):
            return self._errors.answer(error, request.scope)
        if isinstance(error, SignInNeeded):
            return sign_in.sign_in_first(request, is_over=error.is_over)
        status, message = self._errors.tell(error, request.scope)
        if error.reason == HttpReason.INVALID_HOST:
            # Without a host, a page has no address to lead to.
            return self._errors.render(error, request.scope)
        # The page of an error still knows its user, if the visit got so far.
        visit: Visit = request.scope["state"].get("visit") or anonymous_visit(request)
        response = visit.page("error.html", status=status, status_text=_PHRASES.get(status, "Error"), message=message)
        for name, key in (("Retry-After", "retry_after"), ("Allow", "allow")):
            if key in error.metadata:
                response.headers[name] = error.metadata[key]
        return response
