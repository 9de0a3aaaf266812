"""The event loop of a test."""

import asyncio
from typing import NoReturn


async def settled() -> None:
    """Return when all that can go on has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def never() -> NoReturn:
    """Wait for ever, as something that hangs; a task that waits for a bare future may be collected as garbage."""
    await asyncio.sleep(3600)
    raise AssertionError("nobody waits so long")
