"""Tasks that outlive the calls that wait for them."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from services.common.lifecycle import cancel_and_wait

Key = TypeVar("Key", bound=Hashable)


class SharedTasks(Generic[Key]):
    """Runs at most one task for each key; whoever starts it again while it runs shares it. Its owner closes it."""

    def __init__(self) -> None:
        self._running: dict[Key, asyncio.Task[None]] = {}

    def start(self, key: Key, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Return the running task of a key, or a new one that does `work`.

        A caller that waits for it with `asyncio.wait` may be cancelled without cancelling the task.
        """
        if (running := self._running.get(key)) is not None:
            return running
        task = self._running[key] = asyncio.create_task(work())
        task.add_done_callback(lambda done: self._ended(key, done))
        return task

    async def close(self) -> None:
        """Cancel the running tasks, and wait until they have ended."""
        await cancel_and_wait(*self._running.values())

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        del self._running[key]
        if not task.cancelled():
            # Retrieve the error, so that asyncio does not log it: a caller that waits for the task receives it.
            task.exception()
