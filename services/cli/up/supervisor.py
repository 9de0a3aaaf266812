"""Supervisor of child processes: it runs them until a stop or until a child is given up, and stops them in order."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from services.cli.errors import CommandError
from services.cli.up.child import Child, Program


class Supervisor:
    """The children of `towpath up`, in tiers: a later tier needs the earlier tiers, and is stopped first.

    Create it in the running event loop.
    """

    def __init__(self) -> None:
        self._tiers: list[tuple[float, list[Child]]] = []
        self._given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, *programs: Program, stop_seconds: float) -> list[Child]:
        """Start a tier of children; `stop` kills the children that still run `stop_seconds` after its call."""
        tier = [Child(program) for program in programs]
        for child in tier:
            child.ended.add_done_callback(self._note)
        self._tiers.append((stop_seconds, tier))
        return tier

    def _note(self, ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and (error := ended.exception()) and not self._given_up.done():
            self._given_up.set_exception(error)

    async def run(self, starting: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
        """Await `starting`, which calls `start`, and then `stop`; return early if `stop` is set meanwhile.

        Raises the error of `starting`, or the error of a child that is given up.
        """
        start = asyncio.create_task(starting)
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((start, stopped, self._given_up), return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                start.result()
                await asyncio.wait((stopped, self._given_up), return_when=asyncio.FIRST_COMPLETED)
            if self._given_up.done():
                self._given_up.result()
        finally:
            for task in (start, stopped):
                task.cancel()
                with suppress(asyncio.CancelledError, CommandError):
                    await task

    async def stop(self) -> None:
        """Stop all children, the tier that was started last first."""
        if not self._given_up.cancel():
            # Retrieve the error, because asyncio logs an unretrieved one: `run` may have raised another error.
            self._given_up.exception()
        started = time.monotonic()
        for seconds, tier in reversed(self._tiers):
            await asyncio.gather(*(child.stop(started + seconds) for child in tier))
