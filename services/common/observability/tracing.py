"""Traces for OpenTelemetry, where an endpoint is configured; where none is, its SDK is not even imported."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from services.common.observability.spans import Spans

_spans: "Spans | None" = None


class Span(Protocol):
    """The span of a request or call that is served."""

    def finish(self, name: str, fields: Mapping[str, object], *, failed: bool) -> None:
        """Name it, add fields, none of them a secret, and say whether it failed."""


class _NoSpan:
    def finish(self, name: str, fields: Mapping[str, object], *, failed: bool) -> None:
        pass


_NO_SPAN = _NoSpan()


@contextmanager
def traced(service: str, endpoint: str | None) -> Iterator[None]:
    """Send the spans of this process to `endpoint` until left; without one, do nothing.

    To be entered once, by the process's main function. Raises ValueError where the packages for it are missing.
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
    """Tell whether this process sends spans."""
    return _spans is not None


def serving(caller: Mapping[str, str | bytes], *, seen: bool = True) -> AbstractContextManager[Span]:
    """Return the span of a request or call that is served; `caller` are its headers, which may name the caller's span.

    It has the current request id. To be entered in a task that serves nothing else: it stays the task's current span.
    What is not `seen` has none.
    """
    return _spans.serving(caller) if _spans is not None and seen else nullcontext(_NO_SPAN)


def metadata() -> tuple[tuple[str, str], ...]:
    """Return the metadata by which a call tells the one who serves it of the current span."""
    return _spans.metadata() if _spans is not None else ()
