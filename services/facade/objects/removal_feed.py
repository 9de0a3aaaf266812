"""Removal feed: a removal ends the use of locations from earlier batches without asking (docs/decisions/0030)."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from towpath.storage.v1 import storage_service_pb2 as pb

from services.facade.auth.action_tokens import ObjectLocation
from services.facade.clients.services import ServiceClients
from services.facade.clients.watch import HOLD_SECONDS, WAIT_SECONDS, Changes, watching


@asynccontextmanager
async def watch_removals(clients: ServiceClients) -> "AsyncIterator[RemovalFeed]":
    """Follow the removal feed until the block ends."""
    removals = RemovalFeed(clients)
    async with watching(removals.ask, "removals of objects are not known"):
        yield removals


class RemovalFeed(Changes):
    """The removals of objects that storage has reported to this facade."""

    def __init__(self, clients: ServiceClients) -> None:
        super().__init__()
        self._clients = clients
        self._server_started = 0
        self._known_since = 0
        self.is_bandwidth_limited = True
        """True unless storage has reported that the daily bytes of repositories are not limited."""

    def allow(self, place: ObjectLocation) -> bool:
        """Return whether an object was neither removed nor reported damaged since its location was read.

        Removals of the last 0.9 seconds may be unknown.
        """
        # First, because it is what makes the facade ask.
        return (
            self.are_known()
            and place.transaction_id >= self._known_since
            and place.server_started == self._server_started
        )

    async def ask(self) -> None:
        """Ask one storage service for removals, while they are used; the service may wait 0.2 seconds for a removal.

        The deadline is `HOLD_SECONDS`, because a later answer is no longer valid. Raises the errors of
        StorageService.WatchRemovals.
        """
        await self.wait_for_use()
        request = pb.WatchRemovalsRequest(known_since=self._known_since, wait_seconds=WAIT_SECONDS)
        asked_at = time.monotonic()
        reply = await self._clients.storage.call(
            self._clients.storage_stub.WatchRemovals, request, deadline=HOLD_SECONDS
        )
        # Another storage service may have listened for longer. Each answer is true, but only of the database server
        # that it names.
        is_same = reply.server_started == self._server_started
        if not is_same or reply.known_since > self._known_since:
            self.generation += 1
            self._server_started, self._known_since = reply.server_started, reply.known_since
        self.is_bandwidth_limited = reply.is_bandwidth_limited
        self.hold(asked_at)
