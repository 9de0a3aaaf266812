"""How an endpoint is called: with the request, and nothing else."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from services.facade.errors import Area


def endpoints_in(area: Area) -> type[APIRoute]:
    """Return the class of routes whose endpoints belong there, for the status of their errors.

    Such an endpoint is called with the request, and asks for the rest itself: FastAPI has no part in that.
    """

    class Endpoint(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            async def handle(request: Request) -> Response:
                request.state.area = area
                response: Response = await self.endpoint(request)
                return response

            return handle

    return Endpoint
