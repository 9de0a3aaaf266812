"""What takes accesses away, heard of as it is committed, whoever does it (docs/decisions/0018)."""

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import SecretStr

from services.common.errors import Reason, Unavailable
from services.common.logs import get_logger
from services.database.engine import driver_connection
from services.database.sessions import SharedSessionsError
from services.locks.models import SCHEMA

# What the triggers of the migration 0003 notify.
_CHANNEL = "towpath_access_changed"
_TRIGGERS = """
    SELECT array_agg(oid ORDER BY oid) FROM pg_trigger
    WHERE tgname = 'access_changed' AND tgenabled = 'A'
    AND tgrelid IN (to_regclass('users'), to_regclass('tokens'), to_regclass('repositories'), to_regclass('grants'))
"""
_TABLES = 4

_ANSWER_SECONDS = 5.0
_PAUSE_SECONDS = 0.5

_log = get_logger(__name__)


class AccessChanges:
    """Counts the changes by which anybody may lose an access."""

    def __init__(self, database_url: SecretStr) -> None:
        self._database_url = database_url
        self._listening: _Listening | None = None

    async def keep_listening(self) -> None:
        """Listen, for ever, on a connection of its own, which is made anew when it is lost.

        Raises `SharedSessionsError` where a pooler gives sessions to others.
        """
        told = False
        while True:
            try:
                async with driver_connection(self._database_url, schema=SCHEMA.name) as connection:
                    listening = await _Listening.begin(connection)
                    told = False
                    await self._answer_by(listening)
            except SharedSessionsError:
                raise
            except Exception as error:  # whatever it was, nobody is told that all is known before it works again
                if not told:
                    _log.warning("changes of access are not heard", error=repr(error))
                told = True
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _answer_by(self, listening: "_Listening") -> None:
        self._listening = listening
        try:
            await listening.answer()
        finally:
            self._listening = None
            listening.end()

    async def watch(self, known: Mapping[str, int], wait_seconds: float) -> tuple[str, int]:
        """Return who listens now, and how many changes that one has heard; see AccessService.WatchAccess.

        Where `known` has just that, wait for a change, at most for `wait_seconds`. What was acknowledged before the
        call is counted. Raises `Unavailable` where nobody listens.
        """
        if (listening := self._listening) is None:
            raise _not_heard()
        if known.get(listening.source) == listening.changes:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await listening.changed.wait()
        await listening.catch_up()
        return listening.source, listening.changes


class _Listening:
    """What is heard on one connection; another one may miss what comes in between, and so has another name."""

    def __init__(self, connection: Any, triggers: list[int]) -> None:  # noqa: ANN401 - asyncpg has no types
        self.source = uuid.uuid4().hex
        self.changes = 0
        self.changed = asyncio.Event()
        self._connection = connection
        self._triggers = triggers
        self._asked: list[asyncio.Future[None]] = []
        self._wanted = asyncio.Event()
        self._ended = False

    @classmethod
    async def begin(cls, connection: Any) -> "_Listening":  # noqa: ANN401 - asyncpg has no types
        """Listen. Raises RuntimeError where a table has no trigger: it is not migrated yet."""
        triggers = await connection.fetchval(_TRIGGERS) or []
        if len(triggers) != _TABLES:
            raise RuntimeError("the tables do not tell of changes: run `towpath migrate`")
        listening = cls(connection, triggers)
        await connection.add_listener(_CHANNEL, listening._hear)
        # Those who wait are to find out that it is cut.
        connection.add_termination_listener(listening._hear)
        return listening

    def _hear(self, *_notification: object) -> None:
        self.changes += 1
        self.changed.set()
        self.changed = asyncio.Event()

    async def catch_up(self) -> None:
        """Return when all is heard that was acknowledged before. Raises `Unavailable` where that cannot be known."""
        if self._ended:
            raise _not_heard()
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self._wanted.set()
        await asked

    async def answer(self) -> None:
        """Let those who catch up know when they have, for as long as the connection lasts; raise what ends it."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            answered = len(self._asked)
            # Postgres sends what was notified before it answers a statement on the same connection.
            if await self._connection.fetchval(_TRIGGERS, timeout=_ANSWER_SECONDS) != self._triggers:
                raise RuntimeError("the tables are not those that told of changes")
            for asked in self._asked[:answered]:
                if not asked.done():
                    asked.set_result(None)
            del self._asked[:answered]

    def end(self) -> None:
        """Tell those who wait that nothing is heard any more."""
        self._ended = True
        self.changed.set()
        for asked in self._asked:
            if not asked.done():
                asked.set_exception(_not_heard())
        self._asked.clear()


def _not_heard() -> Unavailable:
    return Unavailable(Reason.UNAVAILABLE, "changes of access are not heard of")
