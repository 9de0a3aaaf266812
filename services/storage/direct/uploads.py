"""The SQL of bytes that clients bring to the store themselves. Each runs in the transaction of its connection."""

import datetime
from collections.abc import Sequence

from sqlalchemy import ARRAY, BigInteger, String, cast, func, literal, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.contents import STORE_ID
from services.storage.models import OngoingUpload

# `.` and the character after it: the names of an oid lie between.
_FIRST, _LAST = ".", "/"


async def begin(connection: AsyncConnection, repository_id: int, names: Sequence[str], *, seconds: int) -> None:
    """Note that a client may bring bytes to new names, for a repository, within `seconds`."""
    expires_at = func.now() + datetime.timedelta(seconds=seconds)
    rows = select(
        literal(STORE_ID),
        func.unnest(cast(list(names), ARRAY(String))),
        literal(repository_id, BigInteger),
        expires_at,
    )
    new = postgresql.insert(OngoingUpload).from_select(["store_id", "name", "repository_id", "expires_at"], rows)
    await connection.execute(new.on_conflict_do_nothing())


async def names_of(connection: AsyncConnection, repository_id: int, oid: str, *, limit: int) -> list[str]:
    """Return to which names clients may have brought an object's bytes for this repository, the newest first."""
    statement = (
        select(col(OngoingUpload.name))
        .where(
            col(OngoingUpload.store_id) == STORE_ID,
            col(OngoingUpload.name) > oid + _FIRST,
            col(OngoingUpload.name) < oid + _LAST,
            col(OngoingUpload.repository_id) == repository_id,
        )
        .order_by(col(OngoingUpload.expires_at).desc(), col(OngoingUpload.name))
        .limit(limit)
    )
    return list(await connection.scalars(statement))
