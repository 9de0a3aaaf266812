"""Cached health of the inner services, so that any number of probes costs the services the same."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from services.common.lifecycle import cancel_and_wait
from services.common.rpc.client import Health

MAX_AGE_SECONDS = 1.0
"""The time, counted from its request, for which an answer is cached."""


class HealthCache:
    """Asks at most once in `MAX_AGE_SECONDS`, and never while a request is in flight. Its owner closes it."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, Mapping[str, Health]]]) -> None:
        self._ask = ask
        self._asked: asyncio.Task[Mapping[str, Health]] | None = None
        self._asked_at = 0.0

    async def get(self) -> Mapping[str, Health]:
        """Return the health of each service; the shared request goes on if a caller is cancelled."""
        now = time.monotonic()
        asked = self._asked
        if asked is None or (asked.done() and now - self._asked_at >= MAX_AGE_SECONDS):
            self._asked_at = now
            asked = self._asked = asyncio.create_task(self._ask())
        return await asyncio.shield(asked)

    async def close(self) -> None:
        """Cancel the request in flight."""
        if self._asked is not None and not self._asked.done():
            await cancel_and_wait(self._asked)
