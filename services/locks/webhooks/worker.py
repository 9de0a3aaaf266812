"""Background work of the lock service that delivers events to webhooks.

Every replica runs it, and each delivery is attempted by the one that has claimed it. No transaction is open while a
receiver answers.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from services.common.concurrency.periodic import run_periodically
from services.common.concurrency.uncancellable import run_to_completion
from services.common.lifecycle import cancel_and_wait, running
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.locks.metrics import WEBHOOK_DELIVERIES
from services.locks.webhooks import deliveries
from services.locks.webhooks.deliveries import Claim
from services.locks.webhooks.formats import message_id, render
from services.locks.webhooks.sender import GONE, Message, Outcome, Sender

_ANSWER_SECONDS = 10.0
# Longer than an attempt and the recording of its outcome during an outage of Postgres.
_LEASE = timedelta(seconds=60)
_POLL_SECONDS = 1.0
_MAX_CONCURRENCY = 64
# A slow receiver holds up few of the attempts that can be under way.
_MAX_PER_HOOK = 4
_MAX_DUE = _MAX_CONCURRENCY * _MAX_PER_HOOK
_KEEP = timedelta(days=30)
_RESULTS = ("delivered", "failed", "given_up", "gone")
_PRUNE_SECONDS = 3600.0

_log = get_logger(__name__)


@dataclass(frozen=True)
class Retries:
    """The times of further attempts: pauses that double, varied by `jitter`, until `window` ends."""

    first: timedelta = timedelta(seconds=5)
    longest: timedelta = timedelta(hours=4)
    window: timedelta = timedelta(hours=24)
    jitter: float = 0.2

    def pause(self, attempts: int, asked: timedelta = timedelta()) -> timedelta:
        """Return the pause after this many attempts, at least that for which the receiver asks."""
        doubled = self.first * (1 << min(attempts - 1, 32))
        varied = min(doubled, self.longest) * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - no secret
        return max(varied, min(asked, self.window))


class Worker:
    """Delivers what is due, and deletes what was delivered long ago."""

    def __init__(self, database: Database, *, retries: Retries, drain_seconds: float) -> None:
        self._database = database
        self._retries = retries
        self._drain_seconds = drain_seconds
        self._sender = Sender(answer_seconds=_ANSWER_SECONDS, max_concurrency=_MAX_CONCURRENCY)
        self._under_way: dict[asyncio.Task[None], int] = {}
        """The attempts that are being made, and their hooks."""
        self._wake = asyncio.Event()
        # A series that began with its first failure would have no increase, and raise no alert.
        for result in _RESULTS:
            WEBHOOK_DELIVERIES.labels(result)

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set; let attempts end for `drain_seconds` then.

        An attempt that is cut off is repeated after its lease, by any replica and with the same id.
        """
        trouble = "webhooks are not delivered"
        try:
            async with (
                running(run_periodically(self._start_due, _POLL_SECONDS, trouble=trouble, wake=self._wake.wait)),
                running(run_periodically(self._prune, _PRUNE_SECONDS, trouble="deliveries are not pruned")),
            ):
                await stop.wait()
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=self._drain_seconds)
        finally:
            await cancel_and_wait(*self._under_way)
            self._sender.close()

    async def _start_due(self) -> None:
        self._wake.clear()
        # A claim whose answer got lost would only be attempted after the lease.
        await run_to_completion(self._claim_and_start())

    async def _claim_and_start(self) -> None:
        for claim in await self._claim():
            attempt = asyncio.create_task(self._attempt(claim))
            self._under_way[attempt] = claim.hook_id
            attempt.add_done_callback(self._ended)

    def _ended(self, attempt: asyncio.Task[None]) -> None:
        del self._under_way[attempt]
        # The next delivery of the same hook and repository may be due.
        self._wake.set()

    async def _claim(self) -> Sequence[Claim]:
        free = _MAX_CONCURRENCY - len(self._under_way)
        if free <= 0:
            return ()
        counts = Counter(self._under_way.values())
        busy = [hook_id for hook_id, count in counts.items() if count >= _MAX_PER_HOOK]
        # Bypasses `Database.run`, which would make the service not ready if only this found the database in trouble.
        async with self._database.engine.begin() as connection:
            due = await deliveries.list_due(connection, per_hook=_MAX_PER_HOOK, busy=busy, limit=_MAX_DUE)
            chosen: list[int] = []
            for id_, hook_id in due:
                counts[hook_id] += 1
                if counts[hook_id] <= _MAX_PER_HOOK:
                    chosen.append(id_)
            return await deliveries.claim(connection, chosen[:free], _LEASE) if chosen else ()

    async def _attempt(self, claim: Claim) -> None:
        """Attempt a delivery and record the outcome. A failure to record it is logged, and the lease ends the claim."""
        try:
            if claim.disabled:
                await self._database.run(partial(deliveries.record_disabled, claim=claim))
                return
            message = Message(
                id=message_id(claim.message_uuid),
                body=render(claim.format, claim.event_type, claim.repository_id, claim.payload),
                url=claim.url,
                secret=claim.secret,
                allows_private=claim.allows_private,
            )
            await self._record(claim, await self._sender.send(message))
        except Exception:  # another delivery must not suffer from this one
            _log.exception("delivery not recorded", hook_id=claim.hook_id, delivery_id=claim.id)

    async def _record(self, claim: Claim, outcome: Outcome) -> None:
        """Record the outcome of an attempt, count it and log it."""
        status, problem, _ = outcome
        if status is not None and not problem:
            result = "delivered"
            await self._database.run(partial(deliveries.record_delivered, claim=claim, status=status))
        elif status == GONE:
            result = "gone"
            await self._database.run(partial(deliveries.record_gone, claim=claim, status=status, because=problem))
        else:
            given_up = await self._database.run(
                partial(
                    deliveries.record_failed,
                    claim=claim,
                    status=status,
                    problem=problem,
                    pause=self._retries.pause(claim.attempts, outcome.pause),
                    window=self._retries.window,
                )
            )
            result = "given_up" if given_up else "failed"
        WEBHOOK_DELIVERIES.labels(result).inc()
        if problem:
            _log.warning("delivery failed", hook_id=claim.hook_id, delivery_id=claim.id, result=result, problem=problem)

    async def _prune(self) -> float | None:
        more = await self._database.run(partial(deliveries.prune, keep=_KEEP), patient=False)
        return 0.0 if more else None
