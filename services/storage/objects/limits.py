"""The limits of repositories, and events of the repositories that use most of their quota."""

import datetime
from collections.abc import Collection, Mapping
from functools import partial

from services.storage.context import StorageContext
from services.storage.index import limits, quota_levels
from services.storage.index.limits import Limits
from services.storage.index.quota_levels import Reached

_MAX_EVENTS = 1000


async def set_limits(
    context: StorageContext, key: str, id_: int, changes: dict[str, int | None]
) -> tuple[Limits, Limits]:
    """Set limits, by their column, of what has this `repository_id`, `user_id` or `group_id`, as `key` says.

    Return the limits as they were and as they are. This process knows them when this returns, and others know them
    within seconds.
    """
    if key == "repository_id":
        work = partial(limits.set_limits, repository_id=id_, changes=changes)
    else:
        work = partial(limits.set_party_quota, key=key, id_=id_, changes=changes)
    changed = await context.database.run(work)
    await context.limits.refresh()
    return changed


async def limited_groups(context: StorageContext) -> list[int]:
    """Return the ids of the groups that have a quota."""
    return await context.database.run(limits.limited_groups)


async def set_group_members(context: StorageContext, group_id: int, user_ids: Collection[int]) -> None:
    """Record who the members of a group with a quota are; their limits are known as those of `set_limits`."""
    await context.database.run(partial(limits.set_group_members, group_id=group_id, user_ids=user_ids))
    await context.limits.refresh()


async def quota_events(context: StorageContext) -> list[Reached]:
    """Return the levels of quotas that nobody was told of, the oldest first."""
    return await context.database.run(partial(quota_levels.untold, limit=_MAX_EVENTS))


async def acknowledge_quota_events(context: StorageContext, told: Mapping[int, datetime.datetime]) -> None:
    """Record that somebody was told of levels, by the repository's id and the time at which they were reached."""
    await context.database.run(partial(quota_levels.mark_told, told=told))
