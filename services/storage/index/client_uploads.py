"""SQL of direct uploads. Each function runs in the transaction of its connection."""

import datetime
from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import ARRAY, BigInteger, String, cast, exists, func, literal, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.blob_names import oid_of
from services.storage.index import advisory_locks
from services.storage.index.contents import LATE, BlobLocation
from services.storage.index.models import OngoingUpload, StoreRecord

MAX_UNCONFIRMED = 5_000
"""The most direct uploads of a user in a repository that are not confirmed."""


class Unconfirmed(NamedTuple):
    """A direct upload that was announced and not confirmed; `user_id` is 0 for a user who is not known."""

    repository_id: int
    name: str
    size: int
    user_id: int

    @property
    def oid(self) -> str:
        """The oid of the object."""
        return oid_of(self.name)


# `.` and the character after it: all blob names of an oid sort between the two.
_FIRST, _LAST = ".", "/"


async def begin(
    connection: AsyncConnection,
    repository_id: int,
    store_id: int,
    sizes: Mapping[str, int],
    *,
    seconds: int,
    user_id: int | None,
    most_bytes: int | None,
) -> list[str] | None:
    """Record new blob names, with their sizes, to which a client may upload for a repository within `seconds`.

    Return those that were recorded: in order, while all that the user has not confirmed there is no more than
    `MAX_UNCONFIRMED` uploads and `most_bytes`. An upload counts until its bytes are given up, a day after its end.
    Return None, and record nothing, if the store was deleted.
    """
    user = user_id or 0
    # The store cannot be deleted, and no other call counts the uploads of the user, before the transaction ends.
    counting = f"direct uploads of user {user} in repository {repository_id}"
    await advisory_locks.lock(connection, alone=[counting], shared=[advisory_locks.store_key(store_id)])
    if not await connection.scalar(select(exists().where(col(StoreRecord.id) == store_id))):
        return None
    of_user = select(func.count(), func.sum(col(OngoingUpload.size))).where(
        col(OngoingUpload.repository_id) == repository_id, col(OngoingUpload.user_id) == user
    )
    count, held = (int(number or 0) for number in (await connection.execute(of_user)).one())
    recorded: dict[str, int] = {}
    for name, size in sizes.items():
        if count < MAX_UNCONFIRMED and (most_bytes is None or held + size <= most_bytes):
            count, held = count + 1, held + size
            recorded[name] = size
    expires_at = func.now() + datetime.timedelta(seconds=seconds)
    rows = select(
        literal(store_id),
        func.unnest(cast(list(recorded), ARRAY(String))),
        func.unnest(cast(list(recorded.values()), ARRAY(BigInteger))),
        literal(repository_id, BigInteger),
        literal(user, BigInteger),
        expires_at,
    )
    columns = ["store_id", "name", "size", "repository_id", "user_id", "expires_at"]
    await connection.execute(postgresql.insert(OngoingUpload).from_select(columns, rows).on_conflict_do_nothing())
    return list(recorded)


async def brought(connection: AsyncConnection, repository_id: int, oid: str, *, limit: int) -> list[BlobLocation]:
    """Return the locations to which clients may have uploaded an object for this repository, the newest first."""
    statement = (
        select(col(OngoingUpload.store_id), col(OngoingUpload.name))
        .where(
            col(OngoingUpload.name) > oid + _FIRST,
            col(OngoingUpload.name) < oid + _LAST,
            col(OngoingUpload.repository_id) == repository_id,
        )
        .order_by(col(OngoingUpload.expires_at).desc(), col(OngoingUpload.name))
        .limit(limit)
    )
    return [BlobLocation(*row) for row in await connection.execute(statement)]


async def pending(
    connection: AsyncConnection, repository_id: int, oids: Collection[str], *, limit: int
) -> list[Unconfirmed]:
    """Return the newest upload of each of these objects that is not confirmed, of `limit` objects at most."""
    statement = text("""
        SELECT DISTINCT ON (asked.oid) one.repository_id, one.name, one.size, one.user_id
        FROM unnest(CAST(:oids AS text[])) AS asked (oid)
        JOIN storage.uploads AS one ON one.name > asked.oid || '.' AND one.name < asked.oid || '/'
        WHERE one.repository_id = :repository_id AND one.size IS NOT NULL
        ORDER BY asked.oid, one.expires_at DESC LIMIT :limit
    """)
    values = {"oids": list(oids), "repository_id": repository_id, "limit": limit}
    return [Unconfirmed(*row) for row in await connection.execute(statement, values)]


async def expired(connection: AsyncConnection, *, limit: int) -> list[Unconfirmed]:
    """Return uploads that were not confirmed within a day after their end, the oldest first."""
    statement = (
        select(
            col(OngoingUpload.repository_id),
            col(OngoingUpload.name),
            func.coalesce(col(OngoingUpload.size), 0),
            func.coalesce(col(OngoingUpload.user_id), 0),
        )
        .where(col(OngoingUpload.expires_at) <= func.now() - LATE)
        .order_by(col(OngoingUpload.expires_at))
        .limit(limit)
    )
    rows = await connection.execute(statement)
    return [Unconfirmed(repository_id or 0, name, size, user) for repository_id, name, size, user in rows]
