"""Traces for OpenTelemetry, where an endpoint is configured; where none is, its SDK is not even imported."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.common.spans import Spans

_spans: "Spans | None" = None


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
        from services.common.spans import Spans
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


def serving(name: str, caller: Mapping[str, str | bytes]) -> AbstractContextManager[None]:
    """Return the span of a request or call that is served; `caller` are its headers, which may name the caller's span.

    It has the current request id.
    """
    return _spans.serving(name, caller) if _spans is not None else nullcontext()


def note(name: str, fields: Mapping[str, object], *, failed: bool) -> None:
    """Name the span that is being served, add fields to it, none of them a secret, and say whether it failed."""
    if _spans is not None:
        _spans.note(name, fields, failed=failed)


def metadata() -> tuple[tuple[str, str], ...]:
    """Return the metadata by which a call tells the one who serves it of the current span."""
    return _spans.metadata() if _spans is not None else ()
