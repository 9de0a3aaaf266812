"""Making a backup: what it holds beside a running stack, what it leaves when it is cut off, what it tells."""

import asyncio
import fcntl
import json
import os
import signal
from itertools import count
from pathlib import Path

import grpc
import pytest
from pydantic import SecretStr

from services.database.migrations import migrate
from services.storage.blob_names import oid_of as name_oid
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.backup import Installation, Place, running_installation
from tests.support.storage import stored_path
from tests.support.waiting import STEP_SECONDS, until


def tree(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, but for the lock."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def mode(path: Path) -> int:
    """Return who may do what with a file or folder."""
    return path.stat().st_mode & 0o777


def occupied(folder: Path, name: str) -> Path:
    """Make a folder with a file in it and return the file."""
    folder.mkdir()
    (folder / name).write_text("mine")
    return folder / name


async def test_incremental(installation: Installation, target: Path) -> None:
    """A second backup copies what is new; what is removed stays in the folder until it is pruned."""
    storage, place = installation.storage, installation.place
    first, gone = await storage.write(1, b"first"), await storage.write(1, b"gone")
    made = (await place.run("backup", target)).document
    assert (made["copied_objects"], made["copied_bytes"]) == (2, 9)
    inode = stored_path(target, first).stat().st_ino
    new = await storage.write(2, b"new")
    await storage.delete(1, gone)
    await storage.purge(1, gone)
    made = (await place.run("backup", target)).document
    assert (made["objects"], made["copied_objects"]) == (2, 1)
    assert stored_path(target, first).stat().st_ino == inode
    assert stored_path(target, gone).read_bytes() == b"gone"
    assert len(list((target / "index").iterdir())) == 1
    assert (await place.run("backup", target, "--prune")).document["pruned_objects"] == 1
    left = {name_oid(path.name) for path in (target / "objects").rglob("*") if path.is_file()}
    assert left == {first, new}
    assert {mode(target), mode(target / "manifest.json"), mode(stored_path(target, new))} == {0o700, 0o600}


async def test_killed_in_the_middle(installation: Installation, target: Path, empty_place: Place) -> None:
    """SIGKILL while objects are copied leaves the earlier backup whole, and the next one goes on."""
    storage, place = installation.storage, installation.place
    first = await storage.write(1, b"first")
    await place.run("backup", target)
    before = (target / "manifest.json").read_bytes()
    for number in range(150):
        await storage.write(1, b"%d" % number * 10_000)
    process = await place.start("backup", target)
    await until(lambda: sum(path.is_file() for path in (target / "objects").rglob("*")) > 20)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    assert (target / "manifest.json").read_bytes() == before
    restored = (await empty_place.run("restore", target)).document
    assert (restored["objects"], restored["check"]["missing"]) == (1, 0)
    assert stored_path(empty_place.bytes, first).read_bytes() == b"first"
    made = (await place.run("backup", target)).document
    assert made["objects"] == 151
    assert made["copied_objects"] < 131
    assert not (target / "incoming").exists()


async def test_a_restore_killed_in_the_middle(installation: Installation, target: Path, empty_place: Place) -> None:
    """After SIGKILL while objects are copied nothing migrates or serves; the same command goes on, to the end."""
    storage, place = installation.storage, installation.place
    oids = [await storage.write(1, b"%d" % number * 10_000) for number in range(150)]
    await place.run("backup", target)
    process = await empty_place.start("restore", target)
    await until(lambda: sum(path.is_file() for path in (empty_place.bytes / "objects").rglob("*")) > 20)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    # A file that it was just writing may be cut off.
    cut_off = next(path for path in (empty_place.bytes / "objects").rglob("*") if path.is_file())
    os.truncate(cut_off, 100)
    with pytest.raises(ValueError, match="run `towpath restore` again"):
        await migrate(empty_place.database_url, STORAGE)
    refused = await empty_place.run("backup", target, status=1)
    assert "nothing to back up" in refused.errors
    refused = await empty_place.run("check", status=1)
    assert "nothing to check" in refused.errors
    restored = (await empty_place.run("restore", target)).document
    assert (restored["objects"], restored["check"]["findings"]) == (150, [])
    async with running_installation(empty_place) as new:
        assert await new.storage.read(1, oids[7]) == b"7" * 10_000


async def test_told_to_stop(installation: Installation, target: Path) -> None:
    """SIGTERM ends a backup; the earlier one stays, and nothing of the one that was cut off but its objects."""
    storage, place = installation.storage, installation.place
    await storage.write(1, b"first")
    await place.run("backup", target)
    before = {name: data for name, data in tree(target).items() if "/objects/" not in name}
    for number in range(150):
        await storage.write(1, b"%d" % number * 10_000)
    process = await place.start("backup", target)
    await until(lambda: sum(path.is_file() for path in (target / "objects").rglob("*")) > 20)
    process.terminate()
    await asyncio.wait_for(process.communicate(), timeout=STEP_SECONDS)
    assert process.returncode == 130
    assert {name: data for name, data in tree(target).items() if "/objects/" not in name} == before


async def test_consistent_beside_uploads_removals_and_locks(
    installation: Installation, target: Path, empty_place: Place
) -> None:
    """Whatever comes and goes meanwhile, a backup restores to a stack whose check finds nothing."""
    storage, locks, place = installation.storage, installation.locks, installation.place
    user, repository = await locks.add_user("alice"), await locks.add_repository("a/b")
    stop = asyncio.Event()
    kept = [await storage.write(repository, b"kept %d" % number) for number in range(30)]

    async def come_and_go(worker: int) -> None:
        for number in count():
            if stop.is_set():
                return
            rounds[worker] = number
            oid = await storage.write(repository, b"%d/%d" % (worker, number) * 5_000)
            lock = await locks.create(repository, user, f"{worker}/{number}.psd")
            if number % 2:
                await storage.delete(repository, oid)
                await locks.delete(repository, user, lock.id)

    rounds: dict[int, int] = {}
    async with asyncio.TaskGroup() as group:
        for worker in range(3):
            group.create_task(come_and_go(worker))
        await until(lambda: len(rounds) == 3 and min(rounds.values()) > 1, "objects and locks come and go")
        first = (await place.run("backup", target)).document
        second = (await place.run("backup", target)).document
        checked = (await place.run("check", "--hash")).document
        stop.set()
    assert (first["lost"], second["lost"]) == ([], [])
    assert (checked["findings"], checked["missing"]) == ([], 0)
    restored = (await empty_place.run("restore", target)).document
    assert restored["check"]["findings"] == []
    async with running_installation(empty_place) as new:
        for number, oid in enumerate(kept):
            assert await new.storage.read(repository, oid) == b"kept %d" % number
        assert len((await new.locks.verify(repository, user)).ours) > 0


async def test_one_at_a_time_in_a_folder(installation: Installation, target: Path) -> None:
    """Two backups in one folder would damage each other, so the second one is refused."""
    with occupied(target, "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = await installation.place.run("backup", target, status=1)
    assert "another backup writes here" in answer.errors


async def test_a_folder_of_something_else(installation: Installation, target: Path) -> None:
    """A folder with anything else in it is left alone."""
    occupied(target, "thesis.txt")
    answer = await installation.place.run("backup", target, status=1)
    assert "found thesis.txt" in answer.errors
    assert tree(target) == {str(target / "thesis.txt"): b"mine"}


async def test_what_the_stack_has_lost(installation: Installation, target: Path, empty_place: Place) -> None:
    """Lost and corrupt objects are named and the exit status is 1; what an earlier backup has of them is kept."""
    storage, place = installation.storage, installation.place
    earlier = await storage.write(1, b"earlier")
    await place.run("backup", target)
    missing, corrupt, sound = [await storage.write(1, data) for data in (b"missing", b"corrupt", b"sound")]
    storage.path(earlier).unlink()
    storage.path(missing).unlink()
    storage.path(corrupt).write_bytes(b"CORRUPT")
    made = (await place.run("backup", target, status=1)).document
    assert {lost["oid"] for lost in made["lost"]} == {missing, corrupt}
    restored = (await empty_place.run("restore", target, status=1)).document
    assert restored["check"]["missing"] == 2
    assert stored_path(empty_place.bytes, earlier).read_bytes() == b"earlier"
    assert stored_path(empty_place.bytes, sound).read_bytes() == b"sound"


async def test_without_objects(installation: Installation, target: Path, empty_place: Place) -> None:
    """With --no-objects the bytes are saved by other means: a restore wants them in place, and then brings the rows."""
    storage, place = installation.storage, installation.place
    oid = await storage.write(1, b"data")
    await place.run("backup", target, "--no-objects")
    assert not (target / "objects").exists()
    answer = await empty_place.run("restore", target, status=1)
    assert f"{oid}: missing" in answer.errors
    saved = empty_place.bytes / storage.path(oid).relative_to(storage.root)
    saved.parent.mkdir(parents=True)
    saved.write_bytes(b"data")
    await empty_place.run("restore", target)
    async with running_installation(empty_place) as new:
        assert await new.storage.read(1, oid) == b"data"
        with pytest.raises(grpc.aio.AioRpcError):
            await new.storage.read(2, oid)


async def test_nothing_to_back_up(empty_place: Place, target: Path) -> None:
    """A database without our tables is told; no folder that looks like a backup is left."""
    answer = await empty_place.run("backup", target, status=1)
    assert "has no tables" in answer.errors
    assert not (target / "manifest.json").exists()


async def test_no_database(tmp_path: Path, target: Path, database_url: SecretStr) -> None:
    """A database, or a server, that is not there is one line, not a traceback."""
    nowhere = SecretStr("postgresql://nobody@/none?host=/nonexistent")
    strangers = SecretStr(database_url.get_secret_value().replace("//towpath@", "//stranger@"))
    for url in (nowhere, strangers):
        answer = await Place(url, tmp_path).run("backup", target, status=1)
        assert answer.errors.startswith("towpath: ")
        assert len(answer.errors.splitlines()) == 1


async def test_the_digest_is_the_manifests(installation: Installation, target: Path) -> None:
    """An operator compares the printed digest with the manifest, so it must be the digest at the manifest's end."""
    made = (await installation.place.run("backup", target)).document
    assert json.loads((target / "manifest.json").read_text())["digest"] == made["digest"]
