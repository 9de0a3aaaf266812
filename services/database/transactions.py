"""Transactions that outlive a short outage of Postgres."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from services.common.errors import Reason, Unavailable
from services.common.logs import get_logger
from services.database.metrics import RETRIES

Result = TypeVar("Result")

OUTAGE_SECONDS = 10.0
"""How long a transaction is repeated while Postgres does not answer."""

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 0.5

_TRANSIENT_SQLSTATES = ("08", "40", "53300", "55P03", "57014", "57P", "25P03")

_log = get_logger(__name__)


def is_transient(error: BaseException) -> bool:
    """Tell whether repeating the transaction may succeed: no connection, a restart, a deadlock, a lost race."""
    if isinstance(error, OSError | TimeoutError | PoolTimeoutError):
        return True
    if isinstance(error, DBAPIError):
        sqlstate = getattr(error.orig, "sqlstate", None) or ""
        return error.connection_invalidated or sqlstate.startswith(_TRANSIENT_SQLSTATES)
    # What asyncpg raises while it connects is not wrapped.
    return str(getattr(error, "sqlstate", None) or "").startswith(_TRANSIENT_SQLSTATES)


class Database:
    """The database of one service: its engine, and the way its transactions are run."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self._one_by_one = engine.execution_options(isolation_level="AUTOCOMMIT")

    async def run(self, work: Callable[[AsyncConnection], Awaitable[Result]], *, patient: bool = True) -> Result:
        """Run `work` in one transaction and commit it; repeat both while Postgres is away.

        A connection can be lost after the commit and before its answer, so `work` may run again after it has taken
        effect: it must then find that out, or do no harm. What `work` raises rolls the transaction back. Raises
        `Unavailable` when Postgres has not answered for `OUTAGE_SECONDS`; without patience, after the first attempt.
        """
        return await _repeated(self.engine.begin, work, patient=patient)

    async def run_statement(
        self, work: Callable[[AsyncConnection], Awaitable[Result]], *, patient: bool = True
    ) -> Result:
        """Run `work`, which is a single statement, as `run` does: it is a transaction by itself.

        This spares two of three ways to Postgres and back.
        """
        return await _repeated(self._one_by_one.connect, work, patient=patient)

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()


async def _repeated(
    connect: Callable[[], AbstractAsyncContextManager[AsyncConnection]],
    work: Callable[[AsyncConnection], Awaitable[Result]],
    *,
    patient: bool,
) -> Result:
    began, pause, attempt = time.monotonic(), _FIRST_PAUSE_SECONDS, 1
    while True:
        try:
            async with connect() as connection:
                return await work(connection)
        except Exception as error:  # is_transient tells which; the rest goes on its way
            if not is_transient(error):
                raise
            if not patient or time.monotonic() - began >= OUTAGE_SECONDS:
                raise Unavailable(Reason.UNAVAILABLE, "the database does not answer") from error
            RETRIES.inc()
            _log.warning("transaction repeated", attempt=attempt, error=repr(error))
        # Those that lost the same connection do not all come back in the same moment.
        await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
        pause, attempt = min(2 * pause, _LONGEST_PAUSE_SECONDS), attempt + 1
