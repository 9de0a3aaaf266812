"""Log lines: one JSON object a line on standard output, or text for a terminal."""

import json
import logging
import sys
from enum import StrEnum

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from services.common import request_id

# Local variables hold credentials.
_tracebacks = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))

# Libraries whose INFO is no news for an operator. What those of HTTP say holds signed addresses.
_TALKATIVE = ("alembic", "boto3", "botocore", "httpcore", "httpx", "urllib3", "uvicorn")


# What JSON has no word for is told as Python writes it.
_json = json.JSONEncoder(default=repr)


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    TEXT = "text"


def _add_request_id(_logger: object, _method: str, event: EventDict) -> EventDict:
    if current := request_id.current():
        event.setdefault("request_id", current)
    return event


def _as_json(_logger: object, _method: str, event: EventDict) -> str:
    return _json.encode(event)


def configure(service: str, *, level: str, log_format: LogFormat) -> None:
    """Send the log lines of this process, those of libraries included, to standard output.

    `level` is one of DEBUG, INFO, WARNING, ERROR. Every line has `service`, `level`, `timestamp` (UTC) and
    `event`, and `request_id` while a request is served. To be called once, by the process's main function.
    """

    def add_service(_logger: object, _method: str, event: EventDict) -> EventDict:
        event.setdefault("service", service)
        return event

    shared: list[Processor] = [
        add_service,
        _add_request_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: list[Processor] = (
        [_tracebacks, _as_json]
        if log_format is LogFormat.JSON
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    # Our own lines do not pass through the library's `logging`: there is one for each request, of each service.
    structlog.configure(
        processors=[*shared, *renderer],
        logger_factory=structlog.WriteLoggerFactory(sys.stdout),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
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
