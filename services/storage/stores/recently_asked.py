"""Memory of what the stores were asked a moment ago."""

import time
from collections import OrderedDict

# Whoever asks for the same objects again and again does not have the store asked as often.
_PAUSE_SECONDS = 5.0
_MAX_REMEMBERED = 20_000


class RecentlyAsked:
    """The objects of which a store was asked in the last five seconds."""

    def __init__(self) -> None:
        self._asked: OrderedDict[tuple[int, str], float] = OrderedDict()

    def take(self, repository_id: int, oid: str) -> bool:
        """Return whether the store may be asked of an object now; if so, it counts as asked."""
        key, now = (repository_id, oid), time.monotonic()
        if now < self._asked.get(key, -_PAUSE_SECONDS) + _PAUSE_SECONDS:
            return False
        self._asked[key] = now
        self._asked.move_to_end(key)
        if len(self._asked) > _MAX_REMEMBERED:
            self._asked.popitem(last=False)
        return True
