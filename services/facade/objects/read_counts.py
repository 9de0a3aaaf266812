"""Counts of bytes read from the shared disk without asking storage, reported to storage (docs/decisions/0030)."""

import asyncio
import time
from collections import Counter, OrderedDict
from itertools import islice

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import ServiceError
from services.common.observability.logs import get_logger
from services.facade.clients.services import ServiceClients
from services.facade.clients.watch import HOLD_SECONDS

REPORT_SECONDS = 0.4
_MAX_REPOSITORIES = 1000
_LAST_ATTEMPTS = 3

_log = get_logger(__name__)


class ReadCounts:
    """Counts bytes by repository, and caches which repositories have bandwidth left.

    The bytes of a failed report are reported again, and count twice if storage had counted them.
    """

    def __init__(self, clients: ServiceClients) -> None:
        self._clients = clients
        self._unreported: Counter[int] = Counter()
        self._allowed_until: OrderedDict[int, float] = OrderedDict()

    def count(self, repository_id: int, count: int) -> None:
        """Count bytes that were read from a repository."""
        self._unreported[repository_id] += count

    def allow(self, repository_id: int, *, asked_at: float) -> None:
        """Record that a repository had bandwidth left when storage was asked, at `asked_at` (`time.monotonic`)."""
        self._allowed_until[repository_id] = asked_at + HOLD_SECONDS
        self._allowed_until.move_to_end(repository_id)
        if len(self._allowed_until) > _MAX_REPOSITORIES:
            self._allowed_until.popitem(last=False)

    def is_allowed(self, repository_id: int) -> bool:
        """Return whether a repository is known to have had bandwidth left within the last 0.9 seconds."""
        return time.monotonic() < self._allowed_until.get(repository_id, 0.0)

    async def report(self) -> None:
        """Report the counts to storage; counts that could not be reported are retained.

        Raises the errors of StorageService.CountReads.
        """
        while counts := dict(islice(self._unreported.items(), _MAX_REPOSITORIES)):
            for repository_id in counts:
                del self._unreported[repository_id]
            asked_at = time.monotonic()
            request = pb.CountReadsRequest(bytes=counts)
            try:
                reply = await self._clients.storage.call(self._clients.storage_stub.CountReads, request)
            except BaseException:
                self._unreported.update(counts)
                raise
            used_up = set(reply.used_up_repository_ids)
            for repository_id in counts:
                if repository_id in used_up:
                    self._allowed_until.pop(repository_id, None)
                else:
                    self.allow(repository_id, asked_at=asked_at)

    async def report_last(self) -> None:
        """Report the remaining counts when this facade stops; log the loss if storage does not answer."""
        for _ in range(_LAST_ATTEMPTS):
            try:
                await self.report()
            except ServiceError:
                await asyncio.sleep(REPORT_SECONDS)
            else:
                return
        _log.warning("the last reads are not counted, as storage does not answer", bytes=self._unreported.total())
