"""Events of quotas: the storage service knows them, and the lock services record and deliver each of them once.

An event is acknowledged after it was recorded. What was recorded and not acknowledged, because a service crashed or
another one was faster, is found in the audit log.
"""

from functools import partial
from typing import Any, Never

from sqlalchemy import func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.concurrency.periodic import run_periodically
from services.common.errors import Unimplemented
from services.database.transactions import Database
from services.locks.audit import event_types as audit
from services.locks.audit.recorder import SERVICE, acting, record
from services.locks.repositories import names_by_id
from services.locks.storage_client import StorageClient
from services.locks.webhooks.deliveries import record_event
from services.locks.webhooks.event_types import QUOTA_EXCEEDED, QUOTA_WARNED

INTERVAL_SECONDS = 60.0

_TYPES = {
    pb.QUOTA_LEVEL_WARNED: (QUOTA_WARNED, audit.QUOTA_WARNED),
    pb.QUOTA_LEVEL_EXCEEDED: (QUOTA_EXCEEDED, audit.QUOTA_EXCEEDED),
}
_ACTOR = "towpath"
_ALONE = func.pg_advisory_xact_lock(func.hashtextextended("towpath quota events", literal(0)))
_IS_RECORDED = text("""
    SELECT EXISTS (
        SELECT FROM locks.audit_events
        WHERE created_at > now() - interval '1 day' AND type = :type
            AND after->>'repository_id' = :repository_id AND after->>'reached_at' = :reached_at
    )
""")


async def keep_telling(database: Database, storage: StorageClient) -> Never:
    """Tell of quotas, at once and then every minute, until cancelled."""

    async def work() -> None:
        await tell_quota_events(database, storage)

    await run_periodically(work, INTERVAL_SECONDS, trouble="quotas are not told of")


async def tell_quota_events(database: Database, storage: StorageClient) -> None:
    """Record the events that the storage service has."""
    try:
        found = await storage.call(storage.objects.ListQuotaEvents, pb.ListQuotaEventsRequest())
    except Unimplemented:
        # The storage service is of the version before.
        return
    if not found.events:
        return
    with acting(_ACTOR, SERVICE):
        await database.run(partial(_record, events=list(found.events)))
    acknowledged = pb.AcknowledgeQuotaEventsRequest(events=found.events)
    await storage.call(storage.objects.AcknowledgeQuotaEvents, acknowledged)


async def _record(connection: AsyncConnection, events: list[pb.QuotaEvent]) -> None:
    await connection.execute(select(_ALONE))
    names = await names_by_id(connection, [event.repository_id for event in events])
    for event in events:
        # A removed repository has no quota any more.
        if event.repository_id in names and event.level in _TYPES:
            await _record_once(connection, event, names[event.repository_id])


async def _record_once(connection: AsyncConnection, event: pb.QuotaEvent, name: str) -> None:
    hook_type, audit_type = _TYPES[event.level]
    reached_at = event.reached_at.ToJsonString()
    asked = {"type": audit_type, "repository_id": str(event.repository_id), "reached_at": reached_at}
    if await connection.scalar(_IS_RECORDED, asked):
        return
    use: dict[str, Any] = {"used_bytes": event.used_bytes, "quota_bytes": event.quota_bytes}
    payload = {"repository_name": name, **use, "created_at": reached_at}
    await record_event(connection, hook_type, event.repository_id, payload)
    fields = {"repository_id": event.repository_id, **use, "reached_at": reached_at}
    await record(connection, audit_type, subject=f"repository {name}", repository=name, after=fields)
