"""Add what the present version makes: `python -m tests.released.make`, once for a release with new migrations."""

import asyncio
import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.migration_versions import newest_version
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.backup import Installation, Place, running_installation
from tests.support.postgres import running_postgres

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# The data are restored for years, and a bin whose time is over is emptied.
_BIN_DAYS = 3_650


async def _fill(old: Installation) -> dict[str, Any]:
    """Make a bit of everything, and return what must be found of it for ever."""
    locks, storage = old.locks, old.storage
    users = {name: await locks.add_user(name) for name in ("alice", "bob")}
    tokens = {name: await locks.add_token(name) for name in users}
    film = await locks.add_repository("studio/film")
    public = await locks.add_repository("studio/public", public=True, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    gone = await locks.add_repository("studio/gone")
    await locks.grant("alice", "studio/film", admin.ROLE_ADMIN)
    await locks.grant("bob", "studio/film", admin.ROLE_WRITE, ref_patterns=["refs/heads/rel/*", "refs/heads/bob"])
    objects = {await storage.write(film, data): len(data) for data in (b"", b"one", b"two" * 300)}
    await storage.write(public, b"one")
    removed = await storage.write(film, b"removed")
    await storage.delete(film, removed, reason="a licence")
    await storage.write(gone, b"gone")
    binned = await locks.add_repository("studio/binned")
    await storage.write(binned, b"binned")
    call, stub = locks.admin_peer.call, locks.admin
    for name in ("studio/gone", "studio/binned"):
        await call(stub.DeleteRepository, admin.DeleteRepositoryRequest(name=name, force=True))
    await call(stub.PurgeRepository, admin.PurgeRepositoryRequest(name="studio/gone"))
    await locks.add_repository("studio/archived")
    await locks.grant("alice", "studio/archived", admin.ROLE_WRITE)
    await call(stub.UpdateRepository, admin.UpdateRepositoryRequest(name="studio/archived", archived=True))
    rate = admin.RequestRate(requests_per_hour=36_000)
    await call(stub.UpdateUser, admin.UpdateUserRequest(name="bob", rate=rate))
    standing = [await locks.create(film, users["alice"], path) for path in ("cover.psd", "a\n\N{SNOWMAN}\\.bin")]
    released = await locks.create(film, users["bob"], "done.psd")
    await locks.delete(film, users["alice"], released.id, force=True)
    return {
        "tokens": tokens,
        "users": users,
        "film": film,
        "public": public,
        "gone": gone,
        "binned": binned,
        "rates": {"alice": 0, "bob": 36_000},
        "objects": objects,
        "removed": removed,
        "standing": [MessageToDict(lock) for lock in standing],
        "released": MessageToDict(released),
    }


async def make() -> Path:
    """Make the folder of the present revisions and record their migrations; return the folder."""
    folder = HERE / f"storage-{newest_version(STORAGE.versions)}-locks-{newest_version(LOCKS.versions)}"
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="towpath-made-") as temporary:
        async with running_postgres() as postgres, postgres.database() as url:
            place = Place(url, Path(temporary) / "old")
            async with running_installation(place, locks={"repository_bin_days": _BIN_DAYS}) as old:
                facts = await _fill(old)
            await place.run("backup", folder / "backup")
    (folder / "backup" / "lock").unlink()
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    digests = {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for schema in (STORAGE, LOCKS)
        for path in sorted(schema.versions.glob("*.py"))
    }
    (HERE / "migrations.json").write_text(json.dumps(digests, indent=1) + "\n")
    return folder


if __name__ == "__main__":
    asyncio.run(make())
