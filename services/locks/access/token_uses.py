"""The last use of each token, written in the background and never by the request itself."""

import asyncio
import math
import time
from itertools import islice

from sqlalchemy import text

from services.common.concurrency.periodic import run_periodically
from services.database.transactions import Database

# Together with the time for which facades cache an answer (see `access_service`), below the promised ten minutes.
_REST_SECONDS = 240.0
_INTERVAL_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_MAX_BATCH = 1_000
_MAX_TOKENS = 100_000

# SKIP LOCKED passes over a token that is being revoked, so that neither transaction waits for the other.
# Ages instead of times, because the clocks of this host and of Postgres may differ.
_WRITE = text("""
    INSERT INTO token_uses AS known (token_id, used_at)
        SELECT tokens.id, now() - make_interval(secs => used.age)
        FROM unnest(CAST(:ids AS bigint[]), CAST(:ages AS double precision[])) AS used (id, age)
        JOIN tokens ON tokens.id = used.id
        ORDER BY tokens.id FOR KEY SHARE OF tokens SKIP LOCKED
    ON CONFLICT (token_id) DO UPDATE SET used_at = excluded.used_at WHERE known.used_at < excluded.used_at
""")


class TokenUses:
    """Records uses of tokens and writes them to the database, at most once in four minutes for each token.

    No request waits for a write or fails because of it: a use that cannot be written stays in memory until it can. A
    use that is recorded in the last second before the process ends may be lost.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # Times of `time.monotonic` by token id.
        self._noted: dict[int, float] = {}
        self._written: dict[int, float] = {}
        self._wanted = asyncio.Event()

    def record(self, token_id: int) -> None:
        """Record that a token is used now."""
        now = time.monotonic()
        if now - self._written.get(token_id, -math.inf) < _REST_SECONDS:
            return
        if token_id in self._noted or len(self._noted) < _MAX_TOKENS:
            self._noted[token_id] = now
            self._wanted.set()

    async def keep_writing(self) -> None:
        """Write recorded uses to the database until cancelled."""
        await run_periodically(
            self._write, _INTERVAL_SECONDS, trouble="uses of tokens are not written", retry_seconds=_RETRY_SECONDS
        )

    async def _write(self) -> None:
        await self._wanted.wait()
        uses = dict(islice(self._noted.items(), _MAX_BATCH))
        # Bypasses `Database.run`, which would make the service not ready if only this write found the disk full.
        async with self._database.engine.begin() as connection:
            now = time.monotonic()
            await connection.execute(_WRITE, {"ids": list(uses), "ages": [now - used_at for used_at in uses.values()]})
        for token_id in uses:
            del self._noted[token_id]
        resting = {token_id: at for token_id, at in self._written.items() if now - at < _REST_SECONDS}
        self._written = resting | uses
        if not self._noted:
            self._wanted.clear()
