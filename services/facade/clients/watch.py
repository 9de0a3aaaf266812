"""Long polling of an inner service for changes."""

from collections.abc import Awaitable, Callable
from typing import Never

from services.common.concurrency.periodic import run_periodically

HOLD_SECONDS = 0.9
"""The time for which an answer is valid, counted from its request. The rest of a second is for the request itself."""
WAIT_SECONDS = 0.2
"""The time that a service may wait for a change; twice this, plus two round trips, stays below `HOLD_SECONDS`."""

_RETRY_SECONDS = 0.5


async def watch_forever(ask: Callable[[], Awaitable[None]], trouble: str, *, every_seconds: float = 0.0) -> Never:
    """Repeat `ask` forever, `every_seconds` after each answer; log `trouble` once while `ask` fails.

    One failure is tolerated, because a service that has just started may not know the answer yet.
    """
    await run_periodically(ask, every_seconds, trouble=trouble, retry_seconds=_RETRY_SECONDS, tolerated_failures=1)
