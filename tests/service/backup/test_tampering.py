"""A backup that is not what was written is refused, and every part of it that is wrong is named."""

import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from services.backup.manifest import Manifest
from services.common.migration_versions import newest_version
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.backup import Place, running_installation
from tests.support.postgres import TestPostgres
from tests.support.storage import oid_of, stored_path

OBJECTS = [b"one", b"two" * 1000]
OID = oid_of(OBJECTS[0])


@pytest.fixture(scope="module")
async def whole(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    """A backup of two objects and a user."""
    folder = tmp_path_factory.mktemp("towpath")
    async with postgres.database() as url, running_installation(Place(url, folder / "old")) as old:
        for data in OBJECTS:
            await old.storage.write(1, data)
        await old.locks.add_user("alice")
        await old.place.run("backup", folder / "backup")
        yield folder / "backup"


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be tampered with."""
    return shutil.copytree(whole, tmp_path / "copy")


def index_file(backup: Path, name: str) -> Path:
    """Return a file of a backup's one snapshot."""
    [snapshot] = (backup / "index").iterdir()
    return snapshot / name


def object_file(backup: Path) -> Path:
    """Return the file of the first object."""
    return stored_path(backup, OID)


def _replace(path: Path, old: bytes, new: bytes) -> None:
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))


def _rewrite(backup: Path, **changes: object) -> None:
    """Change the manifest as one does who knows how its digest is made."""
    path = backup / "manifest.json"
    content = json.loads(path.read_text())
    del content["digest"]
    path.write_text(Manifest.model_validate({**content, **changes}).render()[0])


def _make_fifo(path: Path) -> None:
    """Put something in a file's place that holds up who reads it, for ever."""
    path.unlink()
    os.mkfifo(path)


def _raise_a_user(backup: Path) -> None:
    _replace(index_file(backup, "locks.users"), b"\talice\tf\t", b"\talice\tt\t")


TAMPERINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda backup: (backup / "manifest.json").unlink(), "no backup, as it has no manifest.json"),
    "half a manifest": (
        lambda backup: (backup / "manifest.json").write_text((backup / "manifest.json").read_text()[:500]),
        "manifest.json: expected a manifest",
    ),
    "no text": (lambda backup: (backup / "manifest.json").write_bytes(b"\xff\xfe"), "manifest.json: expected"),
    "no object": (lambda backup: (backup / "manifest.json").write_text("[]"), "manifest.json: expected"),
    "a manifest that would never end": (
        lambda backup: _make_fifo(backup / "manifest.json"),
        "manifest.json: something else is in the file's place",
    ),
    "a table that would never end": (
        lambda backup: _make_fifo(index_file(backup, "locks.users")),
        "locks.users: something else is in the file's place",
    ),
    "a list that would never end": (
        lambda backup: _make_fifo(index_file(backup, "objects")),
        "objects: something else is in the file's place",
    ),
    "an object that would never end": (lambda backup: _make_fifo(object_file(backup)), f"{OID}: missing"),
    "an edited manifest": (
        lambda backup: _replace(backup / "manifest.json", b'"created_at": "20', b'"created_at": "21'),
        "manifest.json: it is not what was written",
    ),
    "an edited row": (_raise_a_user, "locks.users: the table's rows are not what was written"),
    "a missing table": (
        lambda backup: index_file(backup, "storage.objects").unlink(),
        "storage.objects: no such file or directory",
    ),
    "an edited list": (
        lambda backup: _replace(index_file(backup, "objects"), b"\t3\t", b"\t4\t"),
        "objects: the list of objects is not what was written",
    ),
    "a missing list": (lambda backup: index_file(backup, "objects").unlink(), "objects: no such file or directory"),
    "a missing object": (lambda backup: object_file(backup).unlink(), f"{OID}: missing"),
    "a shortened object": (lambda backup: object_file(backup).write_bytes(b"on"), f"{OID}: 2 bytes, expected 3"),
    "an edited object": (lambda backup: object_file(backup).write_bytes(b"One"), f"{OID}: the SHA-256 of its bytes"),
    "an unknown revision": (
        lambda backup: _rewrite(backup, revisions={"storage": "0001", "locks": "9999"}),
        "the schema locks was at revision 9999, which this version does not know",
    ),
    "another service's revisions": (
        lambda backup: _rewrite(backup, revisions={"storage": "0001"}),
        "revisions: expected those of locks, storage",
    ),
    "a table left out": (
        lambda backup: _rewrite(backup, tables=[]),
        "its tables and columns are not those of its revisions",
    ),
}


@pytest.mark.parametrize("kind", TAMPERINGS)
async def test_tampering_is_refused(kind: str, copy: Path, empty_place: Place, postgres: TestPostgres) -> None:
    """Whatever was changed is named, and nothing that could serve is left in the target."""
    tamper, message = TAMPERINGS[kind]
    tamper(copy)
    answer = await empty_place.run("restore", copy, status=1)
    assert answer.errors.startswith("towpath: ")
    assert message in answer.errors
    assert answer.document is None
    assert await _versions(postgres, empty_place) in ("", "restoring\nrestoring")


async def _versions(postgres: TestPostgres, place: Place) -> str:
    if not await postgres.execute_at(place.database_url, "SELECT to_regclass('storage.alembic_version')"):
        return ""
    both = "SELECT version_num FROM storage.alembic_version UNION ALL SELECT version_num FROM locks.alembic_version"
    return await postgres.execute_at(place.database_url, both)


async def test_a_forged_manifest_is_known_by_its_digest(copy: Path, empty_place: Place) -> None:
    """An attacker who can write the backup can make it consistent, so only the operator's own digest tells."""
    kept = json.loads((copy / "manifest.json").read_text())["digest"]
    _rewrite(copy, towpath="0.0.1")
    answer = await empty_place.run("restore", copy, "--digest", kept, status=1)
    assert f"expected {kept}" in answer.errors
    await empty_place.run("restore", copy)


async def test_damaged_objects_can_be_left_out(copy: Path, empty_place: Place) -> None:
    """Told to, a restore brings all else; the objects are missing then, as the check says, and a push heals them."""
    object_file(copy).write_bytes(b"One")
    await empty_place.run("restore", copy, status=1)
    answer = await empty_place.run("restore", copy, "--skip-damaged", status=1)
    assert [skipped["oid"] for skipped in answer.document["skipped"]] == [OID]
    assert answer.document["check"]["missing"] == 1
    async with running_installation(empty_place) as new:
        assert await new.storage.read(1, oid_of(OBJECTS[1])) == OBJECTS[1]
        assert await new.storage.write(1, OBJECTS[0]) == OID
        assert (await empty_place.run("check", "--hash")).document["findings"] == []


async def test_a_second_attempt_with_another_backup(
    copy: Path, whole: Path, empty_place: Place, postgres: TestPostgres, tmp_path: Path
) -> None:
    """After a restore that failed, another backup is taken once the objects of the first are out of the way."""
    object_file(copy).write_bytes(b"One")
    await empty_place.run("restore", copy, status=1)
    async with postgres.database() as url, running_installation(Place(url, tmp_path / "other")) as other:
        await other.storage.write(1, b"three")
        await other.place.run("backup", tmp_path / "others")
    refused = await empty_place.run("restore", tmp_path / "others", status=1)
    assert "without objects other than the backup's" in refused.errors
    shutil.rmtree(empty_place.bytes)
    answer = await empty_place.run("restore", tmp_path / "others")
    assert (answer.document["check"]["objects"], answer.document["check"]["orphaned"]) == (1, 0)
    storage, locks = newest_version(STORAGE.versions), newest_version(LOCKS.versions)
    assert await _versions(postgres, empty_place) == f"{storage}\n{locks}"
    refused = await empty_place.run("restore", whole, status=1)
    assert "without objects" in refused.errors
    shutil.rmtree(empty_place.bytes)
    refused = await empty_place.run("restore", whole, status=1)
    assert "expected a database without rows" in refused.errors


async def test_objects_without_a_database_are_not_overwritten(whole: Path, empty_place: Place) -> None:
    """A storage that holds anything is not restored into, however often that is tried."""
    strange = empty_place.bytes / "objects" / "ab" / "cd" / ("abcd" + "0" * 60)
    strange.parent.mkdir(parents=True)
    strange.write_bytes(b"somebody's")
    for _ in range(2):
        answer = await empty_place.run("restore", whole, status=1)
        assert f"expected a storage without objects, found {strange.name}" in answer.errors
    assert strange.read_bytes() == b"somebody's"
