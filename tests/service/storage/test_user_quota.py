"""Quotas of users: the bytes of the objects that a user has brought first, in all repositories together."""

import asyncio
import os
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.service.storage.conftest import Sql
from tests.service.storage.test_quota import named
from tests.support.direct import direct_storage, new_repository, some_bytes
from tests.support.garbage import collect
from tests.support.seaweedfs import SeaweedFS
from tests.support.storage import RunningStorage, failure, oid_of, refusal, running_storage, two_storages
from tests.support.stores import Stores
from tests.support.waiting import STEP_SECONDS, until, until_answer

MISSING, OVER_QUOTA = pb.OBJECT_STATUS_MISSING, pb.OBJECT_STATUS_OVER_QUOTA
ALICE, BOB, CAROL = 11, 12, 13


async def brought(storage: RunningStorage, user_id: int) -> pb.UserUsage:
    """Return what a user has brought."""
    request = pb.GetUserUsageRequest(user_ids=[user_id])
    return (await storage.stub.GetUserUsage(request, timeout=STEP_SECONDS)).users[0]


async def quota_of(storage: RunningStorage, user_id: int) -> int | None:
    """Return the quota of a user."""
    usage = await brought(storage, user_id)
    return usage.quota_bytes if usage.HasField("quota_bytes") else None


async def test_a_user_may_bring_so_many_bytes(storage: RunningStorage, sql: Sql) -> None:
    """In all repositories together, by all kinds of uploads; others and those whom nobody names may go on."""
    await storage.limit(user_id=ALICE, quota=100)
    oid = await storage.write(1, os.urandom(40), user_id=ALICE)
    await storage.write(2, os.urandom(40), user_id=ALICE, streamed=True)
    for call in (
        storage.write(3, bytes(21), user_id=ALICE),
        storage.write(3, bytes(21), user_id=ALICE, streamed=True),
        storage.announce(3, named(21), user_id=ALICE),
    ):
        error = await failure(call)
        assert (error.reason, error.message) == ("QUOTA_EXCEEDED", "80 bytes of your 100 bytes used")
    answer = await storage.announce(3, named(15), named(15), named(5), user_id=ALICE)
    assert [stat.status for stat in answer.objects] == [MISSING, OVER_QUOTA, MISSING]
    use = answer.objects[1].over_quota
    assert (use.used_bytes, use.quota_bytes, use.is_of_user) == (95, 100, True)
    assert not answer.HasField("quota")
    await storage.write(3, bytes(200), user_id=BOB)
    await storage.write(3, b"x" * 200)
    usage = await brought(storage, ALICE)
    assert (usage.object_count, usage.object_bytes, usage.quota_bytes) == (2, 80, 100)
    await storage.delete(1, oid)
    assert (await brought(storage, ALICE)).object_bytes == 40
    await until_answer("0", lambda: sql("SELECT count(*) FROM storage.usage_deltas"))
    assert (await brought(storage, ALICE)).object_bytes == 40


async def test_of_two_users_the_first_counts(storage: RunningStorage) -> None:
    """Whoever sends the same object again has brought nothing; in another repository it counts again."""
    data = os.urandom(50)
    await asyncio.gather(*(storage.write(1, data, user_id=user_id) for user_id in (ALICE, BOB, CAROL) * 3))
    usages = [await brought(storage, user_id) for user_id in (ALICE, BOB, CAROL)]
    assert sorted(usage.object_bytes for usage in usages) == [0, 0, 50]
    await storage.write(2, data, user_id=ALICE)
    await storage.limit(user_id=ALICE, quota=1)
    # What the repository holds needs no room.
    await storage.write(2, data, user_id=ALICE)
    await storage.announce(2, (oid_of(data), 50), user_id=ALICE)


async def test_room_of_another_user_is_of_no_use(storage: RunningStorage) -> None:
    """Whoever uploads what another user announced needs room as well, and takes over what is reserved."""
    await storage.limit(1, quota=2000)
    await storage.limit(user_id=ALICE, quota=100)
    await storage.limit(user_id=BOB, quota=200)
    data = os.urandom(101)
    await storage.announce(1, (oid_of(data), 101), user_id=BOB)
    for streamed in (True, False):
        error = await failure(storage.write(1, data, user_id=ALICE, streamed=streamed))
        assert error.message == "0 bytes of your 100 bytes used"
    fits = os.urandom(100)
    await storage.announce(1, (oid_of(fits), 100), user_id=ALICE)
    # Bob has 99 bytes left beside what he announced.
    assert (await failure(storage.write(1, fits, user_id=BOB))).message == "101 bytes of your 200 bytes used"
    await storage.write(1, fits, user_id=ALICE)
    assert (await brought(storage, ALICE)).object_bytes == 100


async def test_who_uploads_what_was_collected_has_brought_it(storage: RunningStorage) -> None:
    """It counts for the last who brought it, by either way to register it."""
    for number in (1, 2):
        if number == 2:
            await Stores(storage).fill("second", "first")
        oid = await storage.write(number, b"collected", user_id=ALICE)
        await collect(storage, ["0" * 64], repository_id=number, apply=True)
        assert (await brought(storage, ALICE)).object_bytes == 0
        assert await storage.write(number, b"collected", user_id=BOB) == oid
        assert [(await brought(storage, user_id)).object_bytes for user_id in (ALICE, BOB)] == [0, 9 * number]


async def test_a_user_has_the_highest_quota_of_groups(database_url: SecretStr, tmp_path: Path) -> None:
    """Unless the user has one alone; without groups, that of the settings counts."""
    async with running_storage(database_url, tmp_path, storage_user_quota=7) as storage:
        assert [await quota_of(storage, user_id) for user_id in (ALICE, BOB)] == [7, 7]
        members = {1: [ALICE, BOB], 2: [ALICE], 3: [CAROL], 4: [CAROL]}
        for group_id, quota in ((1, 50), (2, 80), (3, 0), (4, 20)):
            await storage.limit(group_id=group_id, quota=quota)

        async def tell(group_id: int, user_ids: list[int]) -> None:
            request = pb.SetLimitedGroupMembersRequest(group_id=group_id, user_ids=user_ids)
            await storage.stub.SetLimitedGroupMembers(request, timeout=STEP_SECONDS)

        async def quotas() -> list[int | None]:
            return [await quota_of(storage, user_id) for user_id in (ALICE, BOB, CAROL)]

        for group_id, user_ids in members.items():
            await tell(group_id, user_ids)
        groups = await storage.stub.ListLimitedGroups(pb.ListLimitedGroupsRequest(), timeout=STEP_SECONDS)
        assert list(groups.group_ids) == [1, 2, 3, 4]
        await until_answer([80, 50, None], quotas)
        await storage.limit(user_id=ALICE, quota=10)
        await storage.limit(user_id=CAROL, quota=30)
        assert await quotas() == [10, 50, 30]
        await storage.limit(user_id=ALICE, quota=-1)
        await storage.limit(group_id=2, quota=-1)
        assert await quotas() == [50, 50, 30]
        await tell(1, [BOB])
        # A group without a quota has no members here.
        await tell(9, [ALICE])
        await until_answer([7, 50, 30], quotas)


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    "request_",
    [
        pb.SetLimitsRequest(quota_bytes=1),
        pb.SetLimitsRequest(repository_id=1, user_id=1, quota_bytes=1),
        pb.SetLimitsRequest(user_id=-1, quota_bytes=1),
        pb.SetLimitsRequest(user_id=1, bandwidth_bytes=1),
    ],
)
async def test_limits_of_nobody_are_refused(storage: RunningStorage, request_: pb.SetLimitsRequest) -> None:
    """A request is about one repository, user or group, and only repositories have a bandwidth."""
    assert (await failure(storage.stub.SetLimits(request_, timeout=STEP_SECONDS))).reason == "INVALID_FIELD"


async def test_users_share_the_quota_of_a_repository(database_url: SecretStr, tmp_path: Path) -> None:
    """Both quotas count, at all services together: the lower one decides."""
    async with two_storages(database_url, tmp_path) as services:
        await services[0].limit(1, quota=1000)
        await services[0].limit(user_id=ALICE, quota=300)

        async def known() -> bool:
            return await quota_of(services[1], ALICE) == 300 and (await services[1].usage(1)).quota_bytes == 1000

        await until(known)
        writes = [(number, user_id) for number in range(20) for user_id in (ALICE, BOB)]
        calls = [services[number % 2].write(1, os.urandom(100), user_id=user_id) for number, user_id in writes]
        refused = [error for error in await asyncio.gather(*map(refusal, calls)) if error is not None]
        assert {error.reason for error in refused} == {"QUOTA_EXCEEDED"}
        usages = [(await brought(services[0], user_id)).object_bytes for user_id in (ALICE, BOB)]
        assert sum(usages) == (await services[0].usage(1)).object_bytes == 1000
        assert usages[0] <= 300


async def test_a_direct_upload_counts_for_its_user(
    seaweedfs: SeaweedFS, database_url: SecretStr, tmp_path: Path
) -> None:
    """From the confirmation on."""
    async with direct_storage(seaweedfs, database_url, tmp_path) as direct:
        await direct.wait_signing(pb.INTENT_WRITE)
        repository, data = new_repository(), some_bytes()
        assert await direct.put(await direct.upload_url(repository, data), data) == 200
        await direct.confirm(repository, data, user_id=ALICE)
        assert (await brought(direct.service, ALICE)).object_bytes == len(data)
