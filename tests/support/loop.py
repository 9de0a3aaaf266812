"""The event loop of a test."""

import asyncio


async def settled() -> None:
    """Return when all that can go on has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)
