"""Notifications of changes from Postgres triggers, received at commit, whoever makes a change (docs/decisions/0018)."""

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import SecretStr

from services.common.errors import Reason, Unavailable
from services.common.observability.logs import get_logger
from services.database.engine import driver_connection
from services.database.sessions import SharedSessionsError

_ANSWER_SECONDS = 5.0
_RETRY_SECONDS = 0.5

_log = get_logger(__name__)


class Source(NamedTuple):
    """The triggers of one name, on tables of a service's schema, that notify a channel."""

    schema: str
    channel: str
    trigger: str
    tables: Sequence[str]
    subject: str
    """The name of the changes in messages, such as `changes of access`."""
    columns: Sequence[str] = ()
    """Expressions in SQL whose values each look returns."""

    @property
    def look(self) -> str:
        """The statement of a look: it returns the triggers that exist and fire ALWAYS, and the columns' values."""
        tables = ", ".join(f"to_regclass('{table}')" for table in self.tables)
        triggers = f"""(SELECT array_agg(oid ORDER BY oid) FROM pg_trigger
            WHERE tgname = '{self.trigger}' AND tgenabled = 'A' AND tgrelid IN ({tables}))"""  # noqa: S608 - our own names
        return f"SELECT {', '.join((triggers, *self.columns))}"


class Poll(NamedTuple):
    """The answer to a look on the connection that listens."""

    values: Sequence[Any]
    """The values of the columns of the source."""
    changes: int
    """The number of changes that had been received when the statement was sent."""


class Notifications:
    """Listens to a source."""

    def __init__(self, database_url: SecretStr, source: Source) -> None:
        self._database_url = database_url
        self._source = source
        self._listening: Listening | None = None

    @property
    def listening(self) -> "Listening":
        """The connection that listens at present. Raises `Unavailable` if there is none."""
        if self._listening is None:
            raise _not_heard(self._source)
        return self._listening

    async def keep_listening(self) -> None:
        """Listen on a separate connection until cancelled, and reconnect when it is lost.

        Raises `SharedSessionsError` if a pooler shares sessions among clients.
        """
        is_logged = False
        while True:
            try:
                async with driver_connection(self._database_url, schema=self._source.schema) as connection:
                    listening = await Listening.begin(connection, self._source)
                    is_logged = False
                    await self._answer_by(listening)
            except SharedSessionsError:
                raise
            except Exception as error:  # after any error, `listening` raises until it works again
                if not is_logged:
                    _log.warning(f"{self._source.subject} are not heard", error=repr(error))
                is_logged = True
            await asyncio.sleep(_RETRY_SECONDS)

    async def _answer_by(self, listening: "Listening") -> None:
        self._listening = listening
        try:
            await listening.serve()
        finally:
            self._listening = None
            listening.end()


class Listening:
    """One connection that listens. Each has a new id, because a change between two connections may be missed."""

    def __init__(self, connection: Any, source: Source) -> None:  # noqa: ANN401 - asyncpg has no types
        self.id = uuid.uuid4().hex
        self.changes = 0
        """The number of changes that were received."""
        self._changed = asyncio.Event()
        self._connection = connection
        self._source = source
        self._triggers: Sequence[int] = ()
        self._asked: list[asyncio.Future[Poll]] = []
        self._wanted = asyncio.Event()
        self._ended = False

    @classmethod
    async def begin(cls, connection: Any, source: Source) -> "Listening":  # noqa: ANN401 - asyncpg has no types
        """Start to listen. Raises RuntimeError if a table has no trigger because it is not migrated yet."""
        listening = cls(connection, source)
        await connection.add_listener(source.channel, listening._on_notify)
        # Wakes the callers of `wait` when the connection is cut.
        connection.add_termination_listener(listening._on_notify)
        listening._triggers = await connection.fetchval(source.look) or ()
        if len(listening._triggers) != len(source.tables):
            raise RuntimeError("the tables do not tell of changes: run `towpath migrate`")
        return listening

    def _on_notify(self, *_notification: object) -> None:
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return at the next change, or after `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def sync(self) -> Poll:
        """Wait until every change acknowledged before this call is received, and return a look sent after it.

        Raises `Unavailable` if the connection has ended, or ends before that.
        """
        if self._ended:
            raise _not_heard(self._source)
        asked: asyncio.Future[Poll] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self._wanted.set()
        return await asked

    async def serve(self) -> None:
        """Answer the callers of `sync` while the connection lasts, and raise the error that ends it."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            answered, changes = len(self._asked), self.changes
            # Postgres sends earlier notifications before it answers a statement on the same connection.
            triggers, *values = await self._connection.fetchrow(self._source.look, timeout=_ANSWER_SECONDS)
            if triggers != self._triggers:
                raise RuntimeError("the tables are not those that told of changes")
            for asked in self._asked[:answered]:
                if not asked.done():
                    asked.set_result(Poll(values, changes))
            del self._asked[:answered]

    def end(self) -> None:
        """Wake the callers of `wait`, and raise `Unavailable` to the callers of `sync`."""
        self._ended = True
        self._changed.set()
        for asked in self._asked:
            if not asked.done():
                asked.set_exception(_not_heard(self._source))
        self._asked.clear()


def _not_heard(source: Source) -> Unavailable:
    return Unavailable(Reason.UNAVAILABLE, f"{source.subject} are not heard of")
