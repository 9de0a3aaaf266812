"""How addresses that have shown too many bad credentials have others checked: one at a time, and few a second."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from services.common.errors import ResourceExhausted
from services.facade.web.addresses import limit_key
from services.facade.web.error_reasons import HttpReason

# Between two questions of one address; what others ask is not to wait for these.
_RETRY_SECONDS = 0.02
# For how long the answer is kept back from whom there is no room for: it would come again at once.
_REFUSAL_SECONDS = 1.0
_REFUSAL = "too many bad credentials came from your address, and others wait for theirs to be checked"


@dataclass
class _Line:
    """Those of one address that wait, the one whose turn it is, and when the next turn begins."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    next_at: float = 0.0


class LoginQueue:
    """A short line for each address: `most` wait at once, each for up to `wait_seconds`."""

    def __init__(self, most: int, wait_seconds: float) -> None:
        self._most = most
        self._wait_seconds = wait_seconds
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for a turn of this address, and have it.

        Raises `ResourceExhausted` (LOGINS_LIMITED) where none comes.
        """
        holder = limit_key(address)
        line = self._lines.setdefault(holder, _Line())
        if line.waiting >= self._most:
            await asyncio.sleep(_REFUSAL_SECONDS)
            raise logins_limited(_REFUSAL, 1)
        line.waiting += 1
        try:
            await self._wait(line)
            try:
                yield
            finally:
                line.next_at = time.monotonic() + _RETRY_SECONDS
                line.turn.release()
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[holder]

    async def _wait(self, line: _Line) -> None:
        try:
            async with asyncio.timeout(self._wait_seconds):
                await line.turn.acquire()
        except TimeoutError as error:
            raise logins_limited(_REFUSAL, 1) from error
        try:
            await asyncio.sleep(max(0.0, line.next_at - time.monotonic()))
        except BaseException:
            line.turn.release()
            raise


def logins_limited(message: str, seconds: int) -> ResourceExhausted:
    """Return the error for credentials that come after too many bad ones, and may come again after so many seconds."""
    return ResourceExhausted(HttpReason.LOGINS_LIMITED, message, retry_after=str(seconds))
