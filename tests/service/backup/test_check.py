"""The check finds each kind of damage, names who is hurt, and finds nothing where all is sound."""

import pytest
from pydantic import SecretStr

from services.database.migrations import create_operator_engine
from services.database.statement import rows
from services.storage.backends.disk import DiskBackend
from services.storage.blob_names import new_name
from services.storage.index import contents, objects
from services.storage.index.contents import FIRST_STORE_ID, PendingBlob
from tests.support.appends import PartialUpload
from tests.support.backup import Installation
from tests.support.storage import finish, oid_of, upload
from tests.support.waiting import until


@pytest.mark.parametrize("hashed", [False, True])
async def test_a_sound_stack(installation: Installation, hashed: bool) -> None:
    """Objects of several repositories, of no bytes and removed ones are all as they should be."""
    storage = installation.storage
    for repository, data in ((1, b""), (1, b"one"), (2, b"one"), (2, b"x" * 3_000_000)):
        await storage.write(repository, data)
    await storage.delete(2, oid_of(b"one"))
    found = (await installation.place.run("check", *(["--hash"] if hashed else []))).document
    assert (found["objects"], found["bytes"], found["hashed"], found["findings"]) == (3, 3_000_003, hashed, [])


async def test_parts_of_uploads(installation: Installation) -> None:
    """Parts are neither objects nor left over, while their upload may go on."""
    broken = PartialUpload(installation.storage, b"x" * 3000)
    await broken.append(0, 1000)
    await broken.append(1000, 2000)
    found = (await installation.place.run("check", "--hash")).document
    assert (found["objects"], found["findings"]) == (0, [])
    assert len(installation.storage.files()) == 2
    await broken.append(2000, 3000)
    found = (await installation.place.run("check", "--hash")).document
    assert (found["objects"], found["bytes"], found["findings"]) == (1, 3000, [])


@pytest.mark.parametrize(
    ("left", "options", "kind", "problem"),
    [
        (None, [], "missing", "the bytes are not there"),
        (b"sho", [], "corrupt", "3 bytes, expected 7"),
        (None, ["--hash"], "missing", "the bytes are not there"),
        (b"sho", ["--hash"], "corrupt", "3 bytes, expected 7"),
        (b"DAMAGED", ["--hash"], "corrupt", "the SHA-256 of its bytes is another"),
    ],
)
async def test_damage(
    installation: Installation, left: bytes | None, options: list[str], kind: str, problem: str
) -> None:
    """A damaged object is told once, with the names of the repositories that hold it; the exit status is 1."""
    locks, storage = installation.locks, installation.storage
    first, second = await locks.add_repository("studio/film"), await locks.add_repository("studio/game")
    oid = await storage.write(first, b"damaged")
    await storage.write(second, b"damaged")
    await storage.write(first, b"sound")
    path = storage.path(oid)
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)
    found = (await installation.place.run("check", *options, status=1)).document
    finding = {"kind": kind, "oid": oid, "size": 7, "problem": problem, "name": path.name}
    finding |= {"repositories": ["studio/film", "studio/game"]}
    assert found["findings"] == [finding]
    assert (found["missing"] + found["corrupt"], found["objects"]) == (1, 2)


async def test_a_flipped_bit_is_found_by_reading_alone(installation: Installation) -> None:
    """Bytes of the right size are believed without --hash."""
    oid = await installation.storage.write(1, b"damaged")
    installation.storage.path(oid).write_bytes(b"DAMAGED")
    assert (await installation.place.run("check")).document["findings"] == []


async def test_orphans_and_what_will_be_swept(installation: Installation, database_url: SecretStr) -> None:
    """Bytes without a holder do no harm: they are told with exit status 0, apart from those that a sweep deletes."""
    storage = installation.storage
    await storage.write(1, b"held")
    removed = await storage.write(1, b"removed")
    engine = create_operator_engine(database_url, "test")
    orphan, left = new_name(oid_of(b"orphan")), new_name(oid_of(b"left"))
    async with engine.connect() as connection:
        await objects.hold_deletions(connection)
        await storage.delete(1, removed)
        await storage.purge(1, removed)
        for name in (orphan, left):
            await DiskBackend(storage.root).put({name: b"x"})
        await rows(
            connection, contents.begin_statement([PendingBlob(None, FIRST_STORE_ID, oid_of(b"left"), left)], writer=1)
        )
        await connection.commit()
        found = (await installation.place.run("check", "--hash")).document
    await engine.dispose()
    assert (found["orphaned"], found["unclaimed"], found["left_over"]) == (1, 1, 1)
    assert [finding["oid"] for finding in found["findings"]] == [oid_of(b"orphan")]


async def test_an_upload_that_goes_on_is_no_finding(installation: Installation) -> None:
    """Bytes on their way are neither orphaned nor left over."""
    storage = installation.storage
    header, first, second = upload(1, oid_of(b"data"), 4, [b"da", b"ta"])
    call = await storage.begin(header, first)
    await until(lambda: bool(storage.incoming()))
    found = (await installation.place.run("check")).document
    assert (found["findings"], found["left_over"]) == ([], 0)
    await finish(call, second)


async def test_the_rate_is_kept(installation: Installation) -> None:
    """--rate bounds what is read in a second: a check at a low rate ends, and finds the same."""
    await installation.storage.write(1, b"x" * 2_000_000)
    found = (await installation.place.run("check", "--hash", "--rate", "2000000")).document
    assert (found["hashed"], found["findings"]) == (True, [])
