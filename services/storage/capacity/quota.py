"""The traffic of repositories, counted in memory and flushed to Postgres, and its daily limits."""

import asyncio
import datetime
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy import ARRAY, BigInteger, any_, cast, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.concurrency.periodic import run_periodically
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.storage import metrics
from services.storage.capacity.limits import LimitCache
from services.storage.errors import bandwidth_exceeded
from services.storage.index.models import Traffic

FLUSH_SECONDS = 1.0

_log = get_logger(__name__)
_Key = tuple[int, datetime.date]


def utc_now() -> datetime.datetime:
    """Return the current time in UTC."""
    return datetime.datetime.now(datetime.UTC)


def today() -> datetime.date:
    """Return the current day in UTC."""
    return utc_now().date()


@dataclass
class Transferred:
    """Bytes written and bytes read."""

    bytes_in: int = 0
    bytes_out: int = 0

    @property
    def total(self) -> int:
        """The bytes of both ways together."""
        return self.bytes_in + self.bytes_out


class TrafficQuota:
    """Counts the traffic of this process. Its owner runs `run`, and calls `flush` at the end.

    A crash loses the counts of the last second. After an outage of Postgres one second may be counted twice.
    """

    def __init__(self, database: Database, limits: LimitCache) -> None:
        self._database = database
        self._limits = limits
        self._unflushed: dict[_Key, Transferred] = {}
        self._flushing = asyncio.Lock()
        self.moved_bytes = 0
        """All bytes that this process has counted."""

    def count(self, repository_id: int, *, bytes_in: int = 0, bytes_out: int = 0) -> None:
        """Count bytes that a repository has just transferred."""
        self.moved_bytes += bytes_in + bytes_out
        metrics.BYTES_IN.inc(bytes_in)
        metrics.BYTES_OUT.inc(bytes_out)
        moved = self._unflushed.setdefault((repository_id, today()), Transferred())
        moved.bytes_in += bytes_in
        moved.bytes_out += bytes_out

    @property
    def is_limited(self) -> bool:
        """True if any repository has a daily limit of bandwidth."""
        return self._limits.has_bandwidths

    async def used_up(self, repository_ids: Collection[int]) -> list[int]:
        """Return those of these repositories that have used up today's bandwidth.

        The counts of this process are flushed first, so that other processes see them. Raises `Unavailable`.
        """
        limits = {id_: limit for id_ in repository_ids if (limit := self._limits.bandwidth_of(id_)) is not None}
        if not limits:
            return []
        await self.flush()
        moved = await self.transferred_today(limits)
        return [id_ for id_, transferred in moved.items() if transferred.total >= limits[id_]]

    async def check(self, repository_id: int) -> None:
        """Raise `ResourceExhausted` (BANDWIDTH_EXCEEDED) if the repository has used up today's bandwidth."""
        limit = self._limits.bandwidth_of(repository_id)
        if limit is None:
            return
        moved = (await self.transferred_today([repository_id])).get(repository_id, Transferred())
        if moved.total >= limit:
            raise bandwidth_exceeded(limit, utc_now())

    async def transferred_today(self, repository_ids: Iterable[int]) -> dict[int, Transferred]:
        """Return today's traffic by repository id; repositories without traffic are missing."""
        day, ids = today(), list(repository_ids)

        async def work(connection: AsyncConnection) -> dict[int, Transferred]:
            statement = select(Traffic).where(
                col(Traffic.repository_id) == any_(cast(ids, ARRAY(BigInteger))), col(Traffic.day) == day
            )
            rows = (await connection.execute(statement)).mappings()
            return {row["repository_id"]: Transferred(row["bytes_in"], row["bytes_out"]) for row in rows}

        moved = await self._database.run(work)
        for repository_id in set(ids):
            if unflushed := self._unflushed.get((repository_id, day)):
                known = moved.get(repository_id, Transferred())
                moved[repository_id] = Transferred(
                    known.bytes_in + unflushed.bytes_in, known.bytes_out + unflushed.bytes_out
                )
        return moved

    async def run(self) -> None:
        """Flush about every second; counts that cannot be flushed are retained."""
        await run_periodically(self.flush, FLUSH_SECONDS, trouble="traffic not flushed", with_traceback=True)

    async def flush(self) -> None:
        """Add the counts to Postgres. Raises `Unavailable`; the counts are then retained."""
        # Two concurrent flushes would add the same counts.
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        flushing = {key: Transferred(moved.bytes_in, moved.bytes_out) for key, moved in self._unflushed.items()}
        if not flushing:
            return
        rows = [
            {"repository_id": key[0], "day": key[1], "bytes_in": moved.bytes_in, "bytes_out": moved.bytes_out}
            # In one order everywhere, so that two processes do not deadlock.
            for key, moved in sorted(flushing.items())
        ]

        async def work(connection: AsyncConnection) -> None:
            new = postgresql.insert(Traffic)
            statement = new.on_conflict_do_update(
                index_elements=["repository_id", "day"],
                set_={
                    "bytes_in": col(Traffic.bytes_in) + new.excluded.bytes_in,
                    "bytes_out": col(Traffic.bytes_out) + new.excluded.bytes_out,
                },
            )
            await connection.execute(statement, rows)

        await self._database.run(work)
        for key, flushed in flushing.items():
            moved = self._unflushed[key]
            moved.bytes_in -= flushed.bytes_in
            moved.bytes_out -= flushed.bytes_out
            if moved == Transferred():
                del self._unflushed[key]
