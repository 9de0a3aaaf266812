"""The check of several stores: what only one of them has lost is told as healable, and healed when that is wanted."""

from typing import Any

import pytest

from tests.support.storage import oid_of
from tests.support.two_stores import FIRST, SECOND, TwoStores

NAMES = {FIRST: "first", SECOND: "second"}


def told(oid: str, name: str, kind: str, store: int, problem: str) -> dict[str, Any]:
    """Return a finding of an object of four bytes that repository 1 holds."""
    finding = {"kind": kind, "oid": oid, "size": 4, "problem": problem, "name": name}
    return {**finding, "store": NAMES[store], "repositories": ["repository 1"]}


@pytest.mark.parametrize("hashed", [False, True])
async def test_sound_stores(stores: TwoStores, hashed: bool) -> None:
    """Stores may hold different objects, so an object in only one of them is no finding, and counts once."""
    for data, places in ((b"both", (FIRST, SECOND)), (b"first", (FIRST,)), (b"second", (SECOND,))):
        oid = await stores.hold(data)
        for place in places:
            await stores.put(place, oid, data)
    found = (await stores.place.run("check", *(["--hash"] if hashed else []))).document
    assert (found["objects"], found["bytes"], found["findings"]) == (3, 15, [])
    assert found.keys().isdisjoint({"healing", "wanted"})


@pytest.mark.parametrize("store", [FIRST, SECOND])
@pytest.mark.parametrize(
    ("damage", "options", "problem"),
    [
        (None, [], "the bytes are not there"),
        (b"dat", [], "3 bytes, expected 4"),
        (b"DATA", ["--hash"], "the SHA-256 of its bytes is another"),
    ],
)
async def test_healable(stores: TwoStores, store: int, damage: bytes | None, options: list[str], problem: str) -> None:
    """An object that is damaged in one store and not in the other is not lost; nothing is changed."""
    oid, other = await stores.hold(b"data"), FIRST + SECOND - store
    name = await stores.put(store, oid, damage)
    await stores.put(other, oid, b"data")
    found = (await stores.place.run("check", *options)).document
    assert found["findings"] == [told(oid, name, "healable", store, f"{problem}; {NAMES[other]} has them")]
    assert (found["missing"], found["corrupt"], found["healable"], found["objects"]) == (0, 0, 1, 1)
    assert await stores.damaged() == set()


async def test_lost_in_all_stores(stores: TwoStores) -> None:
    """An object that no store has is reported for each store that should have it, or else for the primary."""
    oid, nowhere = await stores.hold(b"data"), await stores.hold(b"gone")
    first = await stores.put(FIRST, oid, None)
    second = await stores.put(SECOND, oid, b"DATA")
    found = (await stores.place.run("check", "--hash", "--heal", status=1)).document
    assert (found["missing"], found["corrupt"], found["healable"], found["healing"], found["wanted"]) == (2, 1, 0, 0, 2)
    expected = [
        told(nowhere, "", "missing", FIRST, "the bytes are not there"),
        told(oid, first, "missing", FIRST, "the bytes are not there"),
        told(oid, second, "corrupt", SECOND, "the SHA-256 of its bytes is another"),
    ]
    assert sorted(found["findings"], key=lambda finding: finding["name"]) == sorted(
        expected, key=lambda finding: finding["name"]
    )
    assert await stores.damaged() == {first, second}


async def test_what_was_lost_and_is_there_again(stores: TwoStores) -> None:
    """Intact bytes that are marked as damaged are marked as intact again: only --hash knows, only --heal changes it."""
    oid = await stores.hold(b"data")
    for store in (FIRST, SECOND):
        name = await stores.put(store, oid, b"data", damaged=True)
    for options in ([], ["--hash"]):
        assert (await stores.place.run("check", *options)).document["findings"] == []
        assert name in await stores.damaged()
    found = (await stores.place.run("check", "--hash", "--heal")).document
    assert (found["findings"], found["healing"], found["wanted"]) == ([], 0, 0)
    assert await stores.damaged() == set()


async def test_heal(stores: TwoStores) -> None:
    """With --heal, damaged bytes that another store has are marked, and intact bytes are unmarked; all else stays."""
    gone, wrong, sound, damaged = [await stores.hold(data) for data in (b"gone", b"wrong", b"sound", b"doubted")]
    bad = {await stores.put(FIRST, gone, None), await stores.put(SECOND, wrong, b"WRONG")}
    await stores.put(SECOND, gone, b"gone")
    await stores.put(FIRST, wrong, b"wrong")
    for store in (FIRST, SECOND):
        await stores.put(store, sound, b"sound")
    bad.add(await stores.put(FIRST, damaged, b"DOUBTED"))
    await stores.put(SECOND, damaged, b"doubted", damaged=True)
    found = (await stores.place.run("check", "--hash", "--heal")).document
    assert (found["healable"], found["healing"], found["missing"], found["corrupt"]) == (3, 3, 0, 0)
    assert await stores.damaged() == bad
    found = (await stores.place.run("check", "--hash", "--heal")).document
    assert (found["healable"], found["healing"]) == (3, 3)
    assert await stores.damaged() == bad


async def test_heal_needs_reading(stores: TwoStores) -> None:
    """Bytes of the right size are not taken for good ones: --heal without --hash is refused."""
    answer = await stores.place.run("check", "--heal", status=1)
    assert answer.errors == "towpath: --heal: expected --hash with it\n"


async def test_orphans_in_each_store(stores: TwoStores) -> None:
    """Bytes that nothing names are told for the store that they are in, also where the name is another store's."""
    oid = await stores.hold(b"data")
    name = await stores.put(FIRST, oid, b"data")
    await stores.lay(SECOND, name, b"data")
    swept, orphan = f"{oid_of(b'swept')}.{'0' * 16}", f"{oid_of(b'orphan')}.{'0' * 16}"
    for one in (swept, orphan):
        await stores.lay(SECOND, one, b"x")
    await stores.sql("INSERT INTO storage.discards VALUES (2, :name, now())", name=swept)
    found = (await stores.place.run("check", "--hash")).document
    assert (found["orphaned"], found["unclaimed"], found["healable"]) == (2, 1, 0)
    assert {(finding["name"], finding["store"]) for finding in found["findings"]} == {
        (name, "second"),
        (orphan, "second"),
    }
