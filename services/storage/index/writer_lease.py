"""Writer lease: a session-level advisory lock that proves this process is alive."""

import asyncio
import secrets

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.common.concurrency.periodic import run_periodically
from services.storage.index.advisory_locks import key

_PING_SECONDS = 2.0
_ANSWER_SECONDS = 10.0


class WriterLease:
    """The writer lease of this process. Its owner runs `run`.

    While Postgres is away, no other process can find out that this process is gone, nor abandon its uploads.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.id = secrets.randbits(63)
        self.names: set[str] = set()
        """The blob names of the uploads that are running in this process."""
        self._engine = engine
        self._lives = asyncio.Event()

    async def wait_acquired(self) -> None:
        """Return when this process has acquired its lease."""
        await self._lives.wait()

    async def run(self) -> None:
        """Hold the lease, and acquire it again when it is lost."""
        await run_periodically(self._hold, _PING_SECONDS / 10, trouble="the lock of this process is lost")

    async def _hold(self) -> None:
        async with asyncio.timeout(_ANSWER_SECONDS):
            connection = await self._engine.connect()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                # A transaction that stays open would prevent Postgres from vacuuming.
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                await connection.execute(select(func.pg_advisory_lock(key(f"writer {self.id}"))))
            self._lives.set()
            while True:
                await asyncio.sleep(_PING_SECONDS)
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await connection.execute(text("SELECT 1"))
        finally:
            # The lock ends with the session, which the pool would retain.
            await connection.invalidate()
            await connection.close()


async def is_expired(connection: AsyncConnection, writer: int) -> bool:
    """Return whether a writer's process has ended or lost its connection; True is valid until the transaction ends."""
    return bool(await connection.scalar(select(func.pg_try_advisory_xact_lock(key(f"writer {writer}")))))
