"""Backup and restore of a whole installation: everything comes back, in one piece."""

import asyncio
from pathlib import Path

import grpc
import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as locks
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import AlreadyExists, Reason, Unauthenticated
from tests.support.appends import PartialUpload
from tests.support.backup import Installation, Place, running_installation
from tests.support.locks import refused
from tests.support.postgres import TestPostgres
from tests.support.storage import oid_of
from tests.support.waiting import STEP_SECONDS, until_answer

SMALL, LARGE, REMOVED = b"small", bytes(range(256)) * 20_000, b"removed"
PATH = "strange\t\n\\N\\.\r \N{SNOWMAN}.psd"


async def _rows(postgres: TestPostgres, place: Place, query: str) -> str:
    return await postgres.execute_at(place.database_url, query)


async def _fill(old: Installation) -> tuple[int, int]:
    user = await old.locks.add_user("alice")
    repository = await old.locks.add_repository("studio/film")
    await old.locks.grant("alice", "studio/film", admin.ROLE_WRITE, ref_patterns=["refs/heads/*", 'refs/heads/a"{b}'])
    await old.storage.write(repository, SMALL)
    await old.storage.write(repository, LARGE)
    await old.storage.delete(repository, await old.storage.write(repository, REMOVED), reason="a licence")
    return user, repository


async def _change_much(old: Installation, repository: int, user: int) -> None:
    """Set the rules of the repository, add a hook, and steal a lock that has a note."""
    thief = await old.locks.add_user("bob")
    await old.locks.grant("bob", "studio/film", admin.ROLE_WRITE)
    rules = admin.UpdateRepositoryRequest(name="studio/film", stale_after_seconds=3600, history_seconds=86_400)
    await old.locks.admin_peer.call(old.locks.admin.UpdateRepository, rules)
    hook = admin.CreateHookRequest(
        repository="studio/film", url="http://127.0.0.1:9/hook", events=["lock.*"], allow_private=True
    )
    await old.locks.admin_peer.call(old.locks.admin.CreateHook, hook)
    create = locks.CreateLockRequest(repository_id=repository, user_id=user, path="noted.psd", note="until Friday")
    noted = (await old.locks.peer.call(old.locks.locks.CreateLock, create)).lock
    steal = locks.StealLockRequest(repository_id=repository, user_id=thief, id=noted.id, reason="on leave", note="mine")
    await old.locks.peer.call(old.locks.locks.StealLock, steal)


async def test_everything_comes_back(
    installation: Installation, empty_place: Place, target: Path, postgres: TestPostgres
) -> None:
    """Objects, tombstones, users, tokens, grants, locks and their history are what they were, by id and by hash."""
    old = installation
    user, repository = await _fill(old)
    secret = await old.locks.add_token("alice")
    revoked = await old.locks.add_token("alice", "revoked")
    revoke = admin.RevokeTokenRequest(user_name="alice", name="revoked")
    await old.locks.admin_peer.call(old.locks.admin.RevokeToken, revoke)
    uses = "SELECT count(*) > 0 FROM locks.token_uses"
    await until_answer("t", lambda: _rows(postgres, old.place, uses))
    lock = await old.locks.create(repository, user, PATH)
    gone = await old.locks.create(repository, user, "gone.psd")
    await old.locks.delete(repository, user, gone.id)

    await _change_much(old, repository, user)

    known = (await old.locks.list(repository)).generation
    watch = old.locks.locks.WatchLocks(locks.WatchLocksRequest(repository_id=repository))
    position = (await anext(aiter(watch))).position
    watch.cancel()
    made = (await old.place.run("backup", target)).document
    assert (made["objects"], made["bytes"], made["lost"]) == (3, len(SMALL) + len(LARGE) + len(REMOVED), [])
    answer = (await empty_place.run("restore", target, "--digest", made["digest"])).document
    assert answer["rows"] == made["rows"] > 8
    assert (answer["check"]["missing"], answer["check"]["corrupt"], answer["check"]["orphaned"]) == (0, 0, 0)

    people = ("users", "tokens", "token_uses", "revoked_tokens")
    for table in (*people, "repositories", "grants", "locks", "released_locks", "hooks", "audit_events"):
        query = f"SELECT * FROM locks.{table} ORDER BY 1, 2"  # noqa: S608 - one of the names above
        assert await _rows(postgres, empty_place, query) == await _rows(postgres, old.place, query), table
    audited = "SELECT count(*), count(*) FILTER (WHERE type = 'org.towpath.lock.stolen') FROM locks.audit_events"
    events, stolen = map(int, (await _rows(postgres, empty_place, audited)).split("|"))
    assert (events > 10, stolen) == (True, 1), "a restore is no change, and the rows of its tables have no events"
    counts = "SELECT sum(count) FROM locks.locks_per_{}"
    assert [await _rows(postgres, empty_place, counts.format(of)) for of in ("repository", "user")] == ["2", "2"]
    for table in ("lock_events", "hook_deliveries"):
        count = f"SELECT count(*) FROM locks.{table}"  # noqa: S608 - one of the names above
        assert await _rows(postgres, old.place, count) != "0"
        assert await _rows(postgres, empty_place, count) == "0", "nobody is told again of what is restored"
    async with running_installation(empty_place) as new:
        assert await new.storage.read(repository, oid_of(SMALL)) == SMALL
        assert await new.storage.read(repository, oid_of(LARGE)) == LARGE
        assert await new.storage.statuses(repository, oid_of(REMOVED)) == [pb.OBJECT_STATUS_REMOVED]
        await new.storage.restore(repository, oid_of(REMOVED))
        assert await new.storage.read(repository, oid_of(REMOVED)) == REMOVED
        caller = await new.locks.peer.call(new.locks.access.Authenticate, access.AuthenticateRequest(token=secret))
        assert caller.user_id == user
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await new.locks.peer.call(new.locks.access.Authenticate, access.AuthenticateRequest(token=revoked))
        assert caught.value.metadata == {"revoked": "revoked"}
        page = await new.locks.list(repository)
        assert page.locks[0] == lock
        assert page.generation > known + 1_000_000, "no later change reaches a number that a client knows"
        again = new.locks.locks.WatchLocks(locks.WatchLocksRequest(repository_id=repository, after=position))
        async with asyncio.timeout(STEP_SECONDS):
            while not (await anext(aiter(again))).reset:
                pass
        again.cancel()
        with refused(AlreadyExists, Reason.PATH_LOCKED):
            await new.locks.create(repository, user, PATH)
        await new.locks.delete(repository, user, lock.id)
        # What was given out after the backup must not mean something else now.
        assert int((await new.locks.create(repository, user, "next.psd")).id) > int(gone.id) + 100_000
        await new.locks.add_user("carol")
        query = "SELECT count(*), count(DISTINCT id), max(subject) FILTER (WHERE id > {}) FROM locks.audit_events"
        first_new = await _rows(postgres, old.place, "SELECT max(id) + 100000 FROM locks.audit_events")
        count, distinct, subject = (await _rows(postgres, empty_place, query.format(first_new))).split("|")
        assert (count, subject) == (distinct, "user carol"), "events after a restore have ids of their own"


async def test_uploads_that_broke_off_are_left_out(
    installation: Installation, empty_place: Place, target: Path, postgres: TestPostgres
) -> None:
    """Their bytes are no objects, and a client begins them anew at the restored site."""
    broken = PartialUpload(installation.storage, bytes(3000))
    await broken.append(0, 1000)
    made = (await installation.place.run("backup", target)).document
    assert made["objects"] == 0
    answer = (await empty_place.run("restore", target, "--digest", made["digest"])).document
    assert (answer["check"]["missing"], answer["check"]["corrupt"], answer["check"]["orphaned"]) == (0, 0, 0)
    for table in ("partial_uploads", "partial_upload_parts"):
        count = f"SELECT count(*) FROM storage.{table}"  # noqa: S608 - one of the names above
        assert await _rows(postgres, empty_place, count) == "0"
    async with running_installation(empty_place) as new:
        assert await PartialUpload(new.storage, broken.data).offset() == 0
        await PartialUpload(new.storage, broken.data).append_all([2000])
    assert await broken.offset() == 1000


async def test_limits_and_counters_come_back(
    installation: Installation, empty_place: Place, target: Path, postgres: TestPostgres
) -> None:
    """Quotas, what counts against them and the history of days are what they were; reservations ended."""
    storage, locks = installation.storage, installation.locks
    await storage.limit(1, quota=200, bandwidth=10_000)
    await storage.limit(user_id=7, quota=60)
    artist = await locks.add_user("artist")
    await locks.admin_peer.call(locks.admin.CreateGroup, admin.CreateGroupRequest(name="artists"))
    joined = admin.AddGroupMembersRequest(group_name="artists", user_names=["artist"])
    await locks.admin_peer.call(locks.admin.AddGroupMembers, joined)
    limit = admin.SetLimitsRequest(group_name="artists", quota_bytes=90)
    await locks.admin_peer.call(locks.admin.SetLimits, limit)
    await storage.write(1, bytes(50), user_id=7)
    await storage.write(2, bytes(50), user_id=artist)
    await storage.delete(1, await storage.write(1, REMOVED))
    await storage.announce(1, ("a" * 64, 15))
    day = "INSERT INTO storage.daily_usage VALUES (1, current_date - 40, 1, 5)"
    await _rows(postgres, installation.place, day)
    before = await storage.usage(1)
    assert before.reserved_bytes == 15
    await installation.place.run("backup", target)
    await empty_place.run("restore", target)
    async with running_installation(empty_place) as new:
        after = await new.storage.usage(1)
        assert (after.object_bytes, after.quota_bytes, after.bandwidth_bytes) == (50, 200, 10_000)
        assert (after.growth_bytes, before.growth_bytes, after.reserved_bytes) == (45, 45, 0)
        asked = pb.GetUserUsageRequest(user_ids=[7, artist])
        users = (await new.storage.stub.GetUserUsage(asked, timeout=STEP_SECONDS)).users
        assert [(usage.object_bytes, usage.quota_bytes) for usage in users] == [(50, 60), (50, 90)]
        with pytest.raises(grpc.aio.AioRpcError, match="50 bytes of 200 bytes used"):
            await new.storage.write(1, bytes(151))
        await new.storage.write(1, b"x" * 150)
