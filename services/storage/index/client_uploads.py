"""The SQL of bytes that clients bring to the store themselves. Each runs in the transaction of its connection."""

import datetime
from collections.abc import Sequence

from sqlalchemy import ARRAY, BigInteger, String, cast, func, literal, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.index.contents import BlobLocation, hold_store, is_known
from services.storage.index.models import OngoingUpload

# `.` and the character after it: the names of an oid lie between.
_FIRST, _LAST = ".", "/"


async def begin(
    connection: AsyncConnection, repository_id: int, store_id: int, names: Sequence[str], *, seconds: int
) -> bool:
    """Note that a client may bring bytes to new names, for a repository, within `seconds`.

    Tell whether it may: not where the store was forgotten.
    """
    await hold_store(connection, store_id)
    if not await is_known(connection, store_id):
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
    """Return where clients may have brought an object's bytes for this repository, the newest first."""
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
