"""What one facade counts of bad credentials, told to all of them by way of the lock service."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from towpath.access.v1 import access_service_pb2

from services.common.lifecycle import end
from services.common.observability.logs import get_logger
from services.facade.auth.login_throttle import FailedLogins
from services.facade.clients.services import Peers
from services.facade.web.error_reasons import invalid_reply

# However many guess, this is how often something is written of it.
_INTERVAL_SECONDS = 1.0

_log = get_logger(__name__)


@asynccontextmanager
async def told_to_all(failed_logins: FailedLogins, peers: Peers) -> AsyncIterator[FailedLogins]:
    """Tell the other facades of what is counted within seconds, and take in what they have counted."""
    telling = asyncio.create_task(_tell(failed_logins, peers))
    try:
        yield failed_logins
    finally:
        await end(telling)


async def _tell(failed_logins: FailedLogins, peers: Peers) -> None:
    while True:
        told = await failed_logins.untold()
        debts: Mapping[str, float] = {}
        if told:
            try:
                debts = await _owed(peers, told, failed_logins.seconds_each)
            except Exception as error:  # whatever it was, this facade counts for itself, and the next time may succeed
                _log.warning("failed logins not told to other facades", error=repr(error))
        failed_logins.settle(told, debts)
        await asyncio.sleep(_INTERVAL_SECONDS)


async def _owed(peers: Peers, told: Mapping[str, int], seconds_each: float) -> Mapping[str, float]:
    """Tell the lock service, and return what these addresses owe then."""
    request = access_service_pb2.CountFailedLoginsRequest(seconds_each=seconds_each)
    for address, count in told.items():
        request.failed.add(address=address, count=count)
    reply = await peers.locks.call(peers.access_stub.CountFailedLogins, request)
    if len(reply.debt_seconds) != len(told):
        raise invalid_reply("CountFailedLogins", "the reply lacks addresses")
    return dict(zip(told, reply.debt_seconds, strict=True))
