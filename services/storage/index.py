"""The SQL of the index of objects. Each function runs in the transaction of its connection."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
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

from services.storage.advisory import key
from services.storage.contents import Placed
from services.storage.models import Content, DeletedRepository, Object


class Located(NamedTuple):
    """The record of an object, and where its bytes lie; nowhere for one that was removed."""

    record: Object
    placed: list[Placed]
    doubted: list[Placed]
    """Where they were found missing or damaged."""


def _any_of(oids: Sequence[str]) -> object:
    return any_(cast(list(oids), ARRAY(String)))


async def lock(connection: AsyncConnection, *oids: str, into: int | None = None) -> None:
    """Keep all others from changing where the bytes of `oids` lie until the transaction ends.

    With `into`, the id of a repository, that one is not deleted meanwhile either.
    """
    # In one order everywhere, so that two transactions do not wait for each other.
    for oid in sorted(oids):
        await connection.execute(select(func.pg_advisory_xact_lock(key(oid))))
    if into is not None:
        await connection.execute(select(func.pg_advisory_xact_lock_shared(key(into))))


async def hold_deletions(connection: AsyncConnection) -> None:
    """Let no bytes be discarded that are needed at this moment or later, as long as this connection lives."""
    await connection.execute(select(func.pg_advisory_lock(key("deletions"))))


async def may_delete(connection: AsyncConnection) -> bool:
    """Tell whether bytes may be discarded that are due at this moment: not while another holds deletions."""
    return bool(await connection.scalar(select(func.pg_try_advisory_xact_lock_shared(key("deletions")))))


async def close_repository(connection: AsyncConnection, repository_id: int) -> None:
    """Let nothing be added to the repository any more; what is being added at this moment is waited for."""
    await connection.execute(select(func.pg_advisory_xact_lock(key(repository_id))))
    await connection.execute(
        postgresql.insert(DeletedRepository).values(repository_id=repository_id).on_conflict_do_nothing()
    )


async def is_deleted(connection: AsyncConnection, repository_id: int) -> bool:
    """Tell whether the repository was deleted."""
    deleted = exists().where(col(DeletedRepository.repository_id) == repository_id)
    return bool(await connection.scalar(select(deleted)))


async def find(connection: AsyncConnection, repository_id: int, oid: str) -> Object | None:
    """Return the record of an object, held or removed."""
    statement = select(Object).where(col(Object.repository_id) == repository_id, col(Object.oid) == oid)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else Object(**row)


async def locate(connection: AsyncConnection, repository_id: int, oids: Sequence[str]) -> list[Located]:
    """Return the records that exist of these objects, held or removed, and where their bytes lie."""
    statement = (
        select(Object)
        .add_columns(col(Content.store_id), col(Content.name), col(Content.is_doubted))
        .outerjoin(Content, col(Content.oid) == col(Object.oid))
        .where(col(Object.repository_id) == repository_id, col(Object.oid) == _any_of(oids))
    )
    located: dict[str, Located] = {}
    for row in map(dict, (await connection.execute(statement)).mappings()):
        store_id, name, is_doubted = row.pop("store_id"), row.pop("name"), row.pop("is_doubted")
        found = located.setdefault(row["oid"], Located(Object(**row), [], []))
        if name is not None:
            (found.doubted if is_doubted else found.placed).append(Placed(store_id, name))
    return list(located.values())


async def is_held(connection: AsyncConnection, oid: str) -> bool:
    """Tell whether any repository holds the object."""
    held = exists().where(col(Object.oid) == oid, col(Object.removed_at).is_(None))
    return bool(await connection.scalar(select(held)))


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


async def some_of(connection: AsyncConnection, repository_id: int, *, limit: int) -> list[str]:
    """Return up to `limit` oids of a repository's records."""
    statement = (
        select(col(Object.oid)).where(col(Object.repository_id) == repository_id).order_by(col(Object.oid)).limit(limit)
    )
    return list(await connection.scalars(statement))


async def forget(connection: AsyncConnection, repository_id: int, oids: Sequence[str]) -> list[Object]:
    """Delete the records of these objects in a repository, and return them."""
    statement = (
        delete(Object)
        .where(col(Object.repository_id) == repository_id, col(Object.oid) == _any_of(oids))
        .returning(Object)
    )
    return [Object(**row) for row in (await connection.execute(statement)).mappings()]
