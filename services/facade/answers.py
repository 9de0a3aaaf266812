"""How a body becomes an answer: JSON without nulls, in a dialect's media type."""

from datetime import UTC, datetime

from starlette.responses import Response

from services.facade.dialect import Dialect
from services.facade.models import Body


def answer(body: Body, dialect: Dialect, *, status: int = 200) -> Response:
    """Return the answer with this body; what is None is left out."""
    return Response(
        body.model_dump_json(exclude_none=True), status_code=status, headers={"Content-Type": dialect.media_type}
    )


def timestamp(seconds: int) -> str:
    """Return a time as the protocol writes it: UTC, whole seconds, upper case."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
