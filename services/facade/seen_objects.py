"""What storage has just said of objects, for others who ask for the same ones (docs/decisions/0025)."""

import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

Said = TypeVar("Said")

Named = tuple[str, int]
"""An object: its oid, and its size in bytes."""

_PERIOD_SECONDS = 0.45
_MOST_OBJECTS = 10_000


class SeenObjects(Generic[Said]):
    """Remembers what was said of objects for two periods of 0.45 seconds at most, from when it was asked for.

    It holds what was asked for in this period and in the one before, of up to 10,000 objects in each.
    """

    def __init__(self) -> None:
        self._period = 0
        self._count = 0
        self._new: dict[Hashable, dict[Named, Said]] = defaultdict(dict)
        self._old: dict[Hashable, dict[Named, Said]] = {}

    def recall(self, asked: Hashable, objects: Sequence[Named]) -> list[Said | None]:
        """Return what was said of objects when they were `asked` for in the same way, None for each that was not."""
        self._turn(time.monotonic())
        new, old = self._new.get(asked, {}), self._old.get(asked, {})
        return [new.get(each) or old.get(each) for each in objects]

    def keep(self, asked: Hashable, said: Iterable[tuple[Named, Said]], *, asked_at: float) -> None:
        """Remember what was said in answer to a question of this moment (`time.monotonic`)."""
        self._turn(time.monotonic())
        if int(asked_at / _PERIOD_SECONDS) == self._period and self._count < _MOST_OBJECTS:
            before = len(self._new[asked])
            self._new[asked].update(said)
            self._count += len(self._new[asked]) - before

    def _turn(self, now: float) -> None:
        period = int(now / _PERIOD_SECONDS)
        if period != self._period:
            self._old = self._new if period == self._period + 1 else {}
            self._new = defaultdict(dict)
            self._period, self._count = period, 0
