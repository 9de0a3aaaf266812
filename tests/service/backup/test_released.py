"""Data of earlier versions, restored and upgraded by this version without a loss."""

import json
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import NotFound, PermissionDenied, Reason
from services.common.migration_versions import newest_version
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.backup import Place, running_installation
from tests.support.locks import refused
from tests.support.postgres import TestPostgres
from tests.support.storage import oid_of

RELEASED = Path(__file__).parents[2] / "released"
MADE = sorted(folder for folder in RELEASED.iterdir() if (folder / "facts.json").exists())


def test_the_present_revisions_are_among_them() -> None:
    """A new migration comes with a data set of the revision before: run `python -m tests.released.make` first."""
    revisions = {name for folder in MADE for name in _revisions(folder).values()}
    for schema in (STORAGE, LOCKS):
        before = sorted(path.name[:4] for path in schema.versions.glob("*.py"))
        assert set(before[:-1]) <= revisions | {before[-1]}
    assert MADE


def _revisions(folder: Path) -> dict[str, str]:
    revisions: dict[str, str] = json.loads((folder / "backup" / "manifest.json").read_text())["revisions"]
    return revisions


@pytest.mark.parametrize(
    "folder",
    [MADE[0], *(pytest.param(folder, marks=pytest.mark.drill) for folder in MADE[1:-1]), MADE[-1]],
    ids=lambda folder: folder.name,
)
async def test_upgraded(folder: Path, empty_place: Place, postgres: TestPostgres) -> None:
    """Users, tokens, grants, objects, tombstones, locks and their history of an earlier version are all there."""
    facts = json.loads((folder / "facts.json").read_text())
    restored = (await empty_place.run("restore", folder / "backup")).document
    assert restored["check"]["findings"] == []
    for schema in (STORAGE, LOCKS):
        query = f"SELECT version_num FROM {schema.name}.alembic_version"  # noqa: S608 - one of two names
        assert await postgres.execute_at(empty_place.database_url, query) == newest_version(schema.versions)

    async with running_installation(empty_place) as new:
        locks, storage, film = new.locks, new.storage, facts["film"]
        users = facts["users"]
        for name, token in facts["tokens"].items():
            caller = await locks.peer.call(locks.access.Authenticate, access.AuthenticateRequest(token=token))
            assert (caller.user_id, caller.user_name) == (users[name], name)
            assert caller.requests_per_hour == facts.get("rates", {}).get(name, 0)
        write = access.PERMISSION_WRITE
        assert await locks.check(users["alice"], "studio/film", write, ref="refs/heads/main") == film
        assert await locks.check(users["bob"], "studio/film", write, ref="refs/heads/rel/1") == film
        with refused(PermissionDenied, Reason.ACCESS_DENIED):
            await locks.check(users["bob"], "studio/film", write, ref="refs/heads/main")
        assert await locks.check(0, "studio/public", access.PERMISSION_READ) == facts["public"]
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await locks.check(users["alice"], "studio/gone", write)

        if "binned" in facts:
            with refused(PermissionDenied, Reason.REPOSITORY_ARCHIVED):
                await locks.check(users["alice"], "studio/archived", write)
            restoring = admin.RestoreRepositoryRequest(name="studio/binned")
            await locks.admin_peer.call(locks.admin.RestoreRepository, restoring)
            assert await storage.read(facts["binned"], oid_of(b"binned")) == b"binned"

        for oid, size in facts["objects"].items():
            data = await storage.read(film, oid)
            assert (oid_of(data), len(data)) == (oid, size)
        assert await storage.read(facts["public"], oid_of(b"one")) == b"one"
        assert await storage.statuses(film, facts["removed"]) == [pb.OBJECT_STATUS_REMOVED]

        listed = await locks.list(film)
        assert [MessageToDict(lock) for lock in listed.locks] == facts["standing"]
        request = admin.ListReleasedLocksRequest(repository="studio/film")
        history = await locks.admin_peer.call(locks.admin.ListReleasedLocks, request)
        [released] = history.locks
        assert MessageToDict(released.lock) == facts["released"]
        assert (released.released_by, released.forced) == ("alice", True)
        gained = await locks.create(film, users["bob"], "done.psd")
        assert int(gained.id) > int(facts["released"]["id"])
