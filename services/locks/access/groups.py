"""Groups: sets of users with grants of their own."""

from collections.abc import Sequence

from sqlalchemy import Select, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason
from services.locks.access.users import check_origin
from services.locks.look_alikes import already_exists_message, find_look_alike
from services.locks.models import Group, GroupMember, User

_GROUP = Group.__table__.c
_USER = User.__table__.c
_MAX_USERS = 1_000


async def create_group(connection: AsyncConnection, name: str, limit: int | None = None) -> Group:
    """Add a group. Raises `AlreadyExists` (GROUP_EXISTS), also if an existing name differs only in case."""
    if found := await find_look_alike(connection, col(Group.name), name):
        raise AlreadyExists(Reason.GROUP_EXISTS, f"name: {already_exists_message('group', name, found)}")
    row = (
        (await connection.execute(insert(Group).values(name=name, requests_per_hour=limit).returning(*_GROUP)))
        .mappings()
        .one()
    )
    return Group(**row)


async def find_group(connection: AsyncConnection, name: str, *, hold: bool = False) -> Group:
    """Return the group of that name; with `hold`, bar others from removing it before the transaction ends.

    Raises `NotFound` (GROUP_NOT_FOUND).
    """
    statement = select(*_GROUP).where(col(Group.name) == name)
    if hold:
        statement = statement.with_for_update(key_share=True)
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        raise NotFound(Reason.GROUP_NOT_FOUND, f"there is no group {name}")
    return Group(**row)


async def list_groups(connection: AsyncConnection, *, after: str, limit: int | None) -> Sequence[tuple[Group, int]]:
    """Return at most `limit` groups, or all, whose names are after `after`, by name with the number of members."""
    counts = select(func.count()).where(col(GroupMember.group_id) == col(Group.id)).scalar_subquery()
    statement = select(counts, *_GROUP).where(col(Group.name) > after).order_by(col(Group.name)).limit(limit)
    rows = (await connection.execute(statement)).all()
    return [(Group(**dict(zip(_GROUP.keys(), values, strict=True))), count) for count, *values in rows]


async def delete_group(connection: AsyncConnection, name: str) -> tuple[Group, int]:
    """Remove a group with its grants; return it and the number of its members. Raises `NotFound` (GROUP_NOT_FOUND)."""
    group = await find_group(connection, name, hold=True)
    members = await count_members(connection, group.id)
    await connection.execute(delete(Group).where(col(Group.id) == group.id))
    return group, members


async def count_members(connection: AsyncConnection, group_id: int) -> int:
    """Return the number of members of a group."""
    statement = select(func.count()).select_from(GroupMember).where(col(GroupMember.group_id) == group_id)
    return int((await connection.execute(statement)).scalar_one())


async def add_members(
    connection: AsyncConnection, group_name: str, user_names: Sequence[str], *, origin: str = ""
) -> tuple[Group, int]:
    """Make users members of a group, all or none; return the group and the number of its members.

    All of them have to come from `origin`, see `check_origin`. Raises `InvalidArgument` (INVALID_FIELD) and `NotFound`
    (GROUP_NOT_FOUND, USER_NOT_FOUND).
    """
    names = _distinct(user_names)
    group = await find_group(connection, group_name, hold=True)
    await _check_all(connection, names, _named(names), Reason.USER_NOT_FOUND, "there is no user {}")
    users = (await connection.execute(select(*_USER).where(col(User.name).in_(names)).order_by(_USER.name))).mappings()
    await check_origin(connection, [User(**row) for row in users], origin)
    members = select(literal(group.id), col(User.id)).where(col(User.name).in_(names)).order_by(col(User.id))
    await connection.execute(insert(GroupMember).from_select(["group_id", "user_id"], members).on_conflict_do_nothing())
    return group, await count_members(connection, group.id)


async def remove_members(connection: AsyncConnection, group_name: str, user_names: Sequence[str]) -> tuple[Group, int]:
    """End the membership of users in a group, of all or none; return the group and the number of its members.

    Raises `InvalidArgument` (INVALID_FIELD) and `NotFound` (GROUP_NOT_FOUND, GROUP_MEMBER_NOT_FOUND).
    """
    names = _distinct(user_names)
    group = await find_group(connection, group_name, hold=True)
    users = _named(names).join_from(
        User, GroupMember, (col(GroupMember.user_id) == col(User.id)) & (col(GroupMember.group_id) == group.id)
    )
    missing = f"{{}} is not a member of {group.name}"
    await _check_all(connection, names, users, Reason.GROUP_MEMBER_NOT_FOUND, missing)
    ids = select(col(User.id)).where(col(User.name).in_(names))
    await connection.execute(
        delete(GroupMember).where(col(GroupMember.group_id) == group.id, col(GroupMember.user_id).in_(ids))
    )
    return group, await count_members(connection, group.id)


async def list_members(
    connection: AsyncConnection, group_name: str, *, after: str, limit: int | None
) -> Sequence[User]:
    """Return at most `limit` members, or all, whose names are after `after`, ordered by name.

    Raises `NotFound` (GROUP_NOT_FOUND).
    """
    group = await find_group(connection, group_name)
    statement = (
        select(*_USER)
        .join_from(User, GroupMember, col(GroupMember.user_id) == col(User.id))
        .where(col(GroupMember.group_id) == group.id, col(User.name) > after)
        .order_by(col(User.name))
        .limit(limit)
    )
    return [User(**row) for row in (await connection.execute(statement)).mappings()]


def _distinct(user_names: Sequence[str]) -> list[str]:
    names = sorted(set(user_names))
    if not names or len(names) > _MAX_USERS:
        raise InvalidArgument(
            Reason.INVALID_FIELD, f"user_names: expected 1 to {_MAX_USERS:,} users, got {len(names):,}"
        )
    return names


def _named(names: Sequence[str]) -> Select[str]:
    return select(col(User.name)).where(col(User.name).in_(names))


async def _check_all(
    connection: AsyncConnection, names: Sequence[str], found: Select[str], reason: Reason, message: str
) -> None:
    """Raise `NotFound` for the first name that is not found; hold the rows of the users until the end."""
    known = set((await connection.scalars(found.with_for_update(key_share=True, read=True, of=User))).all())
    for name in names:
        if name not in known:
            raise NotFound(reason, message.format(name))
