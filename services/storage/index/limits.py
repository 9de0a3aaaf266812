"""SQL of limits. Each function runs in the transaction of its connection."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import delete, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.index.models import StorageModel
from services.storage.index.quota_models import GroupLimits, RepositoryLimits


class Limits(NamedTuple):
    """Limits in bytes: None for the default of the settings, 0 for no limit."""

    quota: int | None = None
    """The bytes that a repository may hold, or that a user may bring."""
    bandwidth: int | None = None
    """The bytes that a repository may move on one UTC day."""


class AllLimits(NamedTuple):
    """The limits of all repositories, and the quotas of all users, that have limits of their own."""

    repositories: Mapping[int, Limits]
    users: Mapping[int, int]
    """The quota of a user, or the highest of the user's groups; 0 for any number."""


_COLUMNS = (col(RepositoryLimits.quota_bytes), col(RepositoryLimits.bandwidth_bytes))

_TABLES = StorageModel.metadata.tables
_PARTIES = {"user_id": _TABLES["storage.user_limits"], "group_id": _TABLES["storage.group_limits"]}

_USERS = text("""
    SELECT user_id, coalesce(own.quota_bytes, of_groups.quota_bytes)
    FROM storage.user_limits AS own
    FULL JOIN (
        SELECT user_id, CASE WHEN bool_or(quota_bytes = 0) THEN 0 ELSE max(quota_bytes) END AS quota_bytes
        FROM storage.limited_group_members JOIN storage.group_limits USING (group_id) GROUP BY 1
    ) AS of_groups USING (user_id)
""")
_SET_MEMBERS = text("""
    WITH gone AS (
        DELETE FROM storage.limited_group_members
        WHERE group_id = :group_id AND user_id <> ALL (CAST(:user_ids AS bigint[]))
    )
    INSERT INTO storage.limited_group_members (group_id, user_id)
    SELECT group_id, unnest(CAST(:user_ids AS bigint[])) FROM storage.group_limits WHERE group_id = :group_id
    ON CONFLICT DO NOTHING
""")


async def all_limits(connection: AsyncConnection) -> AllLimits:
    """Return all limits, except for the defaults of the settings."""
    repositories = await connection.execute(select(col(RepositoryLimits.repository_id), *_COLUMNS))
    users = await connection.execute(_USERS)
    return AllLimits({row[0]: Limits(row[1], row[2]) for row in repositories}, {row[0]: row[1] for row in users})


async def set_limits(
    connection: AsyncConnection, repository_id: int, changes: dict[str, int | None]
) -> tuple[Limits, Limits]:
    """Set those limits of a repository that `changes` has by their column; return them as they were and as they are."""
    new = postgresql.insert(RepositoryLimits).values(repository_id=repository_id)
    await connection.execute(new.on_conflict_do_nothing())
    ours = col(RepositoryLimits.repository_id) == repository_id
    before = Limits(*(await connection.execute(select(*_COLUMNS).where(ours).with_for_update())).one())
    if changes:
        await connection.execute(update(RepositoryLimits).where(ours).values(**changes))
    return before, Limits(*(await connection.execute(select(*_COLUMNS).where(ours))).one())


async def set_party_quota(
    connection: AsyncConnection, key: str, id_: int, changes: Mapping[str, int | None]
) -> tuple[Limits, Limits]:
    """Set the quota of a user or a group, as `key` says, if `changes` has one; return it as it was and as it is.

    None is for no quota of its own.
    """
    table = _PARTIES[key]
    ours = table.c[key] == id_
    before = Limits(await connection.scalar(select(table.c.quota_bytes).where(ours).with_for_update()))
    if "quota_bytes" not in changes:
        return before, before
    quota = changes["quota_bytes"]
    if quota is None:
        await connection.execute(delete(table).where(ours))
    else:
        new = postgresql.insert(table).values({key: id_, "quota_bytes": quota})
        await connection.execute(new.on_conflict_do_update(index_elements=[key], set_={"quota_bytes": quota}))
    return before, Limits(quota)


async def limited_groups(connection: AsyncConnection) -> list[int]:
    """Return the ids of the groups that have a quota, in ascending order."""
    return list(await connection.scalars(select(col(GroupLimits.group_id)).order_by(col(GroupLimits.group_id))))


async def set_group_members(connection: AsyncConnection, group_id: int, user_ids: Collection[int]) -> None:
    """Record who the members of a group are; nothing is recorded of a group without a quota."""
    await connection.execute(_SET_MEMBERS, {"group_id": group_id, "user_ids": sorted(set(user_ids))})
