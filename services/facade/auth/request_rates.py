"""Limits of the requests of users and tokens (docs/protocol.md, "Rates of requests")."""

import math

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
            raise _refusal(holder, seconds)
        if holder.limit:
            taken.append(holder)


def _refusal(holder: Holder, seconds: float) -> ResourceExhausted:
    what = "token" if holder.is_token else "user"
    metrics.RATE_REFUSALS.labels(what).inc()
    retry_after = max(1, min(math.ceil(seconds), _MAX_RETRY_SECONDS))
    rate = format_request_rate(holder.limit)
    message = f"too many requests: your {what} may make {rate}; try again in {retry_after} s"
    return ResourceExhausted(Reason.RATE_LIMITED, message, retry_after=str(retry_after))
