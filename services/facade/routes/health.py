"""Whether the facade lives, and whether what it needs answers."""

from fastapi import APIRouter, Request, Response

from services.common.rpc.client import Health
from services.facade.facade import facade_of
from services.facade.models import Readiness
from services.facade.openapi import health_answers

router = APIRouter(default_response_class=Response, tags=["health"])


@router.get("/healthz", operation_id="healthz", summary="Is the facade alive?", responses=health_answers())
async def healthz() -> Response:
    """Answer 200 as long as the process serves requests."""
    return Response('{"status":"alive"}', media_type="application/json")


@router.get("/readyz", operation_id="readyz", summary="Do the inner services answer?", responses=health_answers(503))
async def readyz(request: Request) -> Response:
    """Answer 200 where storage and locks say that they serve, else 503, and name each."""
    services = await facade_of(request).peers.health()
    ready = all(state is Health.SERVING for state in services.values())
    body = Readiness(status="ready" if ready else "not ready", services=services)
    return Response(body.model_dump_json(), status_code=200 if ready else 503, media_type="application/json")
