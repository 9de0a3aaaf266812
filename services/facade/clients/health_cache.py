"""How the inner services are, for those who watch over the facade: any number of them costs the services the same."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from services.common.lifecycle import cancel_and_wait
from services.common.rpc.client import Health

MAX_AGE_SECONDS = 1.0
"""An answer that was asked for longer ago is not given any more."""


class HealthCache:
    """Asks at most once in `MAX_AGE_SECONDS`, and never while an answer is still awaited. Its owner closes it."""

    def __init__(self, ask: Callable[[], Awaitable[Mapping[str, Health]]]) -> None:
        self._ask = ask
        self._asked: asyncio.Task[Mapping[str, Health]] | None = None
        self._asked_at = 0.0

    async def get(self) -> Mapping[str, Health]:
        """Return what each service says of itself; it is asked to the end, whoever gives up waiting."""
        now = time.monotonic()
        asked = self._asked
        if asked is None or (asked.done() and now - self._asked_at >= MAX_AGE_SECONDS):
            self._asked_at = now
            asked = self._asked = asyncio.create_task(self._find())
        return await asyncio.shield(asked)

    async def close(self) -> None:
        """Cancel what is under way."""
        if self._asked is not None and not self._asked.done():
            await cancel_and_wait(self._asked)

    async def _find(self) -> Mapping[str, Health]:
        return await self._ask()
