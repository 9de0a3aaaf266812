"""Connections retained between statements, because a checkout from the pool costs more than a statement."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import QueuePool

from services.common.observability import tracing
from services.database.engine import READ_ONLY, sqlstate_of
from services.database.sessions import CONNECT_SECONDS
from services.database.statement import Row, Statement


class _Held(NamedTuple):
    connection: AsyncConnection
    driver: Any
    """The asyncpg connection underneath."""


class HeldConnections:
    """Half of an engine's connections, for single statements only. Its owner closes it.

    A connection is checked out of the pool when it is first needed. The other half is left to transactions, so that
    neither kind waits for the other. Of an engine with one connection, none is retained.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._most = cast("QueuePool", engine.sync_engine.pool).size() // 2
        self._turns = asyncio.Semaphore(max(1, self._most))
        self._idle: list[_Held] = []
        self._span: Callable[[str], AbstractContextManager[object]] = nullcontext
        if tracing.is_on():
            from services.database.spans import span_of

            self._span = span_of

    @property
    def idle(self) -> int:
        """The number of retained connections that are not in use."""
        return len(self._idle)

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Return the rows of a statement that is a transaction by itself.

        Raises the errors of asyncpg, and `TimeoutError` if no connection is available within `CONNECT_SECONDS`.
        """
        async with asyncio.timeout(CONNECT_SECONDS):
            await self._turns.acquire()
        try:
            held = self._idle.pop() if self._idle else await self._take()
            try:
                with self._span(statement.sql):
                    found: Sequence[Row] = await held.driver.fetch(statement.sql, *statement.values)
            except BaseException as error:
                if _is_of_the_statement(error) and not held.driver.is_closed():
                    await self._give_back(held)
                else:
                    await _end(held)
                    # The cause may have broken the other connections too, unless it is a caller's cancellation.
                    if isinstance(error, Exception):
                        await self.close()
                raise
            await self._give_back(held)
            return found
        finally:
            self._turns.release()

    async def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            await _end(self._idle.pop())

    async def _give_back(self, held: _Held) -> None:
        if self._most:
            self._idle.append(held)
        else:
            await held.connection.close()

    async def _take(self) -> _Held:
        connection = await self._engine.connect()
        try:
            return _Held(connection, (await connection.get_raw_connection()).driver_connection)
        except BaseException:
            await connection.close()
            raise


def _is_of_the_statement(error: BaseException) -> bool:
    """Return whether an error concerns the statement alone, so that the session is still usable."""
    return isinstance(error, asyncpg.PostgresError) and sqlstate_of(error) != READ_ONLY


async def _end(held: _Held) -> None:
    held.driver.terminate()
    await held.connection.invalidate()
    await held.connection.close()
