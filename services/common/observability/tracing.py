"""Traces for OpenTelemetry, if an endpoint is configured; otherwise its SDK is not even imported."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.common.observability.spans import Spans

_spans: "Spans | None" = None


class Span:
    """The span of a request or call that is served; this class is that of processes without traces."""

    def finish(self, name: str, fields: Mapping[str, object], *, failed: bool) -> None:
        """Name the span, add the fields, none of them a secret, and mark it if the request failed."""


_NO_SPAN = Span()


@contextmanager
def traced(service: str, endpoint: str | None) -> Iterator[None]:
    """Send the spans of this process to `endpoint` inside the context; without an endpoint, do nothing.

    The process's main function enters the context once. Raises ValueError if the packages for traces are missing.
    """
    global _spans
    if endpoint is None:
        yield
        return
    try:
        from services.common.observability.spans import Spans
    except ModuleNotFoundError as error:
        raise ValueError("traces_endpoint: needs what `pip install 'towpath[tracing]'` brings") from error
    spans = _spans = Spans(service, endpoint)
    try:
        yield
    finally:
        _spans = None
        spans.close()


def is_on() -> bool:
    """Return whether this process sends spans."""
    return _spans is not None


def serving(caller: Mapping[str, str | bytes], *, seen: bool = True) -> AbstractContextManager[Span]:
    """Return the span of a request or call that is served; the headers `caller` may name the caller's span.

    The span has the current request id. Enter it in a task that serves nothing else, because it stays the task's
    current span. A request that is not `seen` has no span.
    """
    return _spans.serving(caller) if _spans is not None and seen else nullcontext(_NO_SPAN)


def metadata() -> tuple[tuple[str, str], ...]:
    """Return the metadata by which a call passes the current span to its server."""
    return _spans.metadata() if _spans is not None else ()
