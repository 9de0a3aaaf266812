"""The ASGI application: endpoints, middleware and exception handlers."""

import asyncio
from typing import cast

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from services.common.errors import NotFound, PermissionDenied, ServiceError
from services.facade import metrics
from services.facade.auth.access_cache import AccessCache
from services.facade.auth.action_tokens import ActionTokens
from services.facade.auth.authorizer import Authorizer
from services.facade.auth.login_queue import LoginQueue
from services.facade.auth.login_throttle import LoginRateLimiter
from services.facade.auth.refusal_reports import RefusalReports
from services.facade.auth.request_rates import rates_of_strangers
from services.facade.auth.revocation_watch import RevocationState
from services.facade.auth.sessions import SessionCookies
from services.facade.clients.services import ServiceClients
from services.facade.context import AppContext
from services.facade.errors import ErrorRenderer
from services.facade.middleware.body_drain import BodyDrain
from services.facade.middleware.concurrency_limit import VERIFY_LOCKS, ConcurrencyLimit, Slots, watches_of
from services.facade.middleware.request_scope import RequestScope
from services.facade.objects.removal_feed import RemovalFeed
from services.facade.objects.shared_disk import SharedDisk
from services.facade.objects.shared_memory import SharedMemory
from services.facade.pages.application import Pages
from services.facade.routes import (
    batch,
    garbage,
    health,
    lock_extensions,
    locks,
    objects,
    resumable_uploads,
    sign_in,
)
from services.facade.routes.object_router import ObjectRoutes
from services.facade.routes.openapi import describe
from services.facade.settings import FacadeSettings
from services.facade.web.error_reasons import ClientDisconnected, HttpReason, method_not_allowed
from services.facade.web.forwarded_headers import Networks

# The routers that FastAPI serves; `ObjectRoutes` serves those of `routes.objects` and `routes.resumable_uploads`. The
# extensions come first, because the word "batch" in an address of theirs could be the id of a lock.
_ROUTERS: tuple[APIRouter, ...] = (
    batch.router,
    garbage.router,
    lock_extensions.router,
    locks.router,
    health.router,
    sign_in.router,
)
_DESCRIPTION = "/openapi.json"
_WITHOUT_REPOSITORY = ("/objects/batch", "/locks", VERIFY_LOCKS)


def create_app(
    settings: FacadeSettings,
    clients: ServiceClients,
    login_limiter: LoginRateLimiter,
    changes: RevocationState,
    removal_feed: RemovalFeed,
    stop: asyncio.Event,
    *,
    trusted: Networks,
    shared_disk: SharedDisk | None,
    refusals: RefusalReports | None = None,
) -> ASGIApp:
    """Return the application; the caller closes `clients` and `shared_disk`.

    The application reports that it is not ready once `stop` is set, and believes the headers of the `trusted` proxies.
    The caller updates `login_limiter`, `changes` and `removal_feed` with the news of the other services.
    """
    errors = ErrorRenderer(realm=settings.realm, documentation_url=settings.documentation_url, refusals=refusals)
    memory = settings.shared_memory_path
    context = AppContext(
        settings=settings,
        clients=clients,
        authorizer=Authorizer(
            clients,
            login_limiter,
            changes,
            LoginQueue(settings.failed_logins_queue, settings.failed_logins_wait_seconds),
        ),
        changes=changes,
        tokens=ActionTokens(settings.signing_key, settings.signing_key_accepted),
        sessions=SessionCookies(settings.signing_key, settings.signing_key_accepted),
        committed=AccessCache(removal_feed, recalled=metrics.VERIFIED_FROM_MEMORY, asked=metrics.VERIFIED_BY_STORAGE),
        shared_disk=shared_disk,
        shared_memory=None if memory is None else SharedMemory(memory),
        watches=watches_of(settings),
        # Each costs the lock service milliseconds of its loop.
        history_pages=Slots("pages of the lock history", 32, 2, strangers=8, share_of_strangers=2),
        strangers=rates_of_strangers(settings.anonymous_requests_per_hour),
        trusted=trusted,
        stop=stop,
    )
    api = create_api(errors)
    routes = ObjectRoutes(api, context, errors)

    def is_interface(path: str) -> bool:
        return path == api.openapi_url or bool(_methods_of(path))

    pages = Pages(routes, context, errors, is_interface, api.openapi)
    limited = ConcurrencyLimit(pages, settings, trusted=trusted, errors=errors)
    return RequestScope(BodyDrain(limited), trusted=trusted, stop=stop, errors=errors)


def create_api(errors: ErrorRenderer) -> FastAPI:
    """Return the endpoints alone, with their exception handlers and their OpenAPI description."""
    api = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=_DESCRIPTION,
        redirect_slashes=False,
        # FastAPI's telemetry would export queries and exception texts; `RequestScope` opens the span of a request.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    for router in _ROUTERS:
        # `include_router` would make FastAPI look up the route of each request twice.
        api.router.routes.extend(router.routes)
    # The description includes the routes that `ObjectRoutes` serves instead of FastAPI.
    describe(api, [*api.routes, *objects.router.routes, *resumable_uploads.router.routes])

    async def answered(request: Request, error: Exception) -> Response:
        return errors.answer(error, request.scope)

    async def no_route(request: Request, error: Exception) -> Response:
        return errors.render(_routing_error(request, cast("HTTPException", error)), request.scope)

    api.add_exception_handler(ServiceError, answered)
    api.add_exception_handler(HTTPException, no_route)
    api.add_exception_handler(ClientDisconnected, answered)
    api.add_exception_handler(Exception, answered)
    return api


def _routing_error(request: Request, error: HTTPException) -> ServiceError:
    """Return the error for a path, or a method of a path, that Starlette's router does not know."""
    path = request.scope["path"]
    if error.status_code == 405:
        return method_not_allowed(request.method, _methods_of(path))
    message = "nothing is served at this address"
    if path in _WITHOUT_REPOSITORY:
        message = f"this address lacks the repository: expected /REPOSITORY{path}"
    # From 404 there, git-lfs concludes for good that no repository of the host has locks (client-8).
    if path.endswith(VERIFY_LOCKS):
        return PermissionDenied(HttpReason.ROUTE_NOT_FOUND, message)
    return NotFound(HttpReason.ROUTE_NOT_FOUND, message)


def _methods_of(path: str) -> set[str]:
    routers = (*_ROUTERS, objects.router, resumable_uploads.router)
    routes = (route for router in routers for route in router.routes if isinstance(route, APIRoute))
    return {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
