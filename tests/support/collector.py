"""A collector of traces: what an OpenTelemetry collector does on its gRPC port, in this process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from tests.support.waiting import until


@dataclass(frozen=True)
class ReceivedSpan:
    """A span that came, and the service that sent it."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool
    attributes: dict[str, str | int]


@dataclass
class Collector(TraceServiceServicer):
    """Keeps the spans that come, and the raw messages as text."""

    endpoint: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    raw: str = ""

    async def Export(
        self,
        request: ExportTraceServiceRequest,
        _context: object,
    ) -> ExportTraceServiceResponse:
        """Take spans."""
        self.raw += str(request)
        for of_resource in request.resource_spans:
            resource = {a.key: a.value.string_value for a in of_resource.resource.attributes}
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    attributes = {a.key: a.value.string_value or a.value.int_value for a in span.attributes}
                    self.spans.append(
                        ReceivedSpan(
                            resource["service.name"],
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.status.code == span.status.STATUS_CODE_ERROR,
                            attributes,
                        )
                    )
        return ExportTraceServiceResponse()

    def of_request(self, request_id: str) -> list[ReceivedSpan]:
        """Return the spans with this request id."""
        return [span for span in self.spans if span.attributes.get("towpath.request_id") == request_id]

    async def until(self, arrived: Callable[[], bool]) -> None:
        """Wait until the spans that are waited for have come; they are sent every few seconds."""
        await until(arrived, "the spans come")


@asynccontextmanager
async def running_collector() -> AsyncIterator[Collector]:
    """Run a collector on a free loopback port."""
    collector = Collector()
    server = grpc.aio.server()
    add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call] # its stubs have no types
    collector.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield collector
    finally:
        await server.stop(0)
