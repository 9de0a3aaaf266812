"""Log lines: one JSON object a line on standard output, or text for a terminal."""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum

import structlog
from pydantic_core import to_json
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from services.common.observability import request_id

# Without local variables, because they may contain credentials.
_tracebacks = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))

# Libraries whose INFO lines are no news for an operator; those of the HTTP libraries contain signed URLs.
_TALKATIVE = ("alembic", "boto3", "botocore", "httpcore", "httpx", "urllib3", "uvicorn")

# The logger methods that are not named after their level.
_LEVELS = {"exception": "error"}


class LogFormat(StrEnum):
    """The format of log lines."""

    JSON = "json"
    TEXT = "text"


def _as_json(_logger: object, _method: str, event: EventDict) -> bytes:
    """Return the line in ASCII, so that input from strangers can neither move a terminal's cursor nor end a line.

    A value that JSON cannot represent is written by `repr`.
    """
    try:
        return to_json(event, fallback=repr, ensure_ascii=True)
    except ValueError:
        return json.dumps(event, default=repr).encode()


def _as_json_text(logger: object, method: str, event: EventDict) -> str:
    return _as_json(logger, method, event).decode()


def _printable(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escape characters that would move a terminal's cursor."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = value.encode("unicode_escape").decode()
    return event


def configure(service: str, *, level: str, log_format: LogFormat) -> None:
    """Send the log lines of this process, those of libraries included, to standard output.

    `level` is one of DEBUG, INFO, WARNING, ERROR. Every line has `service`, `level`, `timestamp` (UTC) and
    `event`, and `request_id` while a request is served. The process's main function calls this once.
    """

    def complete(_logger: object, method: str, event: EventDict) -> EventDict:
        event.setdefault("service", service)
        if current := request_id.current():
            event.setdefault("request_id", current)
        event["level"] = _LEVELS.get(method, method)
        event["timestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return event

    console = structlog.dev.ConsoleRenderer(
        colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    is_json = log_format is LogFormat.JSON
    own: list[Processor] = [_tracebacks, _as_json] if is_json else [_printable, console]
    of_libraries: list[Processor] = [_tracebacks, _as_json_text] if is_json else [_printable, console]
    # Hot path: our own lines, one for each request of each service, bypass the standard library's `logging`.
    structlog.configure(
        processors=[complete, *own],
        logger_factory=structlog.BytesLoggerFactory(sys.stdout.buffer)
        if is_json
        else structlog.WriteLoggerFactory(sys.stdout),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[complete, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *of_libraries],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for talkative in _TALKATIVE:
        logging.getLogger(talkative).setLevel(logging.WARNING)


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a module: `get_logger(__name__)`."""
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger
