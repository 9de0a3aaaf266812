"""Sessions of Postgres: connections that keep their parameters, locks and listeners, through a pooler too."""

import asyncio
from functools import partial
from typing import Any

import asyncpg

CONNECT_SECONDS = 5.0

_ROUNDS = 5


class SharedSessionsError(ValueError):
    """The database is behind a pooler by which one client's session is given to others while it lasts."""

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
        """Connect as `asyncpg.connect` does. Raises `SharedSessionsError` where the first connection finds it so."""
        connection = await asyncpg.connect(*arguments, **settings)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                # One by one, as each takes a second connection from the pooler.
                async with self._checking:
                    if not self._is_checked:
                        await _refuse_shared(connection, partial(asyncpg.connect, *arguments, **settings))
                        self._is_checked = True
                # Not as parameters of the start, of which a pooler takes a few only.
                if self._first:
                    await connection.execute(self._first)
        except BaseException:
            connection.terminate()
            raise
        return connection


async def _refuse_shared(connection: Any, connect: partial[Any]) -> None:  # noqa: ANN401 - asyncpg has no types
    """Raise `SharedSessionsError` where statements of a connection run in several processes, or in those of another.

    In a session that lasts neither can be, whoever else uses the pooler. In any other mode a pooler gives next what was
    given back last, or takes turns: either is seen, unless others come in between in every round.
    """
    own, others = {await _process_of(connection)}, set()
    if {pid for pid, _ in own} == {connection.get_server_pid()}:
        # Nothing stands between.
        return
    other = await connect()
    try:
        for _ in range(_ROUNDS):
            others.add(await _process_of(other))
            # After the other one, as the session has lasted until then; twice, as two processes may take turns.
            own |= {await _process_of(connection), await _process_of(connection)}
            if len(own) > 1 or own & others:
                raise SharedSessionsError
    finally:
        other.terminate()


async def _process_of(connection: Any) -> tuple[int, str]:  # noqa: ANN401 - asyncpg has no types
    """Return the id of the process that serves a connection just now, and the start of its server, as ids come again.

    By COPY, as the driver prepares all else that has an answer, and a pooler may run what was prepared elsewhere.
    """
    answer = bytearray()

    async def take(data: bytes) -> None:
        answer.extend(data)

    await connection.copy_from_query("SELECT pg_backend_pid(), pg_postmaster_start_time()", output=take)
    pid, _, started = answer.decode().partition("\t")
    return int(pid), started
