"""The spans themselves; imported only where traces are on (`services.common.tracing`).

The instrumentations that OpenTelemetry offers for ASGI, gRPC and SQLAlchemy are not used: docs/decisions/0011.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from services.common import request_id

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
    def serving(self, name: str, caller: Mapping[str, str | bytes]) -> Iterator[None]:
        """Be the current span while a request or call is served."""
        carrier = {key: value for key, value in caller.items() if isinstance(value, str)}
        with self._tracer.start_as_current_span(
            name,
            context=_context.extract(carrier),
            kind=trace.SpanKind.SERVER,
            attributes={REQUEST_ID: request_id.current()},
            # The text of an exception may tell what nobody else should know; the log has it.
            record_exception=False,
            set_status_on_exception=False,
        ):
            yield

    def note(self, name: str, fields: Mapping[str, object], *, failed: bool) -> None:
        """Complete the current span."""
        span = trace.get_current_span()
        span.update_name(name)
        for key, value in fields.items():
            if isinstance(value, str | int | float):
                span.set_attribute(f"towpath.{key}", value)
        if failed:
            span.set_status(trace.StatusCode.ERROR)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return `traceparent`, and `tracestate` where there is one."""
        carrier: dict[str, str] = {}
        _context.inject(carrier)
        return tuple(carrier.items())

    def close(self) -> None:
        """Send what is left, and end."""
        self._provider.shutdown()
