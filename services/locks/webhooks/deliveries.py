"""The queue of deliveries, which triggers and `record_event` fill in the transaction of the change.

A delivery is claimed by a lease: until that ends, no other service attempts it, and afterwards any does, because the
first has crashed. Only the oldest pending delivery of a hook and a repository can be claimed, so that their order is
kept.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import bindparam, case, func, literal, select, text, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import NotFound, Reason
from services.database.transactions import Database
from services.locks.metrics import WEBHOOK_PENDING
from services.locks.models import Hook, HookDelivery
from services.locks.webhooks.hooks import DISABLED, check_enabled, check_exists, disable_hook

_DELIVERY = HookDelivery.__table__.c
_MAX_PRUNED = 1_000

# One look at the index for each hook and repository that has pending deliveries, however many these are.
_DUE = text("""
    WITH RECURSIVE head AS (
        (
            SELECT id, hook_id, repository_id, next_attempt_at FROM hook_deliveries
            WHERE next_attempt_at IS NOT NULL ORDER BY hook_id, repository_id, id LIMIT 1
        )
        UNION ALL
        SELECT following.* FROM head CROSS JOIN LATERAL (
            SELECT later.id, later.hook_id, later.repository_id, later.next_attempt_at FROM hook_deliveries AS later
            WHERE later.next_attempt_at IS NOT NULL
                AND (later.hook_id, later.repository_id) > (head.hook_id, head.repository_id)
            ORDER BY later.hook_id, later.repository_id, later.id LIMIT 1
        ) AS following
    )
    SELECT id, hook_id FROM (
        SELECT *, row_number() OVER (PARTITION BY hook_id ORDER BY next_attempt_at, id) AS place
        FROM head WHERE next_attempt_at <= now()
    ) AS due
    WHERE place <= :per_hook AND hook_id <> ALL (CAST(:busy AS bigint[]))
    ORDER BY next_attempt_at, id LIMIT :limit
""")
_CLAIM = text("""
    WITH free AS MATERIALIZED (
        SELECT id FROM hook_deliveries WHERE id = ANY (CAST(:ids AS bigint[])) AND next_attempt_at <= now()
        FOR UPDATE SKIP LOCKED
    )
    UPDATE hook_deliveries AS claimed
    SET next_attempt_at = now() + make_interval(secs => :lease), attempts = claimed.attempts + 1, problem = ''
    FROM free, hooks WHERE claimed.id = free.id AND hooks.id = claimed.hook_id
    RETURNING claimed.id, claimed.hook_id, claimed.repository_id, claimed.message_uuid, claimed.event_type,
        claimed.payload, claimed.attempts, claimed.next_attempt_at AS leased_until,
        hooks.url, hooks.format, hooks.secret, hooks.allows_private, hooks.disabled_at IS NOT NULL AS disabled
""").columns(payload=JSONB())
_RECORD_EVENT = text("""
    INSERT INTO hook_deliveries (hook_id, repository_id, event_type, payload)
    SELECT id, :repository_id, :type, :payload FROM hooks
    WHERE coalesce(repository_id, :repository_id) = :repository_id AND disabled_at IS NULL
        AND EXISTS (SELECT FROM unnest(events) AS wanted WHERE :type LIKE replace(wanted, '*', '%'))
    ORDER BY id
""").bindparams(bindparam("payload", type_=JSONB()))
# The oldest rows have the lowest ids, so that no index of times is needed.
_PRUNE = text("""
    DELETE FROM hook_deliveries WHERE id IN (
        SELECT id FROM (SELECT * FROM hook_deliveries ORDER BY id LIMIT :limit) AS oldest
        WHERE next_attempt_at IS NULL AND created_at < now() - make_interval(secs => :seconds)
    )
""")


class Claim(NamedTuple):
    """A delivery that is to be attempted now, and its hook."""

    id: int
    hook_id: int
    repository_id: int
    message_uuid: UUID
    event_type: str
    payload: Mapping[str, Any]
    attempts: int
    leased_until: datetime
    url: str
    format: str
    secret: str
    allows_private: bool
    disabled: bool


async def list_due(
    connection: AsyncConnection, *, per_hook: int, busy: Collection[int], limit: int
) -> Sequence[tuple[int, int]]:
    """Return deliveries that can be claimed, by their ids and hooks: at most `per_hook` of each that is not busy."""
    rows = await connection.execute(_DUE, {"per_hook": per_hook, "busy": list(busy), "limit": limit})
    return [(row.id, row.hook_id) for row in rows]


async def claim(connection: AsyncConnection, ids: Sequence[int], lease: timedelta) -> Sequence[Claim]:
    """Claim those of the deliveries that nobody else has claimed. The claims hold once the transaction has ended."""
    rows = await connection.execute(_CLAIM, {"ids": list(ids), "lease": lease.total_seconds()})
    return [Claim(*row) for row in rows]


async def record_delivered(connection: AsyncConnection, claim: Claim, status: int) -> None:
    """Record that a delivery has succeeded, unless its lease was lost."""
    await _finish(connection, claim, delivered_at=func.now(), response_status=status)


async def record_failed(
    connection: AsyncConnection, claim: Claim, status: int | None, problem: str, *, pause: timedelta, window: timedelta
) -> bool:
    """Let a delivery be attempted again after `pause`, or give it up at the end of `window`; return whether it did.

    The last attempt is made when the window ends, counted from the time at which the delivery was queued.
    """
    end = col(HookDelivery.queued_at) + literal(window)
    statement = (
        update(HookDelivery)
        .where(col(HookDelivery.id) == claim.id, col(HookDelivery.next_attempt_at) == claim.leased_until)
        .values(
            next_attempt_at=case((func.now() < end, func.least(func.now() + literal(pause), end))),
            response_status=status,
            problem=problem,
        )
        .returning(col(HookDelivery.next_attempt_at).is_(None))
    )
    return bool(await connection.scalar(statement))


async def record_gone(connection: AsyncConnection, claim: Claim, status: int, because: str) -> None:
    """Disable the hook of a delivery, whose receiver wants no more, and end all of its deliveries."""
    # Of several receivers' answers to one hook, the first disables it; in another order they could wait for each other.
    await connection.execute(select(col(Hook.id)).where(col(Hook.id) == claim.hook_id).with_for_update(key_share=True))
    await _finish(connection, claim, response_status=status, problem=because)
    await disable_hook(connection, claim.hook_id, because)


async def record_disabled(connection: AsyncConnection, claim: Claim) -> None:
    """End a delivery that was queued while its hook was being disabled."""
    await _finish(connection, claim, problem=DISABLED)


async def _finish(connection: AsyncConnection, claim: Claim, **values: Any) -> None:  # noqa: ANN401 - of any column
    await connection.execute(
        update(HookDelivery)
        .where(col(HookDelivery.id) == claim.id, col(HookDelivery.next_attempt_at) == claim.leased_until)
        .values(next_attempt_at=None, **values)
    )


async def record_event(
    connection: AsyncConnection, event_type: str, repository_id: int, payload: Mapping[str, Any]
) -> None:
    """Queue the deliveries of an event that no trigger sees: of an object, or of a quota."""
    parameters = {"repository_id": repository_id, "type": event_type, "payload": payload}
    await connection.execute(_RECORD_EVENT, parameters)


async def list_deliveries(
    connection: AsyncConnection, hook_id: int, *, before: int | None, limit: int, failed: bool
) -> tuple[Sequence[HookDelivery], bool]:
    """Return at most `limit` deliveries of a hook, the latest first, and whether more follow.

    `before` is the id of the last one of the previous page; `failed` selects those that have ended without success.
    Raises `NotFound` (HOOK_NOT_FOUND).
    """
    await check_exists(connection, hook_id)
    statement = select(*_DELIVERY).where(col(HookDelivery.hook_id) == hook_id)
    if before is not None:
        statement = statement.where(col(HookDelivery.id) < before)
    if failed:
        statement = statement.where(_given_up())
    result = await connection.execute(statement.order_by(col(HookDelivery.id).desc()).limit(limit + 1))
    rows = result.mappings().all()
    return [HookDelivery(**row) for row in rows[:limit]], len(rows) > limit


async def redeliver(connection: AsyncConnection, hook_id: int, delivery_id: int | None) -> int:
    """Queue one delivery of a hook anew, or all that have ended without success; return how many.

    A delivery that has not failed yet goes on as it is. Raises `NotFound` (HOOK_NOT_FOUND, DELIVERY_NOT_FOUND) and
    `FailedPrecondition` (HOOK_DISABLED).
    """
    await check_enabled(connection, hook_id)
    which = _given_up() if delivery_id is None else col(HookDelivery.id) == delivery_id
    is_attempted = col(HookDelivery.next_attempt_at).is_not(None) & (col(HookDelivery.problem) == "")
    statement = (
        update(HookDelivery)
        .where(col(HookDelivery.hook_id) == hook_id, which, ~is_attempted)
        .values(
            next_attempt_at=func.now(),
            queued_at=func.now(),
            attempts=0,
            delivered_at=None,
            response_status=None,
            problem="",
        )
        .returning(col(HookDelivery.id))
    )
    count = len((await connection.execute(statement)).all())
    if delivery_id is not None and not count:
        is_known = select(col(HookDelivery.id)).where(col(HookDelivery.hook_id) == hook_id, which)
        if await connection.scalar(is_known) is None:
            raise NotFound(Reason.DELIVERY_NOT_FOUND, f"the hook {hook_id} has no delivery {delivery_id}")
    return count


async def prune(connection: AsyncConnection, keep: timedelta) -> bool:
    """Delete some of the finished deliveries that are older than `keep`; return whether there were any."""
    result = await connection.execute(_PRUNE, {"limit": _MAX_PRUNED, "seconds": keep.total_seconds()})
    return bool(result.rowcount)


async def refresh_pending(database: Database) -> None:
    """Replace the metric of pending deliveries. Raises the errors of the database."""
    WEBHOOK_PENDING.set(await database.run(_count_pending))


async def _count_pending(connection: AsyncConnection) -> int:
    statement = select(func.count()).where(col(HookDelivery.next_attempt_at).is_not(None))
    return int(await connection.scalar(statement) or 0)


def _given_up() -> Any:  # noqa: ANN401 - SQLAlchemy's operators on booleans are not typed
    return col(HookDelivery.next_attempt_at).is_(None) & col(HookDelivery.delivered_at).is_(None)
