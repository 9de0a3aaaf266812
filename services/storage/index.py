"""The SQL of the index of objects. Each function runs in the transaction of its connection."""

from collections.abc import Sequence

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    String,
    any_,
    cast,
    delete,
    exists,
    func,
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.models import DeletedRepository, Object, UnclaimedObject


def _any_of(oids: Sequence[str]) -> object:
    return any_(cast(list(oids), ARRAY(String)))


def _key(name: object) -> ColumnElement[int]:
    return func.hashtextextended(f"towpath storage {name}", literal(0))


async def lock(connection: AsyncConnection, oid: str, *, into: int | None = None) -> None:
    """Keep all others from publishing or deleting the bytes of `oid` until the transaction ends.

    With `into`, the id of a repository, that one is not deleted meanwhile either.
    """
    locks = [func.pg_advisory_xact_lock(_key(oid))]
    if into is not None:
        locks.append(func.pg_advisory_xact_lock_shared(_key(into)))
    await connection.execute(select(*locks))


async def hold_deletions(connection: AsyncConnection) -> None:
    """Let no bytes be deleted as long as this connection lives; bytes that are being deleted are waited for."""
    await connection.execute(select(func.pg_advisory_lock(_key("deletions"))))


async def may_delete(connection: AsyncConnection) -> bool:
    """Tell whether bytes may be deleted until the transaction ends: not while another holds them."""
    return bool(await connection.scalar(select(func.pg_try_advisory_xact_lock_shared(_key("deletions")))))


async def close_repository(connection: AsyncConnection, repository_id: int) -> None:
    """Let nothing be added to the repository any more; what is being added at this moment is waited for."""
    await connection.execute(select(func.pg_advisory_xact_lock(_key(repository_id))))
    await connection.execute(
        postgresql.insert(DeletedRepository).values(repository_id=repository_id).on_conflict_do_nothing()
    )


async def find(connection: AsyncConnection, repository_id: int, oid: str) -> Object | None:
    """Return the record of an object, held or removed."""
    rows = await find_all(connection, repository_id, [oid])
    return rows[0] if rows else None


async def find_all(connection: AsyncConnection, repository_id: int, oids: Sequence[str]) -> list[Object]:
    """Return the records that exist of these objects, held or removed, in one statement."""
    statement = select(Object).where(col(Object.repository_id) == repository_id, col(Object.oid) == _any_of(oids))
    return [Object(**row) for row in (await connection.execute(statement)).mappings()]


async def page(connection: AsyncConnection, repository_id: int, *, after: str, limit: int) -> list[Object]:
    """Return the next records by oid after the oid `after`."""
    statement = (
        select(Object)
        .where(col(Object.repository_id) == repository_id, col(Object.oid) > after)
        .order_by(col(Object.oid))
        .limit(limit)
    )
    return [Object(**row) for row in (await connection.execute(statement)).mappings()]


async def add(connection: AsyncConnection, repository_id: int, oid: str, size: int) -> Object | None:
    """Record that the repository holds the object and return the record; None where one of the two was removed.

    The record cannot change until the transaction ends.
    """
    deleted = exists().where(col(DeletedRepository.repository_id) == repository_id)
    values = select(literal(repository_id, BigInteger), literal(oid), literal(size, BigInteger)).where(~deleted)
    new = postgresql.insert(Object).from_select(["repository_id", "oid", "size"], values)
    statement = new.on_conflict_do_update(
        index_elements=["repository_id", "oid"],
        set_={"size": new.excluded.size},
        where=col(Object.removed_at).is_(None),
    ).returning(Object)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else Object(**row)


async def bury(
    connection: AsyncConnection, repository_id: int, oid: str, *, reason: str, removed_by: str
) -> Object | None:
    """Turn the record of an object that is held into a tombstone and return it; None where none is held."""
    statement = (
        update(Object)
        .where(
            col(Object.repository_id) == repository_id,
            col(Object.oid) == oid,
            col(Object.removed_at).is_(None),
        )
        .values(removed_at=func.now(), removal_reason=reason, removed_by=removed_by)
        .returning(Object)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else Object(**row)


async def unbury(connection: AsyncConnection, repository_id: int, oid: str) -> bool:
    """Delete a tombstone; tell whether there was one."""
    statement = delete(Object).where(
        col(Object.repository_id) == repository_id,
        col(Object.oid) == oid,
        col(Object.removed_at).is_not(None),
    )
    return (await connection.execute(statement)).rowcount > 0


async def forget(connection: AsyncConnection, repository_id: int, *, limit: int) -> list[Object]:
    """Delete up to `limit` records of a repository, and return them."""
    some = (
        select(col(Object.oid)).where(col(Object.repository_id) == repository_id).order_by(col(Object.oid)).limit(limit)
    ).scalar_subquery()
    statement = (
        delete(Object).where(col(Object.repository_id) == repository_id, col(Object.oid).in_(some)).returning(Object)
    )
    return [Object(**row) for row in (await connection.execute(statement)).mappings()]


async def is_held(connection: AsyncConnection, oid: str) -> bool:
    """Tell whether any repository holds the object."""
    held = exists().where(col(Object.oid) == oid, col(Object.removed_at).is_(None))
    return bool(await connection.scalar(select(held)))


async def note_unclaimed(connection: AsyncConnection, oids: Sequence[str]) -> None:
    """Note that the bytes of these objects may be held by no repository any more."""
    if oids:
        rows = [{"oid": oid} for oid in sorted(oids)]
        await connection.execute(postgresql.insert(UnclaimedObject).on_conflict_do_nothing(), rows)


async def clear_unclaimed(connection: AsyncConnection, oid: str) -> None:
    """Take back what `note_unclaimed` noted."""
    await connection.execute(delete(UnclaimedObject).where(col(UnclaimedObject.oid) == oid))


async def unclaimed(connection: AsyncConnection, *, limit: int) -> list[str]:
    """Return up to `limit` of the oids that were noted."""
    return list(await connection.scalars(select(col(UnclaimedObject.oid)).limit(limit)))
