"""Transactions that survive a short outage of Postgres."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakSet

import asyncpg
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry

from services.common.errors import Reason, ResourceExhausted, ServiceError, Unavailable
from services.common.observability.logs import get_logger
from services.database.engine import READ_ONLY, sqlstate_of
from services.database.held_connections import HeldConnections
from services.database.metrics import RETRIES, watch_pool
from services.database.statement import Row, Statement, rows

Result = TypeVar("Result")

OUTAGE_SECONDS = 10.0
"""The seconds for which a transaction is retried while Postgres does not answer."""

_FIRST_PAUSE_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 0.5

_TRANSIENT_SQLSTATES = ("08", "40", "53300", "55P03", "57014", "57P", "25P03", READ_ONLY)

_NO_ROOM = "53100"
# Postgres cannot read or write its files (58), has too many of them open (53000), is short of memory (53200), or its
# file system has become read-only (42501).
_UNUSABLE_SQLSTATES = ("53000", "53200", "58", "42501")
_TROUBLED_SECONDS = 10.0

_log = get_logger(__name__)


def is_transient(error: BaseException) -> bool:
    """Return whether a retry of the transaction may succeed: no connection, a restart, a deadlock, a lost race."""
    if isinstance(error, OSError | TimeoutError | PoolTimeoutError):
        return True
    if isinstance(error, DBAPIError):
        cause = error.orig.__cause__ if error.orig else None
        is_cut = error.connection_invalidated or isinstance(cause, asyncpg.InternalClientError)
        return is_cut or sqlstate_of(error).startswith(_TRANSIENT_SQLSTATES)
    # SQLAlchemy does not wrap asyncpg's errors while it connects, or in direct calls. A connection cut between two of
    # its steps raises either of these errors; an invalid value raises an error that is a ValueError as well.
    if isinstance(error, asyncpg.InternalClientError | asyncpg.InterfaceError):
        return not isinstance(error, ValueError)
    return sqlstate_of(error).startswith(_TRANSIENT_SQLSTATES)


def _trouble_of(error: BaseException) -> ServiceError | None:
    """Return the error for callers if Postgres reports that it lacks a resource; None otherwise."""
    sqlstate = sqlstate_of(error)
    if sqlstate == _NO_ROOM:
        return ResourceExhausted(Reason.STORAGE_FULL, "no room is left for the database")
    if sqlstate.startswith(_UNUSABLE_SQLSTATES):
        return Unavailable(Reason.UNAVAILABLE, "the database cannot use its files")
    return None


class Database:
    """The database of one service: it owns the engine, and runs transactions with retries."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self._one_by_one = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._held = HeldConnections(engine)
        self._trouble = ""
        self._troubled_until = 0.0
        # Weak, because the pool replaces connections that are lost.
        self._opened: WeakSet[Any] = WeakSet()
        event.listen(engine.sync_engine, "connect", self._note_opened)
        watch_pool(engine, self._held)

    @property
    def trouble(self) -> str:
        """The lack of a resource, such as disk space, that Postgres reported in the last ten seconds; else empty."""
        return self._trouble if time.monotonic() < self._troubled_until else ""

    async def run(self, work: Callable[[AsyncConnection], Awaitable[Result]], *, patient: bool = True) -> Result:
        """Run `work` in one transaction and commit it; retry both while Postgres is unavailable.

        A connection can be lost after the commit and before its answer, so that `work` may run again after it has taken
        effect: it must detect that, or be idempotent. An error of `work` rolls the transaction back. Raises
        `Unavailable` when Postgres has not answered for `OUTAGE_SECONDS`, or without `patient` after the first attempt.
        If Postgres lacks a resource, raises `Unavailable` or `ResourceExhausted` (STORAGE_FULL) at once.
        """

        async def attempt(_number: int) -> Result:
            async with self.engine.begin() as connection:
                return await work(connection)

        return await self._repeated(attempt, patient=patient)

    async def fetch(self, statement: Statement, *, patient: bool = True) -> Sequence[Row]:
        """Return the rows of a statement that is a transaction by itself; retry it as `run` does.

        Hot path: the first attempt runs on `HeldConnections` and bypasses SQLAlchemy.
        """

        async def attempt(number: int) -> Sequence[Row]:
            if number == 1:
                return await self._held.fetch(statement)
            # Through SQLAlchemy, so that its pool learns that its connections are lost.
            async with self._one_by_one.connect() as connection:
                return await rows(connection, statement)

        return await self._repeated(attempt, patient=patient)

    async def close(self) -> None:
        """Close all connections, those in use too: a statement that still runs fails."""
        await self._held.close()
        await self.engine.dispose()
        # SQLAlchemy closes a connection that is in use neither now nor when its user returns it.
        for connection in list(self._opened):
            connection.terminate()

    def _note_opened(self, connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
        self._opened.add(connection.driver_connection)

    async def _repeated(self, attempt: Callable[[int], Awaitable[Result]], *, patient: bool) -> Result:
        began, pause, number = time.monotonic(), _FIRST_PAUSE_SECONDS, 1
        while True:
            try:
                return await attempt(number)
            except Exception as error:  # all but transient errors are raised
                if (trouble := _trouble_of(error)) is not None:
                    self._trouble, self._troubled_until = trouble.message, time.monotonic() + _TROUBLED_SECONDS
                    _log.warning("the database is in trouble", error=repr(error))
                    raise trouble from error
                if not is_transient(error):
                    raise
                if not patient or time.monotonic() - began >= OUTAGE_SECONDS:
                    raise Unavailable(Reason.UNAVAILABLE, "the database does not answer") from error
                RETRIES.inc()
                _log.warning("transaction repeated", attempt=number, error=repr(error))
            # Jitter, so that the transactions cut by one outage do not all retry at the same moment.
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
            pause, number = min(2 * pause, _MAX_PAUSE_SECONDS), number + 1
