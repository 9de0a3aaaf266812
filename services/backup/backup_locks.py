"""Locks of a running backup in Postgres: they bar the deletion of blobs, and at first migrations of the tables."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.backup.errors import BackupError
from services.database.migrations import MIGRATION_KEY
from services.storage.index import objects

Result = TypeVar("Result")

_WAIT_SECONDS = 60
_PING_SECONDS = 5.0


class Hold:
    """The locks of one session; they end with the session, however it ends."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._busy = asyncio.Lock()

    async def let_migrate(self) -> None:
        """Permit migrations again."""
        async with self._busy:
            await self._connection.execute(text(f"SELECT pg_advisory_unlock_shared({MIGRATION_KEY})"))

    async def during(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the work; cancel it and raise `BackupError` if the session is lost meanwhile."""
        working = asyncio.create_task(work)
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise BackupError("the connection to Postgres was lost; run it again, what is copied is not copied again")
        finally:
            for task in (working, watching):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_PING_SECONDS)
            try:
                async with self._busy, asyncio.timeout(2 * _PING_SECONDS):
                    await self._connection.execute(text("SELECT 1"))
            except (OSError, DBAPIError):
                # TimeoutError is an OSError.
                return


@asynccontextmanager
async def hold(engine: AsyncEngine) -> AsyncIterator[Hold]:
    """Bar deletions and migrations. Raises `BackupError` if another backup or a migration does not end in 60 s."""
    async with engine.connect() as connection:
        # Session locks need no transaction, and an open transaction would bar Postgres from vacuuming.
        held = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await held.execute(text(f"SET lock_timeout = '{_WAIT_SECONDS}s'"))
        try:
            await held.execute(text(f"SELECT pg_advisory_lock_shared({MIGRATION_KEY})"))
            await objects.hold_deletions(held)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != "55P03":
                raise
            raise BackupError(f"another backup or a migration has not ended for {_WAIT_SECONDS} s") from None
        try:
            yield Hold(held)
        finally:
            # The locks end with the session; in the pool, both would live on.
            await connection.invalidate()
