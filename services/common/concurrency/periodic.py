"""Background loops: work that is repeated until its task is cancelled."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Never

from services.common.observability.logs import get_logger

_REFRESH_SECONDS = 15.0
# Slow work is repeated less often, so that it takes at most this share of the time.
_MAX_SHARE_OF_TIME = 0.05

_log = get_logger(__name__)


async def run_periodically(
    work: Callable[[], Awaitable[float | None]],
    interval_seconds: float,
    *,
    trouble: str,
    retry_seconds: float | None = None,
    tolerated_failures: int = 0,
    with_traceback: bool = False,
    wake: Callable[[], Awaitable[object]] | None = None,
) -> Never:
    """Repeat `work` after a pause of `interval_seconds`, or of the number of seconds that it returns.

    A failure never ends the loop: the work is retried after `retry_seconds`, by default the interval. After more than
    `tolerated_failures` in a row, a failure is logged as `trouble`, once until the work succeeds again. A pause ends
    early when `wake` returns.
    """
    failures = 0
    while True:
        try:
            pause = await work()
            failures = 0
        except Exception as error:  # after any error, the next attempt may succeed
            failures += 1
            if failures == tolerated_failures + 1:
                _log.warning(trouble, error=repr(error), exc_info=with_traceback)
            pause = retry_seconds
        pause = interval_seconds if pause is None else pause
        if wake is None:
            await asyncio.sleep(pause)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await wake()


async def refresh_periodically(refresh: Callable[[], Awaitable[None]]) -> Never:
    """Refresh metrics that are too expensive for each scrape: at once, then every 15 s, or less often if slow."""

    async def work() -> float:
        began = time.monotonic()
        await refresh()
        return max(_REFRESH_SECONDS, (time.monotonic() - began) / _MAX_SHARE_OF_TIME)

    await run_periodically(work, _REFRESH_SECONDS, trouble="metrics not refreshed")
