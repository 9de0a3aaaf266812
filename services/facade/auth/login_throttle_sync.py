"""What one facade counts of bad credentials, told to all of them by way of the lock service."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from towpath.access.v1 import access_service_pb2

from services.common.lifecycle import cancel_and_wait
from services.common.observability.logs import get_logger
from services.facade.auth.login_throttle import LoginRateLimiter
from services.facade.clients.services import ServiceClients
from services.facade.web.error_reasons import invalid_reply

# However many guess, this is how often something is written of it.
_INTERVAL_SECONDS = 1.0

_log = get_logger(__name__)


@asynccontextmanager
async def synchronised(login_limiter: LoginRateLimiter, clients: ServiceClients) -> AsyncIterator[LoginRateLimiter]:
    """Tell the other facades of what is counted within seconds, and take in what they have counted."""
    telling = asyncio.create_task(_sync(login_limiter, clients))
    try:
        yield login_limiter
    finally:
        await cancel_and_wait(telling)


async def _sync(login_limiter: LoginRateLimiter, clients: ServiceClients) -> None:
    while True:
        told = await login_limiter.pending()
        debts: Mapping[str, float] = {}
        if told:
            try:
                debts = await _owed(clients, told, login_limiter.seconds_each)
            except Exception as error:  # whatever it was, this facade counts for itself, and the next time may succeed
                _log.warning("failed logins not told to other facades", error=repr(error))
        login_limiter.merge(told, debts)
        await asyncio.sleep(_INTERVAL_SECONDS)


async def _owed(clients: ServiceClients, told: Mapping[str, int], seconds_each: float) -> Mapping[str, float]:
    """Tell the lock service, and return what these addresses owe then."""
    request = access_service_pb2.CountFailedLoginsRequest(seconds_each=seconds_each)
    for address, count in told.items():
        request.failed.add(address=address, count=count)
    reply = await clients.locks.call(clients.access_stub.CountFailedLogins, request)
    if len(reply.debt_seconds) != len(told):
        raise invalid_reply("CountFailedLogins", "the reply lacks addresses")
    return dict(zip(told, reply.debt_seconds, strict=True))
