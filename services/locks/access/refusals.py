"""Refusals: why requests were refused, kept for seven days under their request ids, without any credential.

Refusals are recorded in memory and written in the background. Memory, rates and table are bounded in rows and in bytes.
Callers without a credential, unknown credentials, and each user have rates of their own, so that a flood of some takes
nothing from the others; `locking.retention` bounds the rows of strangers and of users apart.
"""

import asyncio
import json
import re
import time
from collections import OrderedDict, deque
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
_BURST = 500.0
# In seven days, one lock service writes at most 483,840 refusals of strangers, and of a user 120,960 of each kind.
_ANONYMOUS_PER_SECOND = _UNKNOWN_PER_SECOND = 0.4
_USERS_PER_SECOND = 20.0
_USER_PER_SECOND, _BURST_OF_USER = 0.2, 100.0
_MAX_USERS = 10_000
_INTERVAL_SECONDS = 1.0
_RETRY_SECONDS = 5.0
# A row has at most 12 KiB: nine texts, 50 names of groups, and the grants.
_MAX_TEXT_BYTES = 500
_MAX_GRANTS = 50
_MAX_GRANT_BYTES = 4096

# Tokens of ours, JSON Web Tokens and action tokens, tokens of forges (those of Gitea are 40 hexadecimal digits), what
# follows the name of a scheme or of a field for secrets, and the credentials in an URL.
_CREDENTIAL = re.compile(
    rf"{re.escape(TOKEN_PREFIX)}[\w-]+|\beyJ[\w-]+(?:\.[\w-]*)*"
    r"|\b(?:gh[a-z]|github_pat|gto|gl(?:pat|dt|rt|rtr|cbt|ptt|ft|soat|agent|oas|imt|ffct|wt))[_-][\w.-]+"
    r"|\b[0-9a-fA-F]{40}\b|(?i:\b(?:bearer|basic|token)\s+\S{8,})|(?<=//)[^/\s]+@"
    r"|(?i:(?<=token=)|(?<=secret=)|(?<=password=)|(?<=signature=)|(?<=key=))[^&\s]+"
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
            'key ' || ssh_keys.name, 'token ' || tokens.name) AS source
        FROM locks.tokens LEFT JOIN locks.forges ON forges.id = tokens.forge_id
            LEFT JOIN locks.issuers ON issuers.id = tokens.issuer_id
            LEFT JOIN locks.ssh_keys ON ssh_keys.id = tokens.ssh_key_id
        WHERE tokens.id = :token_id OR tokens.token_hash = CAST(:hash AS bytea)
        UNION ALL
        SELECT 0, user_id, 'token ' || name FROM locks.revoked_tokens WHERE token_hash = CAST(:hash AS bytea)
        LIMIT 1
    ) AS shown ON true
    LEFT JOIN locks.users ON users.id = coalesce(nullif(:user_id, 0), shown.user_id)
""")


def redacted(value: str) -> str:
    """Return a text without what could be a credential, of at most 500 bytes."""
    hidden = _CREDENTIAL.sub("[hidden]", value[: 4 * _MAX_TEXT_BYTES].replace("\0", ""))
    return hidden.encode()[:_MAX_TEXT_BYTES].decode(errors="ignore")


def _fitting(grants: Sequence[dict[str, Any]]) -> str:
    """Return the first grants as JSON of at most 4 KiB, with the number of ref patterns that are left out."""
    fitting: list[dict[str, Any]] = []
    left = _MAX_GRANT_BYTES - 2
    for grant in grants[:_MAX_GRANTS]:
        patterns = list(grant["ref_patterns"])
        cut = grant
        while (size := len(json.dumps(cut)) + 2) > left and patterns:
            del patterns[len(patterns) // 2 :]
            cut = {**grant, "ref_patterns": [*patterns, f"and {len(grant['ref_patterns']) - len(patterns)} more"]}
        if size > left:
            break
        fitting.append(cut)
        left -= size
    return json.dumps(fitting)


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
    is_of_owner: bool = False
    """True where only the owner can have shown the token, because it was valid once."""
    request_id: str = field(default_factory=request_id.current)

    @property
    def user_key(self) -> int | str | bytes | None:
        """The user, or the hash of a token that only its user can have shown; None where neither is known."""
        return self.user_id or self.user_name or (self.token_hash if self.is_of_owner else None)

    @property
    def has_credential(self) -> bool:
        """True where a credential was shown."""
        return self.token_hash is not None or self.reason == Reason.BAD_CREDENTIALS

    def values(self) -> dict[str, Any]:
        """Return the parameters of the statement that writes the refusal, with bounded texts."""
        texts = ("reason", "message", "rule", "source", "user_name", "repository", "permission", "ref")
        return {
            **{name: redacted(getattr(self, name)) for name in texts},
            "request_id": self.request_id,
            "user_id": self.user_id,
            "token_id": self.token_id,
            "hash": self.token_hash,
            "grants": _fitting(self.grants),
        }


class _Budget:
    """A token bucket."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._left, self._at = burst, time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class _Budgets:
    """The rates of callers without a credential, of unknown credentials, of all users together, and of each user."""

    def __init__(self) -> None:
        self._anonymous, self._unknown = _Budget(_ANONYMOUS_PER_SECOND, _BURST), _Budget(_UNKNOWN_PER_SECOND, _BURST)
        self._users = _Budget(_USERS_PER_SECOND, _BURST)
        # The user who was refused last is the last.
        self._by_user: OrderedDict[int | str | bytes, _Budget] = OrderedDict()

    def take(self, refused: Refused) -> bool:
        if not (key := refused.user_key):
            return (self._unknown if refused.has_credential else self._anonymous).take()
        if (own := self._by_user.get(key)) is None:
            own = self._by_user[key] = _Budget(_USER_PER_SECOND, _BURST_OF_USER)
            if len(self._by_user) > _MAX_USERS:
                self._by_user.popitem(last=False)
        self._by_user.move_to_end(key)
        return own.take() and self._users.take()


class Refusals:
    """Records refusals and writes them to the database; those over the bounds are counted and dropped."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: deque[tuple[float, dict[str, Any]]] = deque()
        self._wanted = asyncio.Event()
        self._budgets = _Budgets()

    def record(self, refused: Refused) -> None:
        """Record a refusal of the current request; this never fails and never waits."""
        if not refused.request_id or len(self._queue) >= _MAX_QUEUED or not self._budgets.take(refused):
            REFUSALS.labels("dropped").inc()
            return
        self._queue.append((time.monotonic(), refused.values()))
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
            await connection.execute(_WRITE, [{**values, "age": now - at} for at, values in batch])
        for _ in batch:
            self._queue.popleft()
        REFUSALS.labels("recorded").inc(len(batch))
        if not self._queue:
            self._wanted.clear()


async def find_refusals(connection: AsyncConnection, request: str) -> Sequence[Refusal]:
    """Return the refusals of a request in the order of their decisions. Raises `NotFound` (REQUEST_NOT_FOUND).

    Of more than 20, those of users are found first, because anybody can send the id of somebody else's request.
    """
    statement = (
        select(*Refusal.__table__.c)
        .where(col(Refusal.request_id) == request)
        .order_by(col(Refusal.user_name) == "", col(Refusal.created_at), col(Refusal.id))
        .limit(MAX_REFUSALS_OF_REQUEST)
    )
    found = [Refusal(**row) for row in (await connection.execute(statement)).mappings()]
    if not found:
        message = "request_id: no refusal is known of this request; one is kept for seven days"
        raise NotFound(Reason.REQUEST_NOT_FOUND, message)
    return sorted(found, key=lambda refusal: (refusal.created_at, refusal.id))
