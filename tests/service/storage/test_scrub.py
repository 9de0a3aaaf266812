"""The scrubber: damage in every store is found by itself, healed where another store has the bytes, never served."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.backends.object_store.keys import key_of
from tests.service.storage.conftest import Sql
from tests.support.backup import Place, running_installation
from tests.support.damage import CHANGES, DAMAGE, DAMAGED_SIZE
from tests.support.seaweedfs import BUCKET, SeaweedFS
from tests.support.storage import RunningStorage, failure, oid_of, running_storage
from tests.support.stores import Stores
from tests.support.waiting import until

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

PRESENT, DAMAGED = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_DAMAGED
DAY_SECONDS = 24 * 3600
# A period of two seconds, in which a blob is due every second.
SETTINGS: dict[str, Any] = {"storage_scrub_days": 2 / DAY_SECONDS, "storage_scrub_rate": 1_000_000_000}


def _put_changed(change: Callable[[bytearray], object]) -> Callable[["S3Client", str, bytes], None]:
    def damage(client: "S3Client", key: str, data: bytes) -> None:
        changed = bytearray(data)
        change(changed)
        client.put_object(Bucket=BUCKET, Key=key, Body=bytes(changed))

    return damage


def _put_below(client: "S3Client", key: str, data: bytes) -> None:
    client.delete_object(Bucket=BUCKET, Key=key)
    client.put_object(Bucket=BUCKET, Key=f"{key}/x", Body=data)


IN_BUCKET: dict[str, Callable[["S3Client", str, bytes], object]] = {
    **{name: _put_changed(change) for name, change in CHANGES.items()},
    "missing": lambda client, key, _data: client.delete_object(Bucket=BUCKET, Key=key),
    "a folder with a file": _put_below,
}
"""The kinds of damage in a bucket."""


@dataclass
class Bucket:
    """A store in a bucket: the id of the store, and a client to spoil what is there."""

    store_id: int
    prefix: str
    client: "S3Client"
    sql: Sql

    async def key(self, oid: str) -> str:
        """Return the key of an object's blob now; empty if it has none."""
        name = f"SELECT name FROM storage.contents WHERE store_id = {self.store_id} AND oid = '{oid}'"  # noqa: S608 - ids
        found = (await self.sql(name)).strip()
        return key_of(self.prefix, found) if found else ""

    async def read(self, key: str) -> bytes:
        """Return what is there now."""
        response = await asyncio.to_thread(self.client.get_object, Bucket=BUCKET, Key=key)
        return await asyncio.to_thread(response["Body"].read)


@pytest.fixture
def s3(seaweedfs: SeaweedFS) -> Iterator["S3Client"]:
    """A client of the S3 server of this run."""
    made = seaweedfs.client()
    yield made
    made.close()


@pytest.fixture
async def storage(database_url: SecretStr, tmp_path: Path) -> AsyncIterator[RunningStorage]:
    """A storage service on a disk that reads everything back within two seconds."""
    async with running_storage(database_url, tmp_path, **SETTINGS) as running:
        yield running


async def _are(storage: RunningStorage, oids: Iterable[str], status: "pb.ObjectStatus.ValueType") -> bool:
    return set(await storage.statuses(1, *oids)) == {status}


async def _write_of_each(storage: RunningStorage, kinds: Iterable[str]) -> tuple[dict[str, str], dict[str, bytes]]:
    """Write an object for each kind of damage; return the oids by kind, and the bytes by oid."""
    contents = {oid_of(data): data for data in (os.urandom(DAMAGED_SIZE) for _ in kinds)}
    return {kind: await storage.write(1, data) for kind, data in zip(kinds, contents.values(), strict=True)}, contents


async def _require_damaged(storage: RunningStorage, oids: Mapping[str, str]) -> None:
    """Wait until the objects are answered as damaged, and require that none is served."""
    await until(lambda: _are(storage, oids.values(), DAMAGED))
    for kind, oid in oids.items():
        error = await failure(storage.read(1, oid))
        assert (error.status.name, error.reason) == ("DATA_LOSS", "OBJECT_DAMAGED"), kind


async def _require_healed_by_pushes(storage: RunningStorage, contents: Mapping[str, bytes]) -> None:
    """Upload the objects again, and require that they are there as they were."""
    for data in contents.values():
        await storage.write(1, data)
    assert await _are(storage, contents, PRESENT)
    for oid, data in contents.items():
        assert await storage.read(1, oid) == data


async def test_damage_is_set_aside_and_healed_by_a_push(storage: RunningStorage) -> None:
    """A damaged blob of an only store is neither served nor deleted until somebody uploads the object again."""
    oids, contents = await _write_of_each(storage, DAMAGE)
    other = os.urandom(DAMAGED_SIZE)
    sound = await storage.write(1, other)
    paths = {kind: storage.path(oid) for kind, oid in oids.items()}
    for kind, damage in DAMAGE.items():
        damage(paths[kind])
    await _require_damaged(storage, oids)
    for kind, path in paths.items():
        assert path.is_symlink() or path.exists() == (kind != "missing"), kind
    assert await storage.statuses(1, sound) == [PRESENT]
    await _require_healed_by_pushes(storage, {**contents, sound: other})


@pytest.mark.parametrize("store", ["first", "second"])
async def test_damage_in_one_of_two_stores_is_healed(storage: RunningStorage, store: str) -> None:
    """The store gets the bytes again from the other one, and readers never see anything else."""
    stores = Stores(storage)
    oids, contents = await _write_of_each(storage, DAMAGE)
    await stores.fill("second", "first")
    paths = {oid: stores.path(store, oid) for oid in contents}
    for kind, damage in DAMAGE.items():
        damage(paths[oids[kind]])

    def is_healed(oid: str) -> bool:
        healed = stores.path(store, oid)
        return healed != paths[oid] and healed.is_file() and oid_of(healed.read_bytes()) == oid

    for kind, oid in oids.items():
        await until(partial(is_healed, oid), f"it is healed: {kind}")
        assert await storage.read(1, oid) == contents[oid], kind


async def test_damage_in_a_bucket_is_set_aside_and_healed_by_a_push(
    database_url: SecretStr, tmp_path: Path, seaweedfs: SeaweedFS, s3: "S3Client", sql: Sql
) -> None:
    """A damaged blob of a bucket is not served until somebody uploads the object again."""
    prefix = f"scrubbed-{secrets.token_hex(4)}"
    async with running_storage(database_url, tmp_path, storage_url=seaweedfs.url(prefix), **SETTINGS) as storage:
        bucket = Bucket(1, prefix, s3, sql)
        oids, contents = await _write_of_each(storage, IN_BUCKET)
        for kind, damage in IN_BUCKET.items():
            await asyncio.to_thread(damage, s3, await bucket.key(oids[kind]), contents[oids[kind]])
        await _require_damaged(storage, oids)
        await _require_healed_by_pushes(storage, contents)


async def test_damage_in_a_bucket_is_healed_from_a_disk(
    storage: RunningStorage, seaweedfs: SeaweedFS, s3: "S3Client", sql: Sql
) -> None:
    """The bucket gets the bytes again from the disk, and readers never see anything else."""
    stores, prefix = Stores(storage), f"scrubbed-{secrets.token_hex(4)}"
    oids, contents = await _write_of_each(storage, IN_BUCKET)
    await stores.add("bucket", seaweedfs.url(prefix))
    await stores.copy("first", "bucket")
    await stores.wait_filled("bucket")
    bucket = Bucket(2, prefix, s3, sql)
    keys = {oid: await bucket.key(oid) for oid in contents}
    for kind, damage in IN_BUCKET.items():
        await asyncio.to_thread(damage, s3, keys[oids[kind]], contents[oids[kind]])

    async def is_healed(oid: str) -> bool:
        healed = await bucket.key(oid)
        return healed not in ("", keys[oid]) and await bucket.read(healed) == contents[oid]

    for kind, oid in oids.items():
        await until(partial(is_healed, oid), f"it is healed: {kind}")
        assert await storage.read(1, oid) == contents[oid], kind


async def test_every_blob_is_read_in_time(storage: RunningStorage, sql: Sql) -> None:
    """The oldest check of a store is never older than the period, give or take the pauses."""
    stores = Stores(storage)
    for _ in range(20):
        await storage.write(1, os.urandom(10_000))
    before = (await stores.get("first")).oldest_check_at

    async def is_later() -> bool:
        return (await stores.get("first")).oldest_check_at.ToMilliseconds() > before.ToMilliseconds() + 2_000

    await until(is_later)
    late = "SELECT count(*) FROM storage.contents WHERE checked_at < now() - interval '20 seconds'"
    assert await sql(late) == "0"


async def test_what_cannot_be_read_stops_no_checks(storage: RunningStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk error at one file is no damage, and another damaged file is found all the same."""
    unreadable, damaged = [await storage.write(1, os.urandom(DAMAGED_SIZE)) for _ in range(2)]
    pread, refused = os.pread, storage.path(unreadable).stat().st_ino

    def failing(descriptor: int, length: int, offset: int) -> bytes:
        if os.fstat(descriptor).st_ino == refused:
            raise OSError(5, "Input/output error")
        return pread(descriptor, length, offset)

    monkeypatch.setattr("services.storage.backends.disk.reading.os.pread", failing)
    DAMAGE["a bit in the middle"](storage.path(damaged))
    await until(lambda: _are(storage, [damaged], DAMAGED))
    assert await storage.statuses(1, unreadable) == [PRESENT]


async def test_check_agrees(database_url: SecretStr, tmp_path: Path) -> None:
    """`towpath check --hash` and the scrubber find the same blobs, of each kind of damage, and no others."""
    place, kinds = Place(database_url, tmp_path), list(DAMAGE.values())

    async def checked() -> set[str]:
        findings = (await place.run("check", "--hash", status=1)).document["findings"]
        return {finding["oid"] for finding in findings if finding["kind"] in ("missing", "corrupt")}

    async with running_installation(place) as installation:
        storage = installation.storage
        sound, *damaged = [await storage.write(1, os.urandom(DAMAGED_SIZE)) for _ in ["sound", *kinds]]
        for oid, damage in zip(damaged, kinds, strict=True):
            damage(storage.path(oid))
        assert await checked() == set(damaged)
    async with running_storage(database_url, tmp_path, **SETTINGS) as storage:

        async def are_found() -> bool:
            return await storage.statuses(1, sound, *damaged) == [PRESENT, *[DAMAGED] * len(damaged)]

        await until(are_found)
        assert await checked() == set(damaged)
        assert await are_found()
