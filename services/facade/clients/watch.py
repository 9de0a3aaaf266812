"""Long polling of an inner service for changes."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from services.common.concurrency.periodic import run_periodically
from services.common.lifecycle import running

HOLD_SECONDS = 0.9
"""The time for which an answer is valid, counted from its request. The rest of a second is for the request itself."""
WAIT_SECONDS = 0.2
"""The time that a service may wait for a change; twice this, plus two round trips, stays below `HOLD_SECONDS`."""

_RETRY_SECONDS = 0.5
_IDLE_SECONDS = 10.0


class Changes:
    """Changes that may make cached answers wrong, as far as inner services have reported them to this facade."""

    def __init__(self) -> None:
        self.generation = 0
        """A number that differs after each change; an answer requested before the change may be wrong."""
        self._held_until = -math.inf
        self._used_at = time.monotonic()
        self._used = asyncio.Event()

    def are_known(self) -> bool:
        """Return whether all changes are known, except those of the last 0.9 seconds; this counts as a use."""
        self._used_at = time.monotonic()
        self._used.set()
        return self._used_at < self._held_until

    async def wait_for_use(self) -> None:
        """Return at once after a use in the last 10 seconds, otherwise with the next: until then nobody has to ask."""
        if time.monotonic() - self._used_at >= _IDLE_SECONDS:
            self._used.clear()
            await self._used.wait()

    def hold(self, asked_at: float) -> None:
        """Record that a request made at `asked_at` (`time.monotonic`) has told all changes before it."""
        self._held_until = asked_at + HOLD_SECONDS


def watching(
    ask: Callable[[], Awaitable[None]], trouble: str, *, every_seconds: float = 0.0
) -> AbstractAsyncContextManager[object]:
    """Repeat `ask` inside the context, `every_seconds` after each answer; log `trouble` once while `ask` fails.

    One failure is tolerated, because a service that has just started may not know the answer yet.
    """
    return running(
        run_periodically(ask, every_seconds, trouble=trouble, retry_seconds=_RETRY_SECONDS, tolerated_failures=1)
    )
