"""An event loop whose time passes only while nothing else can go on, so that what waits is decided by no machine."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")
Clock = Callable[[], float]


class _Selector(selectors.SelectSelector):
    """A selector that moves the time on instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, or end the wait at once."""
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everything waits for something that never comes"
            self.now += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    """A loop with the time of its selector."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the seconds that have passed in this loop."""
        return self._virtual.now


def run_in_virtual_time(work: Callable[[Clock], Awaitable[Result]]) -> Result:
    """Run `work`, called with the clock of its loop, to its end."""

    async def run() -> Result:
        return await work(asyncio.get_running_loop().time)

    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(run())
