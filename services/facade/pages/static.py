"""Static files of the pages; a page names each by its digest, so that browsers keep it for good."""

from mimetypes import guess_type

from starlette.requests import Request
from starlette.responses import Response

from services.common.errors import NotFound
from services.facade.pages.rendering import static_file
from services.facade.pages.routing import bare
from services.facade.web.error_reasons import HttpReason

_NAMES = ("htmx.min.js", "icon.svg", "towpath.css", "towpath.js")


async def static(request: Request) -> Response:
    """Answer with a static file."""
    name = request.path_params["name"]
    if name not in _NAMES:
        raise NotFound(HttpReason.ROUTE_NOT_FOUND, "nothing is served at this address")
    data, _ = static_file(name)
    return Response(
        data,
        media_type=guess_type(name)[0],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )


ROUTES = (bare("page_static", "/-/static/{name}", static),)
