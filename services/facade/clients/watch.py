"""Asking an inner service for ever for what may change."""

import asyncio
from collections.abc import Awaitable, Callable

from services.common.observability.logs import get_logger

HOLD_SECONDS = 0.9
"""The time for which an answer holds, from when it was asked for. The rest of a second is for the request itself."""
WAIT_SECONDS = 0.2
"""The time that a service may wait for a change: twice this, and twice the way there and back, stay below the other."""

_RETRY_SECONDS = 0.5
_TROUBLE = 2

_log = get_logger(__name__)


async def watch_forever(ask: Callable[[], Awaitable[None]], trouble: str, *, every_seconds: float = 0.0) -> None:
    """Ask again and again, `every_seconds` after each answer; where that fails, log `trouble` once until it works.

    One failure by itself is no trouble: as everything starts, who is asked may not know yet.
    """
    failures = 0
    while True:
        try:
            await ask()
            failures = 0
        except Exception as error:  # whatever it was, nothing is taken for known before it works again
            failures += 1
            if failures == _TROUBLE:
                _log.warning(trouble, error=repr(error))
            await asyncio.sleep(_RETRY_SECONDS)
        await asyncio.sleep(every_seconds)
