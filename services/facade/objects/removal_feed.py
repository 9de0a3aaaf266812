"""Removals of objects, after which places that batches have told of are not read unasked (docs/decisions/0030)."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.lifecycle import cancel_and_wait
from services.facade.auth.action_tokens import ObjectLocation
from services.facade.clients.services import ServiceClients
from services.facade.clients.watch import HOLD_SECONDS, WAIT_SECONDS, watch_forever


@asynccontextmanager
async def watch_removals(clients: ServiceClients) -> "AsyncIterator[RemovalFeed]":
    """Learn of all removals until left."""
    removals = RemovalFeed(clients)
    watching = asyncio.create_task(watch_forever(removals.ask, "removals of objects are not known"))
    try:
        yield removals
    finally:
        await cancel_and_wait(watching)


class RemovalFeed:
    """The removals of objects, as far as this facade was told of them."""

    def __init__(self, clients: ServiceClients) -> None:
        self.generation = 0
        """Another number after each removal: what was asked for before it may be wrong."""
        self._clients = clients
        self._server_started = 0
        self._known_since = 0
        self._held_until = -math.inf
        self.is_bandwidth_limited = True
        """Whether repositories may move only so many bytes a day."""

    @property
    def is_current(self) -> bool:
        """Whether all removals are known but those of the last 0.9 seconds."""
        return time.monotonic() < self._held_until

    def allow(self, place: ObjectLocation) -> bool:
        """Tell whether nothing has removed an object, or made its bytes doubtful, since its place was told.

        Removals of the last 0.9 seconds may not be known.
        """
        return (
            place.transaction_id >= self._known_since
            and place.server_started == self._server_started
            and self.is_current
        )

    async def ask(self) -> None:
        """Ask one of the storage services for what there is to know, which may wait for a removal for 0.2 seconds.

        What it answers later than an answer holds is worth nothing. Raises what StorageService.WatchRemovals says.
        """
        request = pb.WatchRemovalsRequest(known_since=self._known_since, wait_seconds=WAIT_SECONDS)
        asked_at = time.monotonic()
        reply = await self._clients.storage.call(
            self._clients.storage_stub.WatchRemovals, request, deadline=HOLD_SECONDS
        )
        # Another storage service may have listened for longer; what either says is true, but only of its own server.
        is_same = reply.server_started == self._server_started
        if not is_same or reply.known_since > self._known_since:
            self.generation += 1
            self._server_started, self._known_since = reply.server_started, reply.known_since
        self.is_bandwidth_limited = reply.is_bandwidth_limited
        self._held_until = asked_at + HOLD_SECONDS
