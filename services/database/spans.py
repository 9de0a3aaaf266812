"""Spans of the SQL statements of a request.

Imported only if traces are on (`services.common.observability.tracing`). A span has the statement with placeholders,
never the values.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.ext.asyncio import AsyncEngine

from services.common.observability import request_id
from services.common.observability.spans import REQUEST_ID

_MAX_CHARACTERS = 2_000
_SPAN = "_towpath_span"


def trace_statements(engine: AsyncEngine) -> None:
    """Create a span for each statement that the engine executes within another span."""

    def begin(
        _connection: object, _cursor: object, statement: str, _parameters: object, context: object, _many: bool
    ) -> None:
        setattr(context, _SPAN, _begun(statement))

    def end(
        _connection: object, _cursor: object, _statement: str, _parameters: object, context: object, _many: bool
    ) -> None:
        if (span := getattr(context, _SPAN, None)) is not None:
            span.end()

    def fail(failure: ExceptionContext) -> None:
        if (span := getattr(failure.execution_context, _SPAN, None)) is not None:
            _fail(span)

    event.listen(engine.sync_engine, "before_cursor_execute", begin)
    event.listen(engine.sync_engine, "after_cursor_execute", end)
    event.listen(engine.sync_engine, "handle_error", fail)


@contextmanager
def span_of(sql: str) -> Iterator[None]:
    """Create a span, within another span, for a statement that bypasses the engine."""
    span = _begun(sql)
    try:
        yield
    except BaseException:
        if span is not None:
            _fail(span)
        raise
    if span is not None:
        span.end()


def _begun(sql: str) -> trace.Span | None:
    # The statements that the service itself sends, each second or so, belong to no request.
    if not trace.get_current_span().is_recording():
        return None
    verb = next(iter(sql.split(maxsplit=1)), "SQL").upper()
    attributes = {
        "db.system.name": "postgresql",
        "db.query.text": sql[:_MAX_CHARACTERS],
        REQUEST_ID: request_id.current(),
    }
    return trace.get_tracer("towpath").start_span(verb, kind=trace.SpanKind.CLIENT, attributes=attributes)


def _fail(span: trace.Span) -> None:
    span.set_status(trace.StatusCode.ERROR)
    span.end()
