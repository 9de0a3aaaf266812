"""Routes whose endpoints are called with the request alone."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from services.facade.errors import Area


def endpoints_in(area: Area) -> type[APIRoute]:
    """Return the route class of the endpoints in this area; the area decides the status of their errors.

    An endpoint is called with the request and reads all else from it: FastAPI resolves no parameters.
    """

    class Endpoint(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            async def handle(request: Request) -> Response:
                request.state.area = area
                response: Response = await self.endpoint(request)
                return response

            return handle

    return Endpoint
