"""SQL of direct uploads. Each function runs in the transaction of its connection."""

import datetime
from collections.abc import Sequence

from sqlalchemy import ARRAY, BigInteger, String, cast, exists, func, literal, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.index import advisory_locks
from services.storage.index.contents import BlobLocation
from services.storage.index.models import OngoingUpload, StoreRecord

# `.` and the character after it: all blob names of an oid sort between the two.
_FIRST, _LAST = ".", "/"


async def begin(
    connection: AsyncConnection, repository_id: int, store_id: int, names: Sequence[str], *, seconds: int
) -> bool:
    """Record new blob names to which a client may upload for a repository within `seconds`.

    Return False, and record nothing, if the store was deleted.
    """
    # The store cannot be deleted before the transaction ends.
    await advisory_locks.lock(connection, shared=[advisory_locks.store_key(store_id)])
    if not await connection.scalar(select(exists().where(col(StoreRecord.id) == store_id))):
        return False
    expires_at = func.now() + datetime.timedelta(seconds=seconds)
    rows = select(
        literal(store_id),
        func.unnest(cast(list(names), ARRAY(String))),
        literal(repository_id, BigInteger),
        expires_at,
    )
    new = postgresql.insert(OngoingUpload).from_select(["store_id", "name", "repository_id", "expires_at"], rows)
    await connection.execute(new.on_conflict_do_nothing())
    return True


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
