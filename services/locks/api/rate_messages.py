"""Conversions of the messages about rates of requests."""

from collections.abc import Mapping

from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, Reason
from services.common.request_rate import MAX_PER_HOUR
from services.locks.access.gcra import Demand
from services.locks.access.request_rates import Holder

_MAX_HOLDERS = 1_000
_MAX_REQUESTS = 1_000_000


def limit_of(rate: admin.RequestRate) -> int | None:
    """Return the limit that a field `rate` sets; None for none of its own. Raises `InvalidArgument`."""
    if not rate.HasField("requests_per_hour"):
        return None
    if not 0 <= rate.requests_per_hour <= MAX_PER_HOUR:
        raise InvalidArgument(Reason.INVALID_FIELD, f"rate: expected 0 to {MAX_PER_HOUR:,} requests per hour")
    return rate.requests_per_hour


def changed_limit_of(
    request: admin.UpdateUserRequest | admin.UpdateTokenRequest | admin.UpdateGroupRequest,
) -> int | None:
    """Return the limit that a change sets, as `limit_of` does. Raises `InvalidArgument` for a request without one."""
    if not request.HasField("rate"):
        raise InvalidArgument(Reason.INVALID_FIELD, "rate: expected a rate, because nothing else can be changed")
    return limit_of(request.rate)


def demands_of(request: access.TakeRateRequest) -> Mapping[Holder, Demand]:
    """Return the holders of a request in its order, each with its demand. Raises `InvalidArgument`."""
    if not 0 < len(request.holders) <= _MAX_HOLDERS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"holders: expected 1 to {_MAX_HOLDERS}")
    demands: dict[Holder, Demand] = {}
    for asked in request.holders:
        if asked.id <= 0:
            raise InvalidArgument(Reason.INVALID_FIELD, "id: expected the id of a user or a token")
        if not 0 < asked.requests_per_hour <= MAX_PER_HOUR:
            raise InvalidArgument(Reason.INVALID_FIELD, f"requests_per_hour: expected 1 to {MAX_PER_HOUR}")
        for field in ("needed", "ahead"):
            if not 0 <= getattr(asked, field) <= _MAX_REQUESTS:
                raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected 0 to {_MAX_REQUESTS}")
        holder = Holder(asked.is_token, asked.id, asked.requests_per_hour)
        demands[holder] = Demand(asked.needed, asked.ahead)
    if len(demands) != len(request.holders):
        raise InvalidArgument(Reason.INVALID_FIELD, "holders: expected each of them, with a limit, once")
    return demands
