"""JSON responses: nulls omitted, in the media type of the dialect."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic_core import to_json
from starlette.responses import Response

from services.facade.web.media_types import Dialect
from services.facade.web.schemas import Body


def json_response(body: Body | Mapping[str, object] | bytes, dialect: Dialect, *, status: int = 200) -> Response:
    """Return the answer with this body; bytes are JSON already, and the None fields of a model are omitted."""
    if isinstance(body, Body):
        content: str | bytes = body.model_dump_json(exclude_none=True)
    else:
        content = body if isinstance(body, bytes) else to_json(body)
    return Response(content, status_code=status, headers={"Content-Type": dialect.media_type})


def timestamp(seconds: int) -> str:
    """Return a time in the protocol's format: UTC, whole seconds, upper case."""
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix('+00:00')}Z"
