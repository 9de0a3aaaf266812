"""Health endpoints: liveness of the facade, and readiness of the inner services."""

from collections.abc import Mapping
from typing import Literal

from fastapi import APIRouter, Request, Response

from services.common.rpc.client import Health
from services.facade.context import context_of
from services.facade.routes.openapi import health_answers
from services.facade.web.schemas import Readiness

_RETRY_SECONDS = "5"

router = APIRouter(default_response_class=Response, tags=["health"])


@router.head(
    "/healthz", operation_id="head_healthz", summary="Is the facade alive?", responses=health_answers(head=True)
)
@router.get("/healthz", operation_id="healthz", summary="Is the facade alive?", responses=health_answers())
async def healthz() -> Response:
    """Answer 200 as long as the process serves requests."""
    return Response('{"status":"alive"}', media_type="application/json")


@router.head(
    "/readyz",
    operation_id="head_readyz",
    summary="Do the inner services answer?",
    responses=health_answers(503, head=True),
)
@router.get("/readyz", operation_id="readyz", summary="Do the inner services answer?", responses=health_answers(503))
async def readyz(request: Request) -> Response:
    """Answer 200 where storage and locks say that they serve, else 503, and name each with what it says.

    A facade that is told to stop is not ready either, whatever they say. They are asked at most once a second.
    """
    context = context_of(request)
    services = await context.clients.health.get()
    if context.stop.is_set():
        return _readiness("draining", services)
    ready = all(state is Health.SERVING for state in services.values())
    return _readiness("ready" if ready else "not ready", services)


def _readiness(status: Literal["ready", "not ready", "draining"], services: Mapping[str, Health]) -> Response:
    body = Readiness(status=status, services=dict(services)).model_dump_json()
    if status == "ready":
        return Response(body, media_type="application/json")
    return Response(body, status_code=503, headers={"Retry-After": _RETRY_SECONDS}, media_type="application/json")
