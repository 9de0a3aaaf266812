"""Router of the actions' URLs, without FastAPI, because its routing takes longer than most of these requests."""

import re
from collections.abc import Mapping

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from services.common.errors import ServiceError
from services.facade.context import AppContext
from services.facade.errors import Area, ErrorRenderer
from services.facade.routes import objects, resumable_uploads
from services.facade.web.error_reasons import ClientDisconnected, method_not_allowed
from services.facade.web.schemas import OID_PATTERN

_PATH = re.compile(f"/(?s:(.*))/objects/({OID_PATTERN.strip('^$')})")


def _routes_of(router: APIRouter) -> dict[str, APIRoute]:
    return {method: route for route in router.routes if isinstance(route, APIRoute) for method in route.methods or ()}


_TUS_ROUTES = _routes_of(resumable_uploads.router)
_ROUTES = _routes_of(objects.router)
_ALLOWED = {*_ROUTES, *_TUS_ROUTES}


class ObjectRoutes:
    """Serves {base}/objects/{oid} with the endpoints of `routes.objects` and `routes.resumable_uploads`.

    Other requests are passed to `others`.
    """

    def __init__(self, others: ASGIApp, context: AppContext, errors: ErrorRenderer) -> None:
        self._others = others
        self._context = context
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. An unexpected error is raised again after the answer 500 was sent."""
        scope["state"]["context"] = self._context
        if (found := _PATH.fullmatch(scope["path"])) is None:
            await self._others(scope, receive, send)
            return
        scope["state"]["area"] = Area.ACTIONS
        scope["path_params"] = {"repository": found[1], "oid": found[2]}
        is_tus = _is_tus(scope)
        try:
            scope["route"] = route = _route(_TUS_ROUTES if is_tus else _ROUTES, scope["method"])
            response = await route.endpoint(Request(scope, receive))
        except (ServiceError, ClientDisconnected) as error:
            response = self._errors.answer(error, scope)
        except Exception as error:  # the client gets 500, and `RequestScope` logs the error
            await self._errors.answer(error, scope)(scope, receive, send)
            raise
        if is_tus:
            resumable_uploads.mark(response)
        await response(scope, receive, send)


def _is_tus(scope: Scope) -> bool:
    """Return whether a request is one of tus; HEAD also asks for the headers of a download."""
    method = scope["method"]
    return method in ("PATCH", "OPTIONS") or (method == "HEAD" and resumable_uploads.TUS_HEADER in Headers(scope=scope))


def _route(routes: Mapping[str, APIRoute], method: str) -> APIRoute:
    try:
        return routes[method]
    except KeyError:
        raise method_not_allowed(method, _ALLOWED) from None
