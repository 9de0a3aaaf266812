"""The usage of repositories, held objects and traffic, for callers and for the metrics."""

import datetime
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import ARRAY, BigInteger, any_, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage import metrics
from services.storage.capacity.quota import Transferred, today
from services.storage.context import StorageContext
from services.storage.index import bins, object_lists, usage
from services.storage.index.models import Object
from services.storage.index.object_lists import ListedObject, ObjectOrder, ObjectState
from services.storage.index.reservations import reserved_bytes
from services.storage.index.usage import DayUsage, Used

GROWTH_DAYS = 30


@dataclass(frozen=True)
class Holdings:
    """The number of objects that a repository holds, their bytes, its tombstones, and what its bin keeps of them."""

    object_count: int = 0
    object_bytes: int = 0
    removed_count: int = 0
    bin_count: int = 0
    bin_bytes: int = 0


@dataclass(frozen=True)
class RepositoryUsage:
    """Usage of a repository, held and transferred today, and its limits; None for no limit."""

    held: Holdings
    moved: Transferred
    quota: int | None
    bandwidth: int | None
    reserved_bytes: int
    growth_bytes: int
    """The bytes that it holds more than `GROWTH_DAYS` ago."""
    largest: Sequence[ListedObject] = field(default=())
    by_day: Sequence[DayUsage] = field(default=())
    """The usage at the end of each of the last days, today as of now."""


async def usage_of(
    context: StorageContext, repository_ids: Sequence[int], *, largest: int = 0, days: int = 0
) -> list[RepositoryUsage]:
    """Return the usage of each of the repositories, in order.

    Each has as many of its largest objects, and what it held at the end of as many days.
    """
    now = today()
    before = now - datetime.timedelta(days=GROWTH_DAYS)
    first = now - datetime.timedelta(days=days - 1)

    async def work(
        connection: AsyncConnection,
    ) -> tuple[dict[int, Holdings], dict[int, int], dict[int, int], list[list[ListedObject]], list[list[DayUsage]]]:
        return (
            await _holdings(connection, repository_ids),
            await reserved_bytes(connection, repository_ids),
            await usage.bytes_at(connection, repository_ids, before),
            [await _largest(connection, id_, limit=largest) for id_ in repository_ids if largest],
            [await usage.recorded_days(connection, id_, first) for id_ in repository_ids if days],
        )

    holdings, reserved, earlier, found, recorded = await context.database.run(work)
    moved = await context.quota.transferred_today(repository_ids)
    return [
        RepositoryUsage(
            held=(held := holdings.get(id_, Holdings())),
            moved=moved.get(id_, Transferred()),
            quota=context.limits.quota_of(id_),
            bandwidth=context.limits.bandwidth_of(id_),
            reserved_bytes=reserved.get(id_, 0),
            growth_bytes=held.object_bytes - earlier.get(id_, 0),
            largest=found[number] if found else (),
            by_day=by_day(recorded[number], first, DayUsage(now, held.object_count, held.object_bytes))
            if recorded
            else (),
        )
        for number, id_ in enumerate(repository_ids)
    ]


def by_day(recorded: Sequence[DayUsage], first: datetime.date, current: DayUsage) -> list[DayUsage]:
    """Return what was held at the end of each day from `first` on, the last of which is `current`.

    A day that is not recorded ended like the day before.
    """
    known = {entry.day: entry for entry in recorded}
    last = next((entry for entry in reversed(recorded) if entry.day <= first), DayUsage(first, 0, 0))
    found = []
    for number in range((current.day - first).days):
        day = first + datetime.timedelta(days=number)
        last = known.get(day, last)._replace(day=day)
        found.append(last)
    return [*found, current]


async def _largest(connection: AsyncConnection, repository_id: int, *, limit: int) -> list[ListedObject]:
    return await object_lists.page(
        connection, repository_id, order=ObjectOrder.LARGEST, state=ObjectState.HELD, after=None, limit=limit
    )


async def user_usage_of(context: StorageContext, user_ids: Sequence[int]) -> list[tuple[Used, int | None]]:
    """Return what each of the users has brought, and the user's quota, None for any number, in order."""
    used = await context.database.run(partial(usage.used_by_users, user_ids=user_ids))
    return [(used.get(id_, Used()), context.limits.user_quota_of(id_)) for id_ in user_ids]


async def _holdings(connection: AsyncConnection, repository_ids: Sequence[int]) -> dict[int, Holdings]:
    # Held objects are counted already, and the index of removed ones has those that are left to count.
    in_bin = col(Object.bin_until).is_not(None)
    statement = (
        select(
            col(Object.repository_id),
            func.count(),
            func.count().filter(in_bin),
            func.coalesce(func.sum(col(Object.size)).filter(in_bin), 0),
        )
        .where(col(Object.repository_id) == any_(cast(list(repository_ids), ARRAY(BigInteger))))
        .where(col(Object.removed_at).is_not(None))
        .group_by(col(Object.repository_id))
    )
    removed = {row[0]: (row[1], row[2], int(row[3])) for row in await connection.execute(statement)}
    used = await usage.used_by_repositories(connection, repository_ids)
    return {id_: Holdings(*used.get(id_, Used()), *removed.get(id_, (0, 0, 0))) for id_ in used.keys() | removed}


async def refresh_sizes(context: StorageContext) -> None:
    """Refresh the metrics of usage and free space. Raises what the database and the backend raise."""
    available = await context.space.available_bytes()
    metrics.AVAILABLE_BYTES.replace({} if available is None else {(): available})
    held, in_bins = await context.database.run(_sizes)
    ids = held.keys() | in_bins
    metrics.REPOSITORY_OBJECTS.replace({(str(id_),): held.get(id_, Used()).object_count for id_ in ids})
    metrics.REPOSITORY_BYTES.replace({(str(id_),): held.get(id_, Used()).object_bytes for id_ in ids})
    metrics.REPOSITORY_BIN_BYTES.replace({(str(id_),): in_bins.get(id_, 0) for id_ in ids})
    await _refresh_limits(context, ids)


async def _sizes(connection: AsyncConnection) -> tuple[dict[int, Used], dict[int, int]]:
    return await usage.used_by_all_repositories(connection), await bins.bytes_in_bins(connection)


async def _refresh_limits(context: StorageContext, repository_ids: Collection[int]) -> None:
    limits = context.limits
    quotas = {id_: quota for id_ in repository_ids if (quota := limits.quota_of(id_)) is not None}
    bandwidths = {id_: bandwidth for id_ in repository_ids if (bandwidth := limits.bandwidth_of(id_)) is not None}
    reserved = await context.database.run(partial(reserved_bytes, repository_ids=list(quotas))) if quotas else {}
    moved = await context.quota.transferred_today(bandwidths) if bandwidths else {}
    metrics.REPOSITORY_QUOTA.replace({(str(id_),): quota for id_, quota in quotas.items()})
    metrics.REPOSITORY_RESERVED.replace({(str(id_),): reserved.get(id_, 0) for id_ in quotas})
    metrics.REPOSITORY_BANDWIDTH.replace({(str(id_),): bandwidth for id_, bandwidth in bandwidths.items()})
    metrics.REPOSITORY_MOVED.replace({(str(id_),): moved.get(id_, Transferred()).total for id_ in bandwidths})
