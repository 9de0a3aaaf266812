"""Watch for revocations, because a revocation invalidates cached answers about access (docs/decisions/0018)."""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from towpath.access.v1 import access_service_pb2

from services.facade.clients.services import ServiceClients
from services.facade.clients.watch import HOLD_SECONDS, WAIT_SECONDS, Changes, watching
from services.facade.web.error_reasons import invalid_reply

_MAX_SOURCES = 16


class RevocationState(Changes):
    """The revocations that lock services have reported to this facade."""

    def __init__(self) -> None:
        super().__init__()
        self._known: OrderedDict[str, int] = OrderedDict()

    @property
    def known(self) -> Mapping[str, int]:
        """The number of changes that each source has reported."""
        return self._known

    def record(self, source: str, changes: int, *, asked_at: float) -> None:
        """Record the answer of a source to a request that was made at `asked_at` (`time.monotonic`)."""
        if self._known.get(source) != changes:
            self.generation += 1
            self._known[source] = changes
        self._known.move_to_end(source)
        if len(self._known) > _MAX_SOURCES:
            self._known.popitem(last=False)
        self.hold(asked_at)


@asynccontextmanager
async def watch_revocations(clients: ServiceClients) -> AsyncIterator[RevocationState]:
    """Watch for revocations until the block ends."""
    changes = RevocationState()
    async with watching(partial(_ask, changes, clients), "changes of access are not known"):
        yield changes


async def _ask(changes: RevocationState, clients: ServiceClients) -> None:
    """Ask one lock service for changes, while they are used.

    The deadline is `HOLD_SECONDS`, because a later answer is no longer valid.
    """
    await changes.wait_for_use()
    request = access_service_pb2.WatchAccessRequest(known=changes.known, wait_seconds=WAIT_SECONDS)
    asked_at = time.monotonic()
    reply = await clients.locks.call(clients.access_stub.WatchAccess, request, deadline=HOLD_SECONDS)
    if not reply.source:
        raise invalid_reply("WatchAccess", "the reply lacks the source")
    changes.record(reply.source, reply.changes, asked_at=asked_at)
