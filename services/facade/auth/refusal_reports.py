"""Reports of refused requests to the lock service, which explains them later (AdminService.ExplainRequest)."""

from asyncio import Event
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from towpath.access.v1 import access_service_pb2

from services.common.concurrency.periodic import run_periodically
from services.common.lifecycle import running
from services.facade import metrics
from services.facade.clients.services import ServiceClients

REFUSED = (401, 403, 404)
"""The HTTP statuses that are reported."""

Refusal = access_service_pb2.RecordRefusalsRequest.Refusal

_MAX_OF_STRANGERS = _MAX_OF_USERS = 500
_MAX_OF_USER = 100
_MAX_BATCH = 500
_MAX_TEXT = 2_000
_INTERVAL_SECONDS = 1.0


class RefusalReports:
    """The refusals that are not reported yet; those over 500 of strangers, 500 of users and 100 of a user are dropped.

    Dropped refusals are counted. Those of users are reported first.
    """

    def __init__(self) -> None:
        self._of_users: deque[Refusal] = deque()
        self._of_strangers: deque[Refusal] = deque()
        self._by_user: Counter[str] = Counter()
        self._has_pending = Event()

    def add(self, refusal: Refusal) -> None:
        """Report a refusal within seconds; this never fails and never waits."""
        if name := refusal.user_name:
            is_over = len(self._of_users) >= _MAX_OF_USERS or self._by_user[name] >= _MAX_OF_USER
        else:
            is_over = len(self._of_strangers) >= _MAX_OF_STRANGERS
        if is_over:
            metrics.REFUSALS_DROPPED.inc()
            return
        if name:
            self._by_user[name] += 1
            self._of_users.append(refusal)
        else:
            self._of_strangers.append(refusal)
        self._has_pending.set()

    async def next_batch(self) -> list[Refusal]:
        """Wait for refusals, and take some of them; those that cannot be reported then are lost."""
        await self._has_pending.wait()
        pending = self._of_users or self._of_strangers
        batch = [pending.popleft() for _ in range(min(_MAX_BATCH, len(pending)))]
        if not self._of_users:
            self._by_user.clear()
            if not self._of_strangers:
                self._has_pending.clear()
        return batch


def bounded(text: str) -> str:
    """Return the part of a stranger's text that is reported."""
    return text[:_MAX_TEXT].encode("utf-8", errors="replace").decode()


@asynccontextmanager
async def reported_refusals(clients: ServiceClients) -> AsyncIterator[RefusalReports]:
    """Report refusals until the block ends."""
    reports = RefusalReports()
    send = partial(_send, reports, clients)
    async with running(run_periodically(send, _INTERVAL_SECONDS, trouble="refusals are not told to the lock service")):
        yield reports


async def _send(reports: RefusalReports, clients: ServiceClients) -> None:
    request = access_service_pb2.RecordRefusalsRequest(refusals=await reports.next_batch())
    await clients.locks.call(clients.access_stub.RecordRefusals, request)
