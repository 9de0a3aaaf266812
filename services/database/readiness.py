"""Readiness of a service that needs Postgres."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack

from sqlalchemy import text

from services.common.lifecycle import cancel_and_wait, run_after
from services.common.migration_versions import known_versions
from services.common.observability.logs import get_logger
from services.common.rpc.server import Server
from services.database.sessions import SharedSessionsError
from services.database.transactions import Database
from services.database.versions import Schema, refusal, standing_of

_INTERVAL_SECONDS = 1.0

# A session can be read-only although the server is no standby.
_IS_READ_ONLY = text("SELECT pg_is_in_recovery() OR CAST(current_setting('transaction_read_only') AS boolean)")

_log = get_logger(__name__)


async def _is_ready(
    database: Database,
    name: str,
    known: Collection[str],
    reached: asyncio.Event,
    check: Callable[[], Awaitable[None]],
) -> bool:
    if database.trouble:
        raise RuntimeError(database.trouble)
    async with database.engine.connect() as connection:
        reached.set()
        if await connection.scalar(_IS_READ_ONLY):
            # The session may stay read-only for longer than Postgres.
            await connection.invalidate()
            raise RuntimeError("the database is read-only")
        if (why := refusal(name, await standing_of(connection, name), known)) is not None:
            raise RuntimeError(why)
    await check()
    return True


async def _watch(
    server: Server,
    database: Database,
    schema: Schema,
    reached: asyncio.Event,
    check: Callable[[], Awaitable[None]],
    ready: asyncio.Event,
) -> None:
    # Read once: listing the files of the migrations each second would block the event loop.
    serving, known = False, known_versions(schema.versions)
    while True:
        try:
            async with asyncio.timeout(5 * _INTERVAL_SECONDS):
                now = await _is_ready(database, schema.name, known, reached, check)
        except SharedSessionsError:
            raise
        except Exception as error:  # any error means "not ready", and the log says why
            now = False
            if serving or not ready.is_set():
                _log.warning("not ready", error=repr(error))
        if now is not serving:
            serving = now
            await server.set_serving(serving=serving)
            _log.info("serving" if serving else "not serving")
        if serving:
            ready.set()
        await asyncio.sleep(_INTERVAL_SECONDS if serving else _INTERVAL_SECONDS / 5)


async def serve(
    server: Server,
    database: Database,
    schema: Schema,
    stop: asyncio.Event,
    *,
    check: Callable[[], Awaitable[None]],
    first: Callable[[], Awaitable[None]],
    reached: asyncio.Event | None = None,
    last: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve until `stop`; SERVING while the schema is usable, Postgres accepts writes and `check` passes.

    `first` runs once, when all these conditions are true for the first time; at the end it is cancelled if it still
    runs. `last` runs when the calls have ended, and before the database is closed. `reached` is set as soon as Postgres
    has accepted a connection. If a pooler shares sessions among clients, `stop` is set and `SharedSessionsError` is
    raised.
    """
    ready, reached = asyncio.Event(), reached or asyncio.Event()
    await server.start()
    watcher = asyncio.create_task(_watch(server, database, schema, reached, check, ready))
    starter = asyncio.create_task(run_after(ready, first))
    # The task ends by itself only with a permanent error.
    watcher.add_done_callback(lambda _: stop.set())
    try:
        await server.serve_until(stop)
    finally:
        async with AsyncExitStack() as closing:
            closing.push_async_callback(database.close)
            if last is not None:
                closing.push_async_callback(last)
            await cancel_and_wait(watcher, starter)
