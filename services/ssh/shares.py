"""The share of the sessions that one user may have, by however many keys."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from services.ssh.errors import TurnedAway

SHARE_OF_ONE = 4
"""The part of the sessions that one user, or one key, may have: a quarter."""


class Shares:
    """The sessions that run, by user."""

    def __init__(self, max_sessions: int) -> None:
        self._most = max(1, max_sessions // SHARE_OF_ONE)
        self._running: Counter[str] = Counter()

    @contextmanager
    def taken(self, user_name: str) -> Iterator[None]:
        """Count a session of a user in the context. Raises `TurnedAway` if the user has as many as may be."""
        if self._running[user_name] >= self._most:
            raise TurnedAway(1, "too many sessions over SSH of one user; try again later")
        self._running[user_name] += 1
        try:
            yield
        finally:
            self._running[user_name] -= 1
            if not self._running[user_name]:
                del self._running[user_name]
