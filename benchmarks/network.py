"""A simulation of processes that wait for one another: a clock, places where one waits, and disks that flush for many.

What happens is a generator. It yields for how long it works, or what it waits for; the clock brings it on. The same
generators with the same random numbers give the same figures on every machine.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeAlias

Activity: TypeAlias = Generator["float | Place | Disk", None, None]


class Simulation:
    """The clock; `now` has no unit but that of the numbers that activities yield."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Activity]] = []

    def start(self, activity: Activity, *, after: float = 0.0) -> None:
        """Let an activity begin, or go on, after a time."""
        heapq.heappush(self._events, (self.now + after, next(self._order), activity))

    def run(self, is_over: Callable[[], bool]) -> None:
        """Let time pass until it is over, or nothing happens any more."""
        while self._events and not is_over():
            self.now, _, activity = heapq.heappop(self._events)
            wanted = next(activity, None)
            if isinstance(wanted, float):
                self.start(activity, after=wanted)
            elif wanted is not None:
                wanted.join(activity)


class Place:
    """A resource of several units; activities that find none free wait in the order in which they came."""

    def __init__(self, simulation: Simulation, many: int = 1) -> None:
        self._simulation = simulation
        self._free = many
        self._waiting: deque[Activity] = deque()
        self.busy = 0.0
        """For how long activities have worked here, together."""

    def join(self, activity: Activity) -> None:
        """Let an activity go on when it has a part of this."""
        if self._free:
            self._free -= 1
            self._simulation.start(activity)
        else:
            self._waiting.append(activity)

    def leave(self) -> None:
        """Give the part of an activity to the next."""
        if self._waiting:
            self._simulation.start(self._waiting.popleft())
        else:
            self._free += 1

    def work(self, seconds: float) -> Activity:
        """Wait for a part of this, have it for so long, and give it on."""
        yield self
        yield seconds
        self.busy += seconds
        self.leave()


class Disk:
    """A disk on which one flush serves all activities that wait when it begins, like a group commit of Postgres."""

    def __init__(self, simulation: Simulation, seconds: float) -> None:
        self._simulation = simulation
        self._seconds = seconds
        self._waiting: list[Activity] = []
        self._flushing = False

    def join(self, activity: Activity) -> None:
        """Let an activity go on after the first flush that begins from now on."""
        self._waiting.append(activity)
        if not self._flushing:
            self._flushing = True
            self._simulation.start(self._flush())

    def _flush(self) -> Activity:
        while self._waiting:
            done, self._waiting = self._waiting, []
            yield self._seconds
            for activity in done:
                self._simulation.start(activity)
        self._flushing = False
