"""Backups of an installation with several stores, and what a restore of one leaves: a single store."""

from pathlib import Path

import pytest

from services.database.migrations import migrate
from services.locks.models import SCHEMA as LOCKS
from services.storage.blob_names import new_name
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.backup import Place, running_installation
from tests.support.storage import oid_of
from tests.support.two_stores import FIRST, SECOND, TwoStores, bytes_in, stores_of


async def test_the_best_bytes_of_each_object(stores: TwoStores, target: Path) -> None:
    """Each object is there once: the intact before the damaged, and the primary's before the other's."""
    both, moved, damaged, poor = [await stores.hold(data) for data in (b"both", b"moved", b"doubted", b"poor")]
    await stores.put(SECOND, both, b"both")
    expected = {await stores.put(FIRST, both, b"both"): b"both"}
    expected[await stores.put(SECOND, moved, b"moved")] = b"moved"
    await stores.put(FIRST, damaged, b"DAMAGED", damaged=True)
    expected[await stores.put(SECOND, damaged, b"doubted")] = b"doubted"
    expected[await stores.put(FIRST, poor, b"poor", damaged=True)] = b"poor"
    nameless = await stores.hold(b"nameless")
    await stores.lay(FIRST, nameless, b"nameless")
    expected[nameless] = b"nameless"
    made = (await stores.place.run("backup", target)).document
    assert (made["objects"], made["lost"]) == (5, [])
    assert bytes_in(target) == expected
    await stores.make_second_primary()
    await stores.place.run("backup", target, "--prune")
    assert sorted(bytes_in(target).values()) == [b"both", b"doubted", b"moved", b"nameless", b"poor"]
    [kept] = [name for name, data in bytes_in(target).items() if data == b"both"]
    assert kept not in expected


async def test_another_primary(stores: TwoStores, target: Path, empty_place: Place) -> None:
    """After a change of the primary, blobs in the folder are not copied again, and all of them are restored."""
    oids = {await stores.hold(data): data for data in (b"one", b"two", b"")}
    for oid, data in oids.items():
        await stores.put(FIRST, oid, data)
    await stores.place.run("backup", target)
    before = {path.read_bytes(): path.stat().st_ino for path in (target / "objects").rglob("*") if path.is_file()}
    names = {await stores.put(SECOND, oid, data): data for oid, data in oids.items()}
    await stores.make_second_primary()
    made = (await stores.place.run("backup", target, "--prune")).document
    assert (made["copied_objects"], made["pruned_objects"]) == (0, 3)
    assert bytes_in(target) == names
    after = {path.read_bytes(): path.stat().st_ino for path in (target / "objects").rglob("*") if path.is_file()}
    assert after == before
    restored = (await empty_place.run("restore", target)).document
    assert restored["check"]["findings"] == []
    assert bytes_in(empty_place.bytes) == names


async def test_another_stores_bytes_are_taken(stores: TwoStores, target: Path) -> None:
    """If the best blob is lost or wrong, the bytes of the other store are copied under the best blob's name."""
    gone, wrong, lost = [await stores.hold(data) for data in (b"gone", b"wrong", b"lost")]
    expected = {await stores.put(FIRST, gone, None): b"gone", await stores.put(FIRST, wrong, b"WRONG"): b"wrong"}
    await stores.put(SECOND, gone, b"gone")
    await stores.put(SECOND, wrong, b"wrong")
    await stores.put(FIRST, lost, b"LOST")
    await stores.put(SECOND, lost, b"los")
    made = (await stores.place.run("backup", target, status=1)).document
    problem = "first: the SHA-256 of its bytes is another; second: 3 bytes, expected 4"
    assert made["lost"] == [{"oid": lost, "problem": problem}]
    assert bytes_in(target) == expected


@pytest.mark.parametrize("moved", [False, True])
async def test_one_store_is_restored(stores: TwoStores, target: Path, empty_place: Place, moved: bool) -> None:
    """All objects come into the store of the settings, whatever was the primary, and nothing tells of another."""
    for data, places in ((b"both", (FIRST, SECOND)), (b"old", (FIRST,)), (b"new", (SECOND,))):
        oid = await stores.hold(data)
        for place in places:
            await stores.put(place, oid, data, damaged=data == b"new")
    gone = {store: new_name(oid_of(b"gone")) for store in (FIRST, SECOND)}
    coming = {store: new_name(oid_of(b"coming")) for store in (FIRST, SECOND)}
    for store in (FIRST, SECOND):
        await stores.sql("INSERT INTO storage.discards VALUES (:store, :name, now())", store=store, name=gone[store])
        await stores.sql("INSERT INTO storage.uploads VALUES (:store, :name, 7)", store=store, name=coming[store])
    await stores.sql("INSERT INTO storage.copies (to_id, from_id, parallel, problem) VALUES (2, 1, 4, '')")
    if moved:
        await stores.make_second_primary()
    await stores.place.run("backup", target)
    copied = bytes_in(target)

    restored = (await empty_place.run("restore", target)).document
    assert (restored["check"]["findings"], restored["check"]["objects"]) == ([], 3)
    assert sorted(copied.values()) == [b"both", b"new", b"old"]
    assert bytes_in(empty_place.bytes) == copied
    async with stores_of(empty_place) as new:
        rows = await new.sql("SELECT store_id, name, is_doubted FROM storage.contents")
        assert {tuple(row) for row in rows} == {(1, name, False) for name in copied}
        assert len(rows) == 3
        primary = SECOND if moved else FIRST
        assert await new.sql("SELECT store_id, name FROM storage.discards") == [(1, gone[primary])]
        assert await new.sql("SELECT store_id, name FROM storage.uploads") == [(1, coming[primary])]
        assert await new.sql("SELECT to_id FROM storage.copies") == []
        assert await new.sql("SELECT id, name, url, is_primary FROM storage.stores") == [(1, "first", None, True)]
        # Ids are not given again, and there are only some thousands.
        added = "INSERT INTO storage.stores (name, url, is_primary) VALUES ('other', 'file:///x', false) RETURNING id"
        assert await new.sql(added) == [(3,)]
        await new.sql("DELETE FROM storage.stores WHERE id = 3")
    async with running_installation(empty_place) as running:
        assert await running.storage.read(1, oid_of(b"new")) == b"new"


async def test_a_store_that_cannot_be_opened(stores: TwoStores, target: Path) -> None:
    """It is named, with the reason; nothing is backed up without it."""
    await stores.sql("UPDATE storage.stores SET url = 'file://elsewhere/x' WHERE id = 2")
    answer = await stores.place.run("backup", target, status=1)
    assert answer.errors.startswith("towpath: the store second cannot be opened: storage_url: expected file://")
    assert not (target / "manifest.json").exists()


async def test_into_a_database_that_is_migrated(stores: TwoStores, target: Path, empty_place: Place) -> None:
    """A migration puts rows into an empty installation, and they must not keep a restore from it."""
    oid = await stores.hold(b"data")
    await stores.put(SECOND, oid, b"data")
    await stores.place.run("backup", target)
    for schema in (STORAGE, LOCKS):
        await migrate(empty_place.database_url, schema)
    restored = (await empty_place.run("restore", target)).document
    assert restored["check"]["findings"] == []
    answer = await empty_place.run("restore", target, status=1)
    assert "expected a storage without objects" in answer.errors


async def test_a_database_that_knows_no_stores(stores: TwoStores, target: Path) -> None:
    """A database of before is told to be migrated first."""
    await stores.sql("DROP TABLE storage.copies, storage.journal_segments, storage.stores")
    answer = await stores.place.run("backup", target, status=1)
    assert "run `towpath migrate` first" in answer.errors
