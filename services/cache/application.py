"""The ASGI application of a cache: its routes, and the layers that each request passes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.cache import addresses, batches
from services.cache.addresses import Kind
from services.cache.context import CacheContext
from services.cache.downloads import download
from services.cache.relay import relay_locks, relay_upload, relay_verification
from services.cache.tokens import Grant
from services.common.errors import ServiceError
from services.common.rpc.client import Health
from services.facade.auth.action_tokens import TOKEN_HEADER, Operation
from services.facade.errors import ErrorRenderer
from services.facade.middleware.body_drain import BodyDrain
from services.facade.middleware.concurrency_limit import ConcurrencyLimit
from services.facade.middleware.request_scope import RequestScope
from services.facade.web.error_reasons import ClientDisconnected, method_not_allowed
from services.facade.web.request_log import add_log_fields
from services.facade.web.schemas import Readiness

_TOLD = {500: "internal error"}
_LOCK_METHODS = ("DELETE", "GET", "POST")


@dataclass(frozen=True)
class _Route:
    """The name of an endpoint in the log and in metrics."""

    operation_id: str


@dataclass(frozen=True)
class _Action:
    """An action's method: what its token must allow, and what serves it."""

    operation: Operation
    name: str
    serve: Callable[[Request, Grant, CacheContext], Awaitable[Response]]


_ACTIONS = {
    "GET": _Action(Operation.DOWNLOAD, "download", download),
    "HEAD": _Action(Operation.DOWNLOAD, "head", download),
    "PUT": _Action(Operation.UPLOAD, "upload", relay_upload),
    "POST": _Action(Operation.VERIFY, "verify", relay_verification),
}


def create_app(context: CacheContext, stop: asyncio.Event) -> ASGIApp:
    """Return the application; it is not ready once `stop` is set."""
    settings, trusted = context.settings, context.trusted
    errors = ErrorRenderer(realm="Towpath", documentation_url=settings.documentation_url, told=_TOLD)
    limited = ConcurrencyLimit(_Endpoints(context, stop, errors), settings, trusted=trusted, errors=errors)
    return RequestScope(BodyDrain(limited), trusted=trusted, stop=stop, errors=errors)


class _Endpoints:
    def __init__(self, context: CacheContext, stop: asyncio.Event, errors: ErrorRenderer) -> None:
        self._context = context
        self._stop = stop
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. An unexpected error is raised again after the answer 500 was sent."""
        scope["state"]["area"] = addresses.area_of(scope["path"])
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except (ServiceError, ClientDisconnected) as error:
            response = self._errors.answer(error, scope)
        except Exception as error:  # the client gets 500, and `RequestScope` logs the error
            await self._errors.answer(error, scope)(scope, receive, send)
            raise
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        scope = request.scope
        if scope["path"] in ("/healthz", "/readyz"):
            return self._health(request)
        address = addresses.parse(scope["path"])
        if address.kind is Kind.BATCH:
            _check_method(request, "POST")
            scope["route"] = _Route("batch")
            return await batches.answer(request, address, self._context)
        if address.kind is Kind.LOCKS:
            _check_method(request, *_LOCK_METHODS)
            scope["route"] = _Route("locks")
            return await relay_locks(request, address, self._context)
        _check_method(request, *_ACTIONS)
        action = _ACTIONS[request.method]
        scope["route"] = _Route(action.name)
        add_log_fields(scope, repository=address.base.removeprefix("/"), objects=1)
        grant = self._context.tokens.open(
            Headers(scope=scope).getlist(TOKEN_HEADER),
            operation=action.operation,
            base=address.base,
            oid=address.oid,
        )
        return await action.serve(request, grant, self._context)

    def _health(self, request: Request) -> Response:
        _check_method(request, "GET", "HEAD")
        request.scope["route"] = _Route(request.url.path.removeprefix("/"))
        if request.url.path == "/healthz":
            return Response('{"status":"alive"}', media_type="application/json")
        upstream = Health.NOT_ANSWERING if self._context.upstream.is_away else Health.SERVING
        is_stopping = self._stop.is_set()
        body = Readiness(status="draining" if is_stopping else "ready", services={"upstream": upstream})
        return Response(body.model_dump_json(), status_code=503 if is_stopping else 200, media_type="application/json")


def _check_method(request: Request, *allowed: str) -> None:
    if request.method not in allowed:
        raise method_not_allowed(request.method, allowed)
