"""Waiting for what other processes do, where nothing tells when it is done."""

import asyncio
import time
from collections.abc import Callable

_PAUSE = 0.02


async def until(condition: Callable[[], object], what: str, *, seconds: float = 30) -> None:
    """Wait until a condition holds; fail, saying `what` was waited for, when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(_PAUSE)
