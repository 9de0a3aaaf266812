"""The usage of a repository: what it holds, what it may hold, and how it has grown."""

from typing import NamedTuple

from starlette.responses import Response
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.sizes import decimal_size, is_warned_of
from services.facade.pages.charts import Point, area_chart
from services.facade.pages.rights import authorize_writer
from services.facade.pages.routing import page
from services.facade.pages.visit import Visit
from services.facade.web.request_log import add_log_fields

_DAYS = 90
_LARGEST = 10


class Limit(NamedTuple):
    """A limit of a repository, and how much of it is used."""

    label: str
    used: int
    limit: int

    @property
    def percent(self) -> int:
        """The share that is used."""
        return 100 * self.used // self.limit

    @property
    def is_warned_of(self) -> bool:
        """True if little of it is left."""
        return is_warned_of(self.used, self.limit)


async def show(visit: Visit) -> Response:
    """Show the figures of a repository, its limits, and its growth over 90 days."""
    repository = visit.params["repository"]
    usage = await _usage(visit, repository)
    return visit.page(
        "usage.html",
        repository=repository,
        usage=usage,
        growth=change(usage.growth_bytes),
        limits=limits_of(usage),
        size_chart=area_chart(
            "size", "Size by day", [Point(held.day, held.object_bytes) for held in usage.by_day], decimal_size
        ),
        count_chart=area_chart(
            "count", "Objects by day", [Point(held.day, held.object_count) for held in usage.by_day], "{:,}".format
        ),
    )


def limits_of(usage: pb.RepositoryUsage) -> list[Limit]:
    """Return the limits that a repository has."""
    limits = []
    if usage.HasField("quota_bytes"):
        held = usage.object_bytes + usage.reserved_bytes
        limits.append(Limit("Quota, with what is reserved for uploads", held, usage.quota_bytes))
    if usage.HasField("bandwidth_bytes"):
        moved = usage.bytes_in_today + usage.bytes_out_today
        limits.append(Limit("Bandwidth of today (UTC)", moved, usage.bandwidth_bytes))
    return limits


def change(count: int) -> str:
    """Return a change of a number of bytes, with its sign."""
    if not count:
        return "none"
    return ("-" if count < 0 else "+") + decimal_size(abs(count))


async def _usage(visit: Visit, repository: str) -> pb.RepositoryUsage:
    """Return the usage; an administrator sees that of every repository, as from the command line."""
    clients = visit.context.clients
    if visit.caller.administrator:
        add_log_fields(visit.request.scope, repository=repository)
        listed = await visit.administer(
            clients.admin_stub.ListUsage,
            admin.ListUsageRequest(repository=repository, largest=_LARGEST, days=_DAYS),
        )
        return listed.usage[0].usage
    repository_id = await authorize_writer(visit, repository)
    request = pb.GetUsageRequest(repository_ids=[repository_id], largest=_LARGEST, days=_DAYS)
    reply = await clients.storage.call(clients.storage_stub.GetUsage, request)
    return reply.repositories[0]


ROUTES = (page("page_usage", "/-/usage/{repository}", show),)
