"""Limits that an administrator sets, and events of quotas, which one lock service tells once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

import pytest
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as storage_pb

from services.common.errors import InvalidArgument, NotFound, Reason
from services.database.transactions import Database
from services.locks.access.limited_groups import LimitedGroups
from services.locks.audit.recorder import watch_transactions
from services.locks.storage_client import StorageClient
from services.locks.webhooks.quota_events import tell_quota_events
from tests.service.locks.conftest import running_both
from tests.support.locks import RunningLocks, refused
from tests.support.postgres import TestPostgres
from tests.support.storage import RunningStorage, failure
from tests.support.waiting import until, until_answer

RECORDED = """
    SELECT coalesce(string_agg(concat_ws(' ', type, actor, source, after->>'used_bytes'), ', ' ORDER BY id), '')
    FROM locks.audit_events WHERE type LIKE 'org.towpath.quota.%'
"""
DELIVERIES = """
    SELECT coalesce(string_agg(concat_ws(' ', event_type, payload->>'used_bytes'), ', ' ORDER BY id), '')
    FROM locks.hook_deliveries
"""
LIMITS = """
    SELECT string_agg(concat_ws(' ', subject, before, after), ', ' ORDER BY id)
    FROM locks.audit_events WHERE type = 'org.towpath.limits.changed'
"""


@dataclass
class Both:
    """A lock service, the storage service that it calls, and what a replica of the lock service tells with."""

    locks: RunningLocks
    storage: RunningStorage
    database: Database
    client: StorageClient

    async def limit(self, *, quota: int | None = None, bandwidth: int | None = None) -> admin.SetLimitsResponse:
        """Set limits of the repository."""
        request = admin.SetLimitsRequest(repository="studio/film", quota_bytes=quota, bandwidth_bytes=bandwidth)
        return await self.locks.admin_peer.call(self.locks.admin.SetLimits, request)

    async def sql(self, statement: str) -> str:
        """Return the text that a statement selects in the database of the lock service."""
        [(told,)] = await self.locks.execute(statement)
        return str(told)

    async def tell(self) -> None:
        """Tell what is to be told."""
        await tell_quota_events(self.database, self.client)


@pytest.fixture
async def both(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Both]:
    """Both services, with the repository 1."""
    async with running_both(postgres, tmp_path_factory.mktemp("both")) as services:
        locks, storage = services.locks, services.storage
        await locks.add_repository("studio/film")
        client = StorageClient(storage.address, secret=None, admin_secret=None, tls=None)
        async with locks.open_database(pool_size=4) as database:
            watch_transactions(database.engine)
            yield Both(locks, storage, database, client)
        await client.close()


async def test_limits_are_set_and_audited(both: Both) -> None:
    """Each change has the limits before and after; what changes nothing is no event."""
    limits = (await both.limit(quota=500, bandwidth=0)).limits
    assert (limits.quota_bytes, limits.bandwidth_bytes, limits.HasField("bandwidth_bytes")) == (500, 0, True)
    await both.limit(quota=500)
    limits = (await both.limit(quota=-1)).limits
    assert not limits.HasField("quota_bytes")
    whole = '{"quota_bytes": 500, "bandwidth_bytes": 0}'
    assert await both.sql(LIMITS) == (
        f'repository studio/film {{}} {whole}, repository studio/film {whole} {{"bandwidth_bytes": 0}}'
    )
    usage = await both.locks.admin_peer.call(both.locks.admin.ListUsage, admin.ListUsageRequest())
    assert not usage.usage[0].usage.HasField("quota_bytes")
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await both.limit(quota=-2)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        unknown = admin.SetLimitsRequest(repository="studio/none", quota_bytes=5)
        await both.locks.admin_peer.call(both.locks.admin.SetLimits, unknown)


async def test_the_largest_objects_of_a_repository(both: Both) -> None:
    """An administrator sees what takes the most room, of one repository at a time."""
    oids = [await both.storage.write(1, bytes(size)) for size in (2, 3, 1)]
    ask = partial(both.locks.admin_peer.call, both.locks.admin.ListUsage)
    usage = (await ask(admin.ListUsageRequest(repository="studio/film", largest=2))).usage[0].usage
    assert [stored.oid for stored in usage.largest] == [oids[1], oids[0]]
    await both.locks.add_repository("studio/other")
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await ask(admin.ListUsageRequest(largest=2))


async def _untold(both: Both) -> list[storage_pb.QuotaEvent]:
    response = await both.storage.stub.ListQuotaEvents(storage_pb.ListQuotaEventsRequest())
    return list(response.events)


async def test_each_crossing_is_told_once(both: Both) -> None:
    """A webhook and the audit log get an event at 80 % and another when it is full, by one of several services."""
    hook = admin.CreateHookRequest(
        repository="studio/film", url="http://127.0.0.1:9", events=["quota.*"], allow_private=True
    )
    await both.locks.admin_peer.call(both.locks.admin.CreateHook, hook)
    await both.limit(quota=100)
    await both.storage.write(1, bytes(85))
    await until(lambda: _untold(both))
    await asyncio.gather(*(both.tell() for _ in range(4)))
    # A service that found another one at work has told nothing.
    await both.tell()
    warned = "org.towpath.quota.warned towpath service 85"
    assert await both.sql(RECORDED) == warned
    assert await both.sql(DELIVERIES) == "quota.warned 85"
    assert (await failure(both.storage.write(1, bytes(16)))).reason == "QUOTA_EXCEEDED"
    await both.tell()
    assert await both.sql(RECORDED) == f"{warned}, org.towpath.quota.exceeded towpath service 85"
    assert await both.sql(DELIVERIES) == "quota.warned 85, quota.exceeded 85"
    assert await _untold(both) == []


async def test_a_removed_repository_is_not_told_of(both: Both) -> None:
    """An event whose repository is gone is acknowledged all the same."""
    await both.storage.limit(77, quota=100)
    await both.storage.write(77, bytes(100))
    await until(lambda: _untold(both))
    await both.tell()
    assert await both.sql(RECORDED) == ""
    assert await _untold(both) == []


async def _quota(both: Both, user_id: int) -> int:
    request = storage_pb.GetUserUsageRequest(user_ids=[user_id])
    return (await both.storage.stub.GetUserUsage(request)).users[0].quota_bytes


async def test_the_members_of_a_group_have_its_quota(both: Both) -> None:
    """At once for those who are members, and soon after a change; a user's own quota goes before."""
    ids = {name: await both.locks.add_user(name) for name in ("alice", "bob")}
    call, stub = both.locks.admin_peer.call, both.locks.admin
    await both.locks.add_group("artists", "alice")
    await call(stub.SetLimits, admin.SetLimitsRequest(group_name="artists", quota_bytes=50))
    await until_answer(50, lambda: _quota(both, ids["alice"]))
    assert await _quota(both, ids["bob"]) == 0
    groups = LimitedGroups(both.database, both.client)
    await both.locks.add_members("artists", "bob")
    await groups.tell()
    await until_answer(50, lambda: _quota(both, ids["bob"]))
    limits = (await call(stub.SetLimits, admin.SetLimitsRequest(user_name="bob", quota_bytes=20))).limits
    assert limits.quota_bytes == 20
    await until_answer(20, lambda: _quota(both, ids["bob"]))
    usage = (await call(stub.GetUserUsage, admin.GetUserUsageRequest(user_name="bob"))).usage
    assert (usage.object_bytes, usage.quota_bytes) == (0, 20)
    await call(stub.RemoveGroupMembers, admin.RemoveGroupMembersRequest(group_name="artists", user_names=["alice"]))
    await groups.tell()
    await until_answer(0, lambda: _quota(both, ids["alice"]))
    assert await both.sql(LIMITS) == 'group artists {} {"quota_bytes": 50}, user bob {} {"quota_bytes": 20}'


async def test_limits_of_nobody(both: Both) -> None:
    """A request names one repository, user or group."""
    call, stub = both.locks.admin_peer.call, both.locks.admin
    for wrong in (
        admin.SetLimitsRequest(quota_bytes=1),
        admin.SetLimitsRequest(quota_bytes=1, user_name="admin", repository="studio/film"),
    ):
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await call(stub.SetLimits, wrong)
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await call(stub.SetLimits, admin.SetLimitsRequest(quota_bytes=1, user_name="none"))
    with refused(NotFound, Reason.GROUP_NOT_FOUND):
        await call(stub.SetLimits, admin.SetLimitsRequest(quota_bytes=1, group_name="none"))
