"""Figures that cost too much to be found out at each scrape."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from services.common.observability.logs import get_logger

_INTERVAL_SECONDS = 15.0
# What takes long is done the more seldom: at most so much of the time goes into it.
_MAX_SHARE_OF_TIME = 0.05

_log = get_logger(__name__)


async def keep_refreshed(refresh: Callable[[], Awaitable[None]]) -> None:
    """Refresh at once and then about every 15 s, for ever; what fails is logged and tried again the next time."""
    while True:
        began = time.monotonic()
        try:
            await refresh()
        except Exception as error:  # whatever it was, the figures before it stay
            _log.warning("metrics not refreshed", error=repr(error))
        await asyncio.sleep(max(_INTERVAL_SECONDS, (time.monotonic() - began) / _MAX_SHARE_OF_TIME))
