"""Exchange of space reservations, through Postgres, between the storage services that share a disk."""

import datetime
import secrets
import time

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.database.transactions import Database
from services.storage.index.models import Announcement

PUBLISH_SECONDS = 1.0
# A process that has not published for this long is gone, and its uploads with it.
_GONE_AFTER = datetime.timedelta(seconds=15)


class PeerReservations:
    """The reservations of the other storage services, cached for at most one second."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._process = secrets.randbits(63)
        self._kept = 0
        self._known_at = -PUBLISH_SECONDS

    async def kept(self) -> int:
        """Return the number of bytes that the other processes have reserved. Raises `Unavailable`."""
        if time.monotonic() - self._known_at >= PUBLISH_SECONDS:
            self._learned(await self._database.run(self._of_others))
        return self._kept

    async def publish(self, own: int) -> None:
        """Publish the number of bytes that this process has reserved. Raises `Unavailable`."""

        async def work(connection: AsyncConnection) -> int:
            await self._tell(connection, own)
            return await self._of_others(connection)

        self._learned(await self._database.run(work))

    def _learned(self, kept: int) -> None:
        self._kept = kept
        self._known_at = time.monotonic()

    async def _of_others(self, connection: AsyncConnection) -> int:
        others = select(func.coalesce(func.sum(col(Announcement.remaining_bytes)), 0)).where(
            col(Announcement.process) != self._process,
            # Use clock_timestamp(): a transaction may have waited for a row lock since it began.
            col(Announcement.told_at) > func.clock_timestamp() - _GONE_AFTER,
        )
        return int(await connection.scalar(others) or 0)

    async def _tell(self, connection: AsyncConnection, own: int) -> None:
        values = {"remaining_bytes": own, "told_at": func.clock_timestamp()}
        new = insert(Announcement).values(process=self._process, **values)
        await connection.execute(new.on_conflict_do_update(index_elements=["process"], set_=values))
        gone = col(Announcement.told_at) < func.clock_timestamp() - 4 * _GONE_AFTER
        await connection.execute(delete(Announcement).where(gone))
