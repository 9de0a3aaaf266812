"""Log lines: one JSON object a line on standard output, or text for a terminal."""

import logging
import sys
from enum import StrEnum

import structlog

from services.common import request_id

# Local variables hold credentials.
_tracebacks = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))

# Libraries whose INFO is no news for an operator. What those of HTTP say holds signed addresses.
_TALKATIVE = ("alembic", "boto3", "botocore", "httpcore", "httpx", "urllib3", "uvicorn")


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    TEXT = "text"


def _add_request_id(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if current := request_id.current():
        event.setdefault("request_id", current)
    return event


def configure(service: str, *, level: str, log_format: LogFormat) -> None:
    """Send the log lines of this process, those of libraries included, to standard output.

    `level` is one of DEBUG, INFO, WARNING, ERROR. Every line has `service`, `level`, `timestamp` (UTC) and
    `event`, and `request_id` while a request is served. To be called once, by the process's main function.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_request_id,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: list[structlog.typing.Processor] = (
        [_tracebacks, structlog.processors.JSONRenderer()]
        if log_format is LogFormat.JSON
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
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
    structlog.contextvars.bind_contextvars(service=service)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module: `get_logger(__name__)`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
