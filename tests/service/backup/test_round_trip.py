"""Backup and restore of a whole installation: everything comes back, in one piece."""

from pathlib import Path

from sqlalchemy.engine import make_url
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import AlreadyExists, Reason, Unauthenticated
from tests.support.backup import Installation, Place, running_installation
from tests.support.locks import refused
from tests.support.postgres import TestPostgres
from tests.support.storage import oid_of
from tests.support.waiting import until

SMALL, LARGE = b"small", bytes(range(256)) * 20_000
PATH = "strange\t\n\\N\\.\r \N{SNOWMAN}.psd"


async def _rows(postgres: TestPostgres, place: Place, query: str) -> str:
    database = make_url(place.database_url.get_secret_value()).database
    assert database is not None
    return await postgres.execute(query, database=database)


async def _fill(old: Installation) -> tuple[int, int]:
    user = await old.locks.add_user("alice")
    repository = await old.locks.add_repository("studio/film")
    await old.locks.grant("alice", "studio/film", admin.ROLE_WRITE, ref_patterns=["refs/heads/*", 'refs/heads/a"{b}'])
    await old.storage.write(repository, SMALL)
    await old.storage.write(repository, LARGE)
    await old.storage.delete(repository, await old.storage.write(repository, b"removed"), reason="a licence")
    return user, repository


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

    async def a_use_is_written() -> bool:
        return await _rows(postgres, old.place, "SELECT count(*) FROM locks.token_uses") != "0"

    await until(a_use_is_written)
    lock = await old.locks.create(repository, user, PATH)
    gone = await old.locks.create(repository, user, "gone.psd")
    await old.locks.delete(repository, user, gone.id)

    known = (await old.locks.list(repository)).generation
    made = (await old.place.run("backup", target)).document
    assert (made["objects"], made["bytes"], made["lost"]) == (2, len(SMALL) + len(LARGE), [])
    answer = (await empty_place.run("restore", target, "--digest", made["digest"])).document
    assert answer["rows"] == made["rows"] > 8
    assert (answer["check"]["missing"], answer["check"]["corrupt"], answer["check"]["orphaned"]) == (0, 0, 0)

    people = ("users", "tokens", "token_uses", "revoked_tokens")
    for table in (*people, "repositories", "grants", "locks", "released_locks"):
        query = f"SELECT * FROM locks.{table} ORDER BY 1"  # noqa: S608 - one of the names above
        assert await _rows(postgres, empty_place, query) == await _rows(postgres, old.place, query), table
    counts = "SELECT sum(count) FROM locks.locks_per_{}"
    assert [await _rows(postgres, empty_place, counts.format(of)) for of in ("repository", "user")] == ["1", "1"]
    async with running_installation(empty_place) as new:
        assert await new.storage.read(repository, oid_of(SMALL)) == SMALL
        assert await new.storage.read(repository, oid_of(LARGE)) == LARGE
        assert await new.storage.statuses(repository, oid_of(b"removed")) == [pb.OBJECT_STATUS_REMOVED]
        caller = await new.locks.peer.call(new.locks.access.Authenticate, access.AuthenticateRequest(token=secret))
        assert caller.user_id == user
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await new.locks.peer.call(new.locks.access.Authenticate, access.AuthenticateRequest(token=revoked))
        assert caught.value.metadata == {"revoked": "revoked"}
        page = await new.locks.list(repository)
        assert page.locks[0] == lock
        assert page.generation > known + 1_000_000, "no later change reaches a number that a client knows"
        with refused(AlreadyExists, Reason.PATH_LOCKED):
            await new.locks.create(repository, user, PATH)
        await new.locks.delete(repository, user, lock.id)
        # What was given out after the backup must not mean something else now.
        assert int((await new.locks.create(repository, user, "next.psd")).id) > int(gone.id) + 100_000
