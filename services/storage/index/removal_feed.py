"""The removal feed: removals of objects, and damage to blobs, heard as they are committed (docs/decisions/0030)."""

from typing import NamedTuple

from services.common.errors import Unavailable
from services.database.notifications import Listening, Notifications, Poll, Source
from services.storage.index.schema import SCHEMA

SOURCE = Source(
    SCHEMA.name,
    # The triggers of migration 0004 notify this channel.
    channel="towpath_object_removed",
    trigger="object_removed",
    tables=("objects", "contents"),
    subject="removals",
    columns=(
        "(1000000 * extract(epoch FROM pg_postmaster_start_time()))::bigint",
        "pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
        "pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
    ),
)


# While a transaction from before the last removal goes on, no reported location is valid, so that the feed looks again.
_SETTLING_SECONDS = 0.1


class Moment(NamedTuple):
    """A moment among the transactions of a database server."""

    server_started: int
    """The start of the server, in microseconds since 1970: transaction ids of different starts are not comparable."""
    transaction_id: int


class _Heard:
    """The removals that one connection has heard of."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self.latest: Moment | None = None
        """A moment before which all transactions have ended."""
        self.known_since = 0
        """The first transaction since which all removals are known; earlier transactions may have removed anything."""
        self._counted = -1

    @property
    def is_settled(self) -> bool:
        """True if locations that are reported now are valid: the transactions of before `known_since` have ended."""
        return self.latest is not None and self.latest.transaction_id >= self.known_since

    @property
    def is_changed(self) -> bool:
        """True if a removal was heard that `known_since` does not cover yet."""
        return self.listening.changes != self._counted

    def take(self, look: Poll) -> Moment:
        """Take in the result of a poll; return the moment since which all removals are known."""
        server_started, oldest, following = look.values
        if self.is_changed:
            # The first poll counts as a change because nothing was heard before it. A removal heard during a poll may
            # be later than `following`, so it counts as a change for the next poll.
            self.known_since = max(self.known_since, following)
            self._counted = max(self._counted, look.changes)
        self.latest = Moment(server_started, oldest)
        return Moment(server_started, self.known_since)


class RemovalFeed:
    """Reports the moment from which on a facade may read at reported locations without asking."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        self._heard: _Heard | None = None

    def moment(self) -> Moment | None:
        """Return a past moment, to be reported with what is read from now on; None if removals are not heard.

        A caller that reads the index after this call sees all transactions before that moment.
        """
        try:
            return self._current().latest
        except Unavailable:
            return None

    async def watch(self, known_since: int, wait_seconds: float) -> Moment:
        """Return the moment since which reported locations are still valid; see StorageService.WatchRemovals.

        If that moment is no later than `known_since`, wait for a removal, at most for `wait_seconds`. Raises
        `Unavailable` if removals are not heard.
        """
        heard = self._current()
        if not heard.is_changed and heard.known_since <= known_since:
            await heard.listening.wait(wait_seconds if heard.is_settled else min(wait_seconds, _SETTLING_SECONDS))
        return heard.take(await heard.listening.sync())

    def _current(self) -> _Heard:
        listening = self._notifications.listening
        if self._heard is None or self._heard.listening is not listening:
            self._heard = _Heard(listening)
        return self._heard
