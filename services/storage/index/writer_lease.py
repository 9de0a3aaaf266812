"""By what others know that the uploads of this process go on: a lock in Postgres, which ends with its connection."""

import asyncio
import secrets

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.common.concurrency.periodic import run_periodically
from services.storage.index.advisory_locks import key

_PING_SECONDS = 2.0
_ANSWER_SECONDS = 10.0


class WriterLease:
    """This process among those that write. Its owner runs `run`.

    While Postgres is away nobody can tell whether the process lives, nor give up what it writes.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.id = secrets.randbits(63)
        self.names: set[str] = set()
        """The names of the uploads that go on in this process."""
        self._engine = engine
        self._lives = asyncio.Event()

    async def wait_acquired(self) -> None:
        """Return when others know that this process lives."""
        await self._lives.wait()

    async def run(self) -> None:
        """Hold the lease, and acquire it again when it is lost."""
        await run_periodically(self._hold, _PING_SECONDS / 10, trouble="the lock of this process is lost")

    async def _hold(self) -> None:
        async with asyncio.timeout(_ANSWER_SECONDS):
            connection = await self._engine.connect()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                # A transaction that stays open would keep Postgres from cleaning up.
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                await connection.execute(select(func.pg_advisory_lock(key(f"writer {self.id}"))))
            self._lives.set()
            while True:
                await asyncio.sleep(_PING_SECONDS)
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await connection.execute(text("SELECT 1"))
        finally:
            # The lock goes with the session; the pool would keep both.
            await connection.invalidate()
            await connection.close()


async def is_expired(connection: AsyncConnection, writer: int) -> bool:
    """Tell whether a writer's process has ended, or has lost its connection; until the transaction ends."""
    return bool(await connection.scalar(select(func.pg_try_advisory_xact_lock(key(f"writer {writer}")))))
