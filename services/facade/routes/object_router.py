"""Router of the actions' URLs, without FastAPI, because its routing takes longer than most of these requests."""

import re

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from services.common.errors import ServiceError
from services.facade.context import AppContext
from services.facade.errors import Area, ErrorRenderer
from services.facade.routes import objects
from services.facade.web.error_reasons import ClientDisconnected, method_not_allowed
from services.facade.web.schemas import OID_PATTERN

_PATH = re.compile(f"/(?s:(.*))/objects/({OID_PATTERN.strip('^$')})")
_ROUTES = {
    method: route for route in objects.router.routes if isinstance(route, APIRoute) for method in route.methods or ()
}


class ObjectRoutes:
    """Serves {base}/objects/{oid} with the endpoints of `routes.objects`, and passes other requests to `others`."""

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
        try:
            scope["route"] = route = _route(scope["method"])
            response = await route.endpoint(Request(scope, receive))
        except (ServiceError, ClientDisconnected) as error:
            response = self._errors.answer(error, scope)
        except Exception as error:  # the client gets 500, and `RequestScope` logs the error
            await self._errors.answer(error, scope)(scope, receive, send)
            raise
        await response(scope, receive, send)


def _route(method: str) -> APIRoute:
    try:
        return _ROUTES[method]
    except KeyError:
        raise method_not_allowed(method, _ROUTES) from None
