"""A span for each SQL statement of a request; imported only where traces are on (`services.common.tracing`).

It has the statement with placeholders, never the values.
"""

from opentelemetry import trace
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.ext.asyncio import AsyncEngine

from services.common import request_id
from services.common.spans import REQUEST_ID

_MOST_CHARACTERS = 2_000
_SPAN = "_towpath_span"


def trace_statements(engine: AsyncEngine) -> None:
    """Make a span of each statement that the engine executes within another span."""
    tracer = trace.get_tracer("towpath")

    def begin(
        _connection: object, _cursor: object, statement: str, _parameters: object, context: object, _many: bool
    ) -> None:
        # What the service asks for itself, each second or so, is no part of a request.
        if not trace.get_current_span().is_recording():
            return
        verb = next(iter(statement.split(maxsplit=1)), "SQL").upper()
        attributes = {
            "db.system.name": "postgresql",
            "db.query.text": statement[:_MOST_CHARACTERS],
            REQUEST_ID: request_id.current(),
        }
        setattr(context, _SPAN, tracer.start_span(verb, kind=trace.SpanKind.CLIENT, attributes=attributes))

    def end(
        _connection: object, _cursor: object, _statement: str, _parameters: object, context: object, _many: bool
    ) -> None:
        if (span := getattr(context, _SPAN, None)) is not None:
            span.end()

    def fail(failure: ExceptionContext) -> None:
        if (span := getattr(failure.execution_context, _SPAN, None)) is not None:
            span.set_status(trace.StatusCode.ERROR)
            span.end()

    event.listen(engine.sync_engine, "before_cursor_execute", begin)
    event.listen(engine.sync_engine, "after_cursor_execute", end)
    event.listen(engine.sync_engine, "handle_error", fail)
