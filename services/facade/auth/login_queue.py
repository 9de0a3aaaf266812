"""Login queue: an address over its limit has its credentials checked one at a time, and few a second."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from services.common.client_addresses import limit_key
from services.common.errors import ResourceExhausted
from services.facade.web.error_reasons import HttpReason

# The pause between two checks of one address, so that checks of other addresses need not wait for them.
_RETRY_SECONDS = 0.02
# The delay of a refusal where the queue is full, because the client would otherwise retry at once.
_REFUSAL_SECONDS = 1.0
_REFUSAL = "too many bad credentials came from your address, and others wait for theirs to be checked"


@dataclass
class _Line:
    """The queue of one address: the current turn, the number of requests in it, and the start of the next turn.

    `end` removes a queue in which nobody is, when its pause is over.
    """

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    next_at: float = 0.0
    end: asyncio.TimerHandle | None = None


class LoginQueue:
    """A queue for each address: at most `most` requests are in it, and each waits for up to `wait_seconds`."""

    def __init__(self, most: int, wait_seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for a turn of this address, and occupy it until the block ends.

        Raises `ResourceExhausted` (LOGINS_LIMITED) where the queue is full or the wait is too long.
        """
        holder = limit_key(address)
        line = self._lines.setdefault(holder, _Line())
        if line.waiting >= self._most:
            await asyncio.sleep(_REFUSAL_SECONDS)
            raise logins_limited(_REFUSAL, 1)
        line.waiting += 1
        if line.end is not None:
            line.end.cancel()
        try:
            await self._wait(line)
            try:
                yield
            finally:
                line.next_at = self._clock() + _RETRY_SECONDS
                line.turn.release()
        finally:
            line.waiting -= 1
            if not line.waiting:
                line.end = asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._lines.pop, holder)

    async def _wait(self, line: _Line) -> None:
        try:
            async with asyncio.timeout(self._wait_seconds):
                await line.turn.acquire()
        except TimeoutError as error:
            raise logins_limited(_REFUSAL, 1) from error
        try:
            await asyncio.sleep(max(0.0, line.next_at - self._clock()))
        except BaseException:
            line.turn.release()
            raise


def logins_limited(message: str, seconds: int) -> ResourceExhausted:
    """Return the error for an address over its limit of bad credentials, with the `seconds` until a retry."""
    return ResourceExhausted(HttpReason.LOGINS_LIMITED, message, retry_after=str(seconds))
