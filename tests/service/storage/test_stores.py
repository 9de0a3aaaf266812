"""Several stores: copies that are kept up, reads that fall back, what is lost is brought again, and the way back."""

import asyncio
import os
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.store_service_pb2 import CreateStoreRequest, ListStoresRequest

from services.common.errors import Reason
from tests.service.storage.conftest import Sql
from tests.support.postgres import TestPostgres
from tests.support.storage import (
    RunningStorage,
    StorageClient,
    StorageProcess,
    chunks_of,
    failure,
    finish,
    oid_of,
    running_storage,
    upload,
)
from tests.support.stores import Stores
from tests.support.waiting import STEP_SECONDS, until, until_answer

PRESENT, MISSING = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING
MEBIBYTE = 1024 * 1024


@pytest.fixture
def stores(storage: RunningStorage) -> Stores:
    """The stores of `storage`."""
    return Stores(storage)


def _damage(path: Path) -> None:
    """Change the bytes of an object behind the service's back."""
    path.chmod(0o600)
    path.write_bytes(b"x" * path.stat().st_size)


async def test_there_is_a_first_store(stores: Stores) -> None:
    """It is the primary, that of the setting, and lacks nothing."""
    first = await stores.get("first")
    assert (first.url, first.is_primary, first.object_count, first.lacking_count) == ("", True, 0, 0)
    assert not first.HasField("copy")


async def test_a_new_store_gets_nothing_before_it_is_a_copy(storage: RunningStorage, stores: Stores) -> None:
    """Adding one changes nothing; it tells how much it lacks."""
    await storage.write(1, b"x" * 1000)
    added = await stores.add("second")
    oid = await storage.write(1, b"y" * 500)
    assert added.url == stores.root("second").as_uri()
    store = await stores.get("second")
    assert (store.object_count, store.lacking_count, store.lacking_bytes) == (0, 2, 1500)
    assert not stores.path("second", oid).exists()


async def test_a_copy_is_filled_and_kept_up(storage: RunningStorage, stores: Stores) -> None:
    """It gets what was there, and what is written afterwards at the same time as the primary."""
    before = [await storage.write(repository, os.urandom(3000)) for repository in (1, 1, 2)]
    await stores.add("second")
    copy = (await stores.copy("first", "second", parallel=2, rate=100 * MEBIBYTE)).copy
    assert (copy.from_store, copy.parallel, copy.bytes_per_second) == ("first", 2, 100 * MEBIBYTE)
    filled = await stores.wait_filled("second")
    assert (filled.object_count, filled.object_bytes) == (3, 9000)
    later = await storage.write(1, os.urandom(3 * MEBIBYTE))
    for oid in (*before, later):
        assert oid_of(stores.path("second", oid).read_bytes()) == oid
        assert oid_of(stores.path("first", oid).read_bytes()) == oid


async def test_an_object_of_two_repositories_is_copied_once(storage: RunningStorage, stores: Stores) -> None:
    """Bytes belong to no repository."""
    for repository in (1, 2, 3):
        await storage.write(repository, b"shared" * 100)
    await stores.add("second")
    await stores.copy("first", "second")
    assert (await stores.wait_filled("second")).object_count == 1


async def test_the_move_and_the_way_back(storage: RunningStorage, stores: Stores, tmp_path: Path) -> None:
    """After the cut-over what is written goes to the new store alone; the old one can be deleted, and come back."""
    oids = [await storage.write(1, os.urandom(2000)) for _ in range(5)]
    await stores.add("second")
    error = await failure(stores.set_primary("second"))
    assert error.reason == Reason.STORE_INCOMPLETE
    await stores.copy("first", "second")
    await stores.wait_filled("second")
    assert (await stores.set_primary("second")).is_primary
    assert not (await stores.get("first")).is_primary
    newest = await storage.write(1, os.urandom(2000))
    assert not stores.path("first", newest).exists()
    await stores.remove("first")
    await asyncio.to_thread((tmp_path / "bytes").rename, tmp_path / "gone")
    for oid in (*oids, newest):
        assert oid_of(await storage.read(1, oid)) == oid
    await stores.fill("third", "second")
    await stores.set_primary("third")
    await stores.remove("second")
    await asyncio.to_thread((tmp_path / "second").rename, tmp_path / "gone too")
    for oid in (*oids, newest):
        assert oid_of(await storage.read(1, oid)) == oid
    assert set(await storage.statuses(1, *oids, newest)) == {PRESENT}


async def test_a_lost_object_is_read_elsewhere_and_brought_again(storage: RunningStorage, stores: Stores) -> None:
    """A reader sees nothing of the loss, a batch neither, and soon the bytes are there again."""
    oid = await storage.write(1, os.urandom(2000))
    await stores.fill("second", "first")
    stores.path("first", oid).unlink()
    assert oid_of(await storage.read(1, oid)) == oid
    assert await storage.statuses(1, oid) == [PRESENT]
    await until(lambda: stores.path("first", oid).exists())
    assert oid_of(stores.path("first", oid).read_bytes()) == oid


async def test_a_copy_that_lost_an_object_gets_it_again(storage: RunningStorage, stores: Stores, sql: Sql) -> None:
    """A damaged blob must be replaced by an intact one, so that the copy is complete again."""
    oid = await storage.write(1, os.urandom(2000))
    await stores.fill("second", "first")
    damaged = stores.path("second", oid)
    await asyncio.to_thread(_damage, damaged)
    await sql("UPDATE storage.contents SET is_doubted = true WHERE store_id <> 1")
    await until(lambda: not damaged.exists())
    assert oid_of(stores.path("second", oid).read_bytes()) == oid
    assert await sql("SELECT count(*) FROM storage.contents WHERE is_doubted") == "0"


async def test_bytes_that_are_damaged_are_not_copied(storage: RunningStorage, stores: Stores) -> None:
    """An object that no store has intact must be replaced by nothing, and must not delay the copy of the others."""
    damaged, whole = [await storage.write(1, os.urandom(2000)) for _ in range(2)]
    path = stores.path("first", damaged)
    await asyncio.to_thread(_damage, path)
    await stores.add("second")
    await stores.copy("first", "second")
    await until(lambda: stores.path("second", whole).exists())
    assert not stores.path("second", damaged).exists()
    assert (await failure(stores.set_primary("second"))).reason == Reason.STORE_INCOMPLETE


async def test_a_damaged_source_is_passed_over(storage: RunningStorage, stores: Stores) -> None:
    """A third store gets the bytes of the second where those of the first are damaged, and so does the first."""
    oid = await storage.write(1, os.urandom(2000))
    await stores.fill("second", "first")
    path = stores.path("first", oid)
    await asyncio.to_thread(_damage, path)
    await stores.fill("third", "first")
    assert oid_of(stores.path("third", oid).read_bytes()) == oid
    await until(lambda: oid_of(stores.path("first", oid).read_bytes()) == oid)


@pytest.mark.parametrize("size", [2000, 2 * MEBIBYTE])
async def test_a_copy_that_fails_fails_no_upload(storage: RunningStorage, stores: Stores, size: int) -> None:
    """It is left behind, says why, and is filled when it can be again."""
    await stores.add("second")
    await stores.copy("first", "second")
    in_the_way = stores.root("second") / "objects"
    await asyncio.to_thread(in_the_way.rmdir)
    await asyncio.to_thread(in_the_way.write_bytes, b"")
    oids = [await storage.write(1, os.urandom(size)) for _ in range(3)]
    assert set(await storage.statuses(1, *oids)) == {PRESENT}

    async def has_problem() -> bool:
        return bool((await stores.get("second")).copy.problem)

    await until(has_problem)
    await asyncio.to_thread(in_the_way.unlink)
    await stores.wait_filled("second")
    await until_answer(expected=False, ask=has_problem)


async def test_what_is_removed_goes_from_every_store(storage: RunningStorage, stores: Stores) -> None:
    """Nothing of an object remains in a copy either, once it is in no bin."""
    oid = await storage.write(1, os.urandom(2000))
    await stores.fill("second", "first")
    paths = [stores.path(name, oid) for name in ("first", "second")]
    await storage.delete(1, oid)
    assert all(path.exists() for path in paths)
    await storage.purge(1, oid)
    await until(lambda: not any(path.exists() for path in paths))


async def test_a_bin_moves_along(storage: RunningStorage, stores: Stores) -> None:
    """The objects in a bin are lacking in a new store, are copied there, and come back from there."""
    data = os.urandom(2000)
    oid = await storage.write(1, data)
    await storage.delete(1, oid)
    await stores.add("second")
    assert (await stores.get("second")).lacking_count == 1
    assert (await failure(stores.set_primary("second"))).reason == Reason.STORE_INCOMPLETE
    await stores.copy("first", "second")
    await stores.wait_filled("second")
    await stores.set_primary("second")
    await stores.remove("first")
    await storage.restore(1, oid)
    assert await storage.read(1, oid) == data


async def test_an_upload_that_fails_leaves_nothing_in_a_copy(storage: RunningStorage, stores: Stores) -> None:
    """Bytes of another hash are swept there as well."""
    await stores.add("second")
    await stores.copy("first", "second")
    data = os.urandom(2 * MEBIBYTE)
    assert (await failure(storage.write(1, data, oid=oid_of(b"others")))).reason == Reason.HASH_MISMATCH
    for name in ("first", "second"):
        root = stores.root(name)
        await until(lambda root=root: not [path for path in root.rglob("*") if path.is_file()])  # type: ignore[misc]


async def test_a_store_that_is_needed_is_not_removed(storage: RunningStorage, stores: Stores) -> None:
    """Data would be lost with the primary, a copy's source, an upload target or the only store of some bytes."""
    await storage.write(1, os.urandom(2000))

    async def refused(name: str) -> str:
        error = await failure(stores.remove(name))
        assert error.reason == Reason.STORE_IN_USE
        return error.message

    assert "primary" in await refused("first")
    await stores.fill("second", "first")
    await stores.set_primary("second")
    await stores.copy("second", "first")
    assert "primary" in await refused("second")
    await stores.add("third")
    await stores.copy("first", "third")
    assert "copy" in await refused("first")
    await stores.remove("third")
    await stores.stop_copy("first")
    await stores.remove("first")
    assert (await failure(stores.remove("first"))).reason == Reason.STORE_NOT_FOUND


@pytest.mark.parametrize("is_damaged_elsewhere", [False, True])
async def test_what_only_one_store_has_keeps_it(
    storage: RunningStorage, stores: Stores, sql: Sql, *, is_damaged_elsewhere: bool
) -> None:
    """A store whose bytes nobody else has undamaged is not forgotten."""
    # So large that it does not come to its place without `incoming`.
    await storage.write(1, os.urandom(2 * MEBIBYTE))
    if is_damaged_elsewhere:
        await stores.fill("second", "first")
        await stores.stop_copy("second")
        await sql("UPDATE storage.contents SET is_doubted = true WHERE store_id <> 1")
    else:
        await stores.add("second")
    (stores.root("second") / "incoming").rmdir()
    (stores.root("second") / "incoming").write_bytes(b"")
    # As an operator's hand might.
    await sql("UPDATE storage.stores SET is_primary = false; UPDATE storage.stores SET is_primary = name = 'second'")
    error = await failure(stores.remove("first"))
    assert (error.reason, "alone" in error.message) == (Reason.STORE_IN_USE, True)


async def test_an_upload_that_goes_on_while_its_store_stops_being_the_primary(
    storage: RunningStorage, stores: Stores
) -> None:
    """It is acknowledged, held, keeps the old store from being removed, and is brought to the new one."""
    await stores.add("second")
    data = os.urandom(2 * MEBIBYTE)
    oid = oid_of(data)
    header, first, *rest = upload(1, oid, len(data), chunks_of(data))
    call = await storage.begin(header, first)
    await until(lambda: len(list((stores.root("first") / "incoming").iterdir())) == 1)
    await stores.set_primary("second")
    assert "uploads" in (await failure(stores.remove("first"))).message
    await finish(call, *rest)
    assert oid_of(await storage.read(1, oid)) == oid
    await stores.wait_filled("second")
    assert stores.path("second", oid).exists()
    await stores.remove("first")
    assert oid_of(await storage.read(1, oid)) == oid


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("name", "url", "reason"),
    [
        ("", "file:///nowhere", Reason.INVALID_FIELD),
        ("Upper", "file:///nowhere", Reason.INVALID_FIELD),
        ("x" * 65, "file:///nowhere", Reason.INVALID_FIELD),
        ("second", "", Reason.INVALID_FIELD),
        ("second", "ftp://host/folder", Reason.INVALID_FIELD),
        ("second", "file:relative", Reason.INVALID_FIELD),
        ("second", "file:///dev/null/folder", Reason.STORE_UNUSABLE),
        ("first", "file:///tmp/other", Reason.STORE_EXISTS),
    ],
)
async def test_a_store_that_cannot_be_added(stores: Stores, name: str, url: str, reason: Reason) -> None:
    """The error names what was expected, and no store is added."""
    error = await failure(stores.stub.CreateStore(CreateStoreRequest(name=name, url=url), timeout=STEP_SECONDS))
    assert error.reason == reason
    assert "storage_url" not in error.message
    response = await stores.stub.ListStores(ListStoresRequest(), timeout=STEP_SECONDS)
    assert [store.name for store in response.stores] == ["first"]


@pytest.mark.parametrize("folders", ["", "{folder}/allowed", "/nowhere:{folder}/allowed"])
async def test_a_store_on_a_disk_lies_where_the_operator_allowed(
    postgres: TestPostgres, tmp_path: Path, folders: str
) -> None:
    """An administrator of stores must not make the service write to any other folder, not even by links."""
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "link").symlink_to(tmp_path)
    folders = folders.format(folder=tmp_path)
    database_url = await postgres.create_database()
    async with running_storage(database_url, tmp_path, storage_folders=folders) as storage:
        stores = Stores(storage)
        for url in (tmp_path / "other", tmp_path / "allowed" / "link" / "other", tmp_path / "allowed/../other"):
            error = await failure(stores.add("second", url.as_uri()))
            assert (error.reason, error.message.partition(":")[0]) == (Reason.INVALID_FIELD, "url")
            assert not (tmp_path / "other").exists()
        allowed = stores.add("second", (tmp_path / "allowed" / "inside").as_uri())
        if folders:
            assert (await allowed).name == "second"
        else:
            assert "TOWPATH_STORAGE_FOLDERS" in (await failure(allowed)).message


async def test_bytes_belong_to_one_store(storage: RunningStorage, stores: Stores) -> None:
    """A place that holds objects, or is a store already, is refused; the same request again is not."""
    await storage.write(1, b"x" * 100)
    assert (await failure(stores.add("again", storage.root.as_uri()))).reason == Reason.STORE_EXISTS
    assert (await failure(stores.add("again", storage.root.as_uri() + "/"))).reason == Reason.STORE_UNUSABLE
    await stores.add("second")
    await stores.add("second")
    assert (await failure(stores.add("third", stores.root("second").as_uri()))).reason == Reason.STORE_EXISTS


async def test_copies_that_make_no_sense(stores: Stores) -> None:
    """A copy to itself, to the primary, of an unknown store or with a thousand at once is a mistake and is refused."""
    await stores.add("second")
    for source, target, parallel, reason in (
        ("first", "first", 1, Reason.INVALID_FIELD),
        ("second", "first", 1, Reason.INVALID_FIELD),
        ("first", "second", 1000, Reason.INVALID_FIELD),
        ("first", "second", -1, Reason.INVALID_FIELD),
        ("third", "second", 1, Reason.STORE_NOT_FOUND),
        ("first", "third", 1, Reason.STORE_NOT_FOUND),
    ):
        assert (await failure(stores.copy(source, target, parallel=parallel))).reason == reason
    assert not (await stores.get("second")).HasField("copy")


async def test_another_process_follows(
    storage: RunningStorage, stores: Stores, database_url: SecretStr, tmp_path: Path
) -> None:
    """A second service reads and writes by the list within seconds, whichever it was changed with."""
    (tmp_path / "beside").mkdir()
    async with running_storage(database_url, tmp_path / "beside", storage_url=storage.root.as_uri()) as beside:
        old = await storage.write(1, os.urandom(2000))
        await stores.fill("second", "first")
        await stores.set_primary("second")

        async def has_followed() -> bool:
            return not stores.path("first", await beside.write(1, os.urandom(1000))).exists()

        await until(has_followed)
        new = await beside.write(1, os.urandom(1000))
        assert stores.path("second", new).exists()
        for client in (storage, beside):
            for oid in (old, new):
                assert oid_of(await client.read(1, oid)) == oid


async def test_a_copy_survives_its_process(process: StorageProcess, client: StorageClient) -> None:
    """Killed in the middle and started again, it goes on from where it was, and leaves nothing half-written."""
    stores = Stores(client)
    await process.start()
    oids = [await client.write(1, os.urandom(200_000)) for _ in range(20)]
    await stores.add("second")
    await stores.copy("first", "second", parallel=3, rate=2_000_000)
    for done in (4, 10):
        await until(lambda done=done: _count(stores, oids) >= done)  # type: ignore[misc]
        await process.stop()
        held = _count(stores, oids)
        assert held < len(oids)
        await process.start()
    await stores.wait_filled("second")
    for oid in oids:
        assert oid_of(stores.path("second", oid).read_bytes()) == oid
    names = len(oids)
    await until(lambda: len([path for path in stores.root("second").rglob("*") if path.is_file()]) == names)


def _count(stores: Stores, oids: list[str]) -> int:
    return sum(stores.path("second", oid).exists() for oid in oids)
