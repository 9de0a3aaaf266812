"""Synchronisation of all facades' counts of bad credentials, by way of the lock service."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from towpath.access.v1 import access_service_pb2

from services.common.concurrency.periodic import run_periodically
from services.common.lifecycle import cancel_and_wait
from services.facade.auth.login_throttle import LoginRateLimiter
from services.facade.clients.services import ServiceClients
from services.facade.web.error_reasons import invalid_reply

# Bounds how often counts are written, however many clients guess.
_INTERVAL_SECONDS = 1.0


@asynccontextmanager
async def synchronised(login_limiter: LoginRateLimiter, clients: ServiceClients) -> AsyncIterator[LoginRateLimiter]:
    """Share the counts with the other facades within seconds, and take over theirs, until the block ends."""
    sync = run_periodically(
        partial(_sync, login_limiter, clients), _INTERVAL_SECONDS, trouble="failed logins not told to other facades"
    )
    telling = asyncio.create_task(sync)
    try:
        yield login_limiter
    finally:
        await cancel_and_wait(telling)


async def _sync(login_limiter: LoginRateLimiter, clients: ServiceClients) -> None:
    told = await login_limiter.pending()
    debts: Mapping[str, float] = {}
    try:
        if told:
            debts = await _owed(clients, told, login_limiter.seconds_each)
    finally:
        # Counts that could not be shared stay pending; meanwhile this facade limits by its own counts.
        login_limiter.merge(told, debts)


async def _owed(clients: ServiceClients, told: Mapping[str, int], seconds_each: float) -> Mapping[str, float]:
    """Report counts to the lock service; return the resulting debts of their addresses, in seconds."""
    request = access_service_pb2.CountFailedLoginsRequest(seconds_each=seconds_each)
    for address, count in told.items():
        request.failed.add(address=address, count=count)
    reply = await clients.locks.call(clients.access_stub.CountFailedLogins, request)
    if len(reply.debt_seconds) != len(told):
        raise invalid_reply("CountFailedLogins", "the reply lacks addresses")
    return dict(zip(told, reply.debt_seconds, strict=True))
