"""Limits of the requests of users, tokens and strangers (docs/protocol.md, "Rates of requests")."""

import math

from services.common.address_rates import AddressRates
from services.common.errors import Reason, ResourceExhausted
from services.common.request_rate import format_request_rate
from services.facade import metrics
from services.facade.auth.caller import Caller
from services.facade.clients.rate_leases import Holder, RateLeases

_MAX_RETRY_SECONDS = 300


async def check_rate(leases: RateLeases, caller: Caller) -> None:
    """Take one request from the rates of a caller and of the token.

    Raises `ResourceExhausted` (RATE_LIMITED) where one of them is used up; then nothing is taken.
    """
    # The token first: a program that goes on and on with it takes nothing from its user then.
    limits = (
        Holder(is_token=True, id=caller.token_id, limit=caller.token_requests_per_hour),
        Holder(is_token=False, id=caller.user_id, limit=caller.requests_per_hour),
    )
    taken: list[Holder] = []
    for holder in limits:
        if holder.limit and (seconds := await leases.take(holder)):
            for other in taken:
                leases.give_back(other)
            raise _refusal("token" if holder.is_token else "user", format_request_rate(holder.limit), seconds)
        if holder.limit:
            taken.append(holder)


def rates_of_strangers(per_hour: int) -> AddressRates:
    """Return rates of requests without credentials: those of a minute, and at least ten, at once; 0 for no limit."""
    interval = 3_600.0 / per_hour if per_hour else 0.0
    return AddressRates(interval=interval, burst=max(per_hour / 60, 10))


def check_stranger(rates: AddressRates, per_hour: int, network: str | None) -> None:
    """Take one request without credentials from the rate of its address, if it is known.

    Raises `ResourceExhausted` (RATE_LIMITED) where the rate is used up.
    """
    if network and (seconds := rates.take(network)):
        raise _refusal("address", f"{format_request_rate(per_hour)} without credentials", seconds)


def _refusal(what: str, rate: str, seconds: float) -> ResourceExhausted:
    metrics.RATE_REFUSALS.labels(what).inc()
    retry_after = max(1, min(math.ceil(seconds), _MAX_RETRY_SECONDS))
    message = f"too many requests: your {what} may make {rate}; try again in {retry_after} s"
    return ResourceExhausted(Reason.RATE_LIMITED, message, retry_after=str(retry_after))
