"""Refusals: why requests were refused, kept for seven days under their request ids, without any credential.

Refusals are recorded in memory and written in the background. The memory, the rate and the table are bounded, so that a
flood of bad credentials cannot fill the disk; strangers have a rate of their own, which takes nothing from known users.
"""

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Counter
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.concurrency.periodic import run_periodically
from services.common.errors import NotFound, Reason
from services.common.observability import request_id
from services.common.token_prefix import TOKEN_PREFIX
from services.database.transactions import Database
from services.locks.models import Refusal

REFUSALS = Counter(
    "towpath_refusals_total", "Refusals of requests, by whether they were recorded for explanations.", ["result"]
)

MAX_REFUSALS_OF_REQUEST = 20
_MAX_QUEUED = 2_000
_MAX_BATCH = 200
# In seven days, one lock service writes at most 604,800 refusals of strangers at this rate.
_STRANGERS_PER_SECOND, _USERS_PER_SECOND = 1.0, 20.0
_BURST = 500.0
_INTERVAL_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_MAX_TEXT = 500
_MAX_GRANTS = 50

# Tokens of ours, JSON Web Tokens and action tokens, tokens of forges, and whatever follows the name of a scheme.
_CREDENTIAL = re.compile(
    rf"{re.escape(TOKEN_PREFIX)}[\w-]+|\beyJ[\w-]+(?:\.[\w-]*)*|\b(?:gh[a-z]|github_pat|glpat|gto)[_-]\w+"
    r"|(?i:\b(?:bearer|basic|token)\s+\S{8,})|(?<=//)[^/@\s]+@"
)
_WRITE = text("""
    INSERT INTO locks.refusals
        (request_id, created_at, reason, message, rule, source, user_name, repository, permission, ref, groups, grants)
    SELECT :request_id, now() - make_interval(secs => :age), :reason, :message, :rule,
        coalesce(shown.source, :source), coalesce(users.name, :user_name), :repository, :permission, :ref,
        ARRAY(
            SELECT groups.name FROM locks.groups WHERE id IN (
                SELECT group_id FROM locks.group_members WHERE user_id = users.id
                UNION SELECT group_id FROM locks.token_groups WHERE token_id = shown.token_id
            ) ORDER BY groups.name LIMIT 50
        ),
        CAST(:grants AS jsonb)
    FROM (SELECT 1) AS one
    LEFT JOIN LATERAL (
        SELECT tokens.id AS token_id, tokens.user_id, coalesce('forge ' || forges.name, 'issuer ' || issuers.name,
            'token ' || tokens.name) AS source
        FROM locks.tokens LEFT JOIN locks.forges ON forges.id = tokens.forge_id
            LEFT JOIN locks.issuers ON issuers.id = tokens.issuer_id
        WHERE tokens.id = :token_id OR tokens.token_hash = CAST(:hash AS bytea)
        UNION ALL
        SELECT 0, user_id, 'token ' || name FROM locks.revoked_tokens WHERE token_hash = CAST(:hash AS bytea)
        LIMIT 1
    ) AS shown ON true
    LEFT JOIN locks.users ON users.id = coalesce(nullif(:user_id, 0), shown.user_id)
""")


def redacted(value: str) -> str:
    """Return a text without what could be a credential, of at most 500 characters."""
    return _CREDENTIAL.sub("[hidden]", value[: 4 * _MAX_TEXT].replace("\0", ""))[:_MAX_TEXT]


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal to record. The writer finds names by the ids and by the hash of a token, which it does not keep."""

    reason: str
    message: str
    rule: str
    source: str = ""
    user_id: int = 0
    user_name: str = ""
    token_id: int = 0
    token_hash: bytes | None = None
    repository: str = ""
    permission: str = ""
    ref: str = ""
    grants: Sequence[dict[str, Any]] = ()
    request_id: str = field(default_factory=request_id.current)
    at: float = field(default_factory=time.monotonic)

    @property
    def is_of_stranger(self) -> bool:
        """True where no user is known."""
        return not (self.user_id or self.user_name)

    def values(self, now: float) -> dict[str, Any]:
        """Return the parameters of the statement that writes the refusal."""
        texts = ("reason", "message", "rule", "source", "user_name", "repository", "permission", "ref")
        return {
            **{name: redacted(getattr(self, name)) for name in texts},
            "request_id": self.request_id,
            "age": now - self.at,
            "user_id": self.user_id,
            "token_id": self.token_id,
            "hash": self.token_hash,
            "grants": json.dumps(list(self.grants)[:_MAX_GRANTS]),
        }


class _Budget:
    """A token bucket."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._left, self._at = _BURST, time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self._left = min(_BURST, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Refusals:
    """Records refusals and writes them to the database; those over the bounds are counted and dropped."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: deque[Refused] = deque()
        self._wanted = asyncio.Event()
        self._strangers, self._users = _Budget(_STRANGERS_PER_SECOND), _Budget(_USERS_PER_SECOND)

    def record(self, refused: Refused) -> None:
        """Record a refusal of the current request; this never fails and never waits."""
        budget = self._strangers if refused.is_of_stranger else self._users
        if not refused.request_id or len(self._queue) >= _MAX_QUEUED or not budget.take():
            REFUSALS.labels("dropped").inc()
            return
        self._queue.append(refused)
        self._wanted.set()

    async def keep_writing(self) -> None:
        """Write recorded refusals to the database until cancelled."""
        await run_periodically(
            self._write, _INTERVAL_SECONDS, trouble="refusals are not written", retry_seconds=_RETRY_SECONDS
        )

    async def _write(self) -> None:
        await self._wanted.wait()
        batch = [self._queue[index] for index in range(min(_MAX_BATCH, len(self._queue)))]
        now = time.monotonic()
        # Bypasses `Database.run`, which would make the service not ready if only this write found the disk full.
        async with self._database.engine.begin() as connection:
            await connection.execute(_WRITE, [refused.values(now) for refused in batch])
        for _ in batch:
            self._queue.popleft()
        REFUSALS.labels("recorded").inc(len(batch))
        if not self._queue:
            self._wanted.clear()


async def find_refusals(connection: AsyncConnection, request: str) -> Sequence[Refusal]:
    """Return the refusals of a request in the order of their decisions. Raises `NotFound` (REQUEST_NOT_FOUND)."""
    statement = (
        select(*Refusal.__table__.c)
        .where(col(Refusal.request_id) == request)
        .order_by(col(Refusal.created_at), col(Refusal.id))
        .limit(MAX_REFUSALS_OF_REQUEST)
    )
    found = [Refusal(**row) for row in (await connection.execute(statement)).mappings()]
    if not found:
        message = "request_id: no refusal is known of this request; one is kept for seven days"
        raise NotFound(Reason.REQUEST_NOT_FOUND, message)
    return found
