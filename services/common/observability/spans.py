"""The spans themselves; imported only where traces are on (`services.common.observability.tracing`).

The instrumentations that OpenTelemetry offers for ASGI, gRPC and SQLAlchemy are not used: docs/decisions/0011.
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

REQUEST_ID = "towpath.request_id"

# A collector that is away holds up neither the service nor its end for long; what it missed is lost.
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
        """Be the current span while a request or call is served."""
        carrier = {key: value for key, value in caller.items() if isinstance(value, str)}
        span = self._tracer.start_span(
            "other",
            context=_context.extract(carrier),
            kind=trace.SpanKind.SERVER,
            attributes={REQUEST_ID: request_id.current()},
        )
        # Not taken back: the context ends with the task, and a stream that is given up is closed in another one.
        context.attach(trace.set_span_in_context(span))
        try:
            yield ServedSpan(span)
        finally:
            span.end()

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return `traceparent`, and `tracestate` where there is one."""
        carrier: dict[str, str] = {}
        _context.inject(carrier)
        return tuple(carrier.items())

    def close(self) -> None:
        """Send what is left, and end."""
        self._provider.shutdown()


class ServedSpan:
    """See `services.common.observability.tracing.Span`."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def finish(self, name: str, fields: Mapping[str, object], *, failed: bool) -> None:
        """Complete it."""
        self._span.update_name(name)
        for key, value in fields.items():
            if isinstance(value, str | int | float):
                self._span.set_attribute(f"towpath.{key}", value)
        if failed:
            self._span.set_status(trace.StatusCode.ERROR)
