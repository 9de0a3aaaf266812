"""Sessions of Postgres: connections that retain their parameters, locks and listeners, through a pooler too."""

import asyncio
from functools import partial
from typing import Any

import asyncpg

CONNECT_SECONDS = 5.0

_ROUNDS = 5


class SharedSessionsError(ValueError):
    """The database is behind a pooler that shares a client's session with other clients while it lasts."""

    def __init__(self) -> None:
        super().__init__(
            "the database is behind a pooler in transaction or statement mode; "
            "towpath needs session mode (pool_mode = session), because its locks belong to sessions"
        )


class Sessions:
    """Opens the connections of one engine, and runs `first`, in SQL, on each of them."""

    def __init__(self, first: str = "") -> None:
        self._first = first
        self._checking = asyncio.Lock()
        self._is_checked = False

    async def open(self, *arguments: Any, **settings: Any) -> Any:  # noqa: ANN401 - those of `asyncpg.connect`
        """Connect as `asyncpg.connect` does. Raises `SharedSessionsError` if the first connection detects sharing."""
        connection = await asyncpg.connect(*arguments, **settings)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                # One at a time, because each check takes a second connection from the pooler.
                async with self._checking:
                    if not self._is_checked:
                        await _refuse_shared(connection, partial(asyncpg.connect, *arguments, **settings))
                        self._is_checked = True
                # Not as startup parameters, because a pooler accepts only a few of them.
                if self._first:
                    await connection.execute(self._first)
        except BaseException:
            connection.terminate()
            raise
        return connection


async def _refuse_shared(connection: Any, connect: partial[Any]) -> None:  # noqa: ANN401 - asyncpg has no types
    """Raise `SharedSessionsError` if a connection uses several server processes, or that of another connection.

    In session mode neither can happen, whoever else uses the pooler. In any other mode a pooler assigns the process
    that was released last, or all in turn: this check detects both, unless other clients interfere in every round.
    """
    own, others = {await _process_of(connection)}, set()
    if {pid for pid, _ in own} == {connection.get_server_pid()}:
        # There is no pooler.
        return
    other = await connect()
    try:
        for _ in range(_ROUNDS):
            others.add(await _process_of(other))
            # After the other connection, because the session has lasted until then; twice, because two processes may
            # take turns.
            own |= {await _process_of(connection), await _process_of(connection)}
            if len(own) > 1 or own & others:
                raise SharedSessionsError
    finally:
        other.terminate()


async def _process_of(connection: Any) -> tuple[int, str]:  # noqa: ANN401 - asyncpg has no types
    """Return the id of the process that serves a connection now, and its server's start, because ids are reused.

    The query is a COPY, because the driver prepares every other statement that has an answer, and a pooler may run a
    prepared statement in another process.
    """
    answer = bytearray()

    async def take(data: bytes) -> None:
        answer.extend(data)

    await connection.copy_from_query("SELECT pg_backend_pid(), pg_postmaster_start_time()", output=take)
    pid, _, started = answer.decode().partition("\t")
    return int(pid), started
