"""Spans of OpenTelemetry; imported only if traces are on (`services.common.observability.tracing`).

OpenTelemetry's instrumentations of ASGI, gRPC and SQLAlchemy are not used: see docs/decisions/0011.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from services.common.observability import request_id
from services.common.observability.tracing import Span

REQUEST_ID = "towpath.request_id"

# An unreachable collector delays neither the service nor its shutdown for long; the spans that it misses are lost.
_EXPORT_SECONDS = 2

_context = TraceContextTextMapPropagator()


class Spans:
    """Sends the spans of a process in the background. Its owner closes it."""

    def __init__(self, service: str, endpoint: str) -> None:
        resource = Resource({SERVICE_NAME: f"towpath-{service}", SERVICE_VERSION: version("towpath")})
        self._provider = TracerProvider(sampler=DEFAULT_ON, resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_EXPORT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("towpath")
        trace.set_tracer_provider(self._provider)

    @contextmanager
    def serving(self, caller: Mapping[str, str | bytes]) -> Iterator["ServedSpan"]:
        """Make a new span the current span while a request or call is served."""
        carrier = {key: value for key, value in caller.items() if isinstance(value, str)}
        span = self._tracer.start_span(
            "other",
            context=_context.extract(carrier),
            kind=trace.SpanKind.SERVER,
            attributes={REQUEST_ID: request_id.current()},
        )
        # Never detached: the context ends with the task, and an abandoned stream is closed in another context.
        context.attach(trace.set_span_in_context(span))
        try:
            yield ServedSpan(span)
        finally:
            span.end()

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return `traceparent`, and `tracestate` if there is one."""
        carrier: dict[str, str] = {}
        _context.inject(carrier)
        return tuple(carrier.items())

    def close(self) -> None:
        """Send the remaining spans, and shut down."""
        self._provider.shutdown()


class ServedSpan(Span):
    """A span of OpenTelemetry."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def finish(self, name: str, fields: Mapping[str, object], *, failed: bool) -> None:
        """Name the span, add the fields, and mark it if the request failed."""
        self._span.update_name(name)
        for key, value in fields.items():
            if isinstance(value, str | int | float):
                self._span.set_attribute(f"towpath.{key}", value)
        if failed:
            self._span.set_status(trace.StatusCode.ERROR)
