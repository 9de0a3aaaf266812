"""WriteWholeObject: objects that come at once share their ways, and each is answered for itself."""

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Reason
from services.common.rpc.options import CHUNK_BYTES
from tests.service.storage.conftest import Sql
from tests.support.memory_backend import MemoryBackend
from tests.support.storage import RunningStorage, oid_of, refusal, running_storage, two_storages
from tests.support.waiting import STEP_SECONDS, until

PRESENT, MISSING = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING


async def told(storage: RunningStorage, repository_id: int, data: bytes) -> str:
    """Write an object, and return why it was refused; an empty string where it was not."""
    refused = await refusal(storage.write(repository_id, data))
    return "" if refused is None else refused.reason


async def test_what_comes_at_once_is_written_in_groups(storage: RunningStorage, sql: Sql) -> None:
    """Of 100 objects of one moment each is held, by far fewer transactions."""
    data = [os.urandom(1000 + number) for number in range(100)]
    assert set(await asyncio.gather(*(told(storage, 1 + number % 3, each) for number, each in enumerate(data)))) == {""}
    for number, each in enumerate(data):
        assert await storage.read(1 + number % 3, oid_of(each)) == each
    held, transactions = map(
        int, (await sql("SELECT count(*), count(DISTINCT xmin::text) FROM storage.objects")).split("|")
    )
    assert held == 100
    assert transactions <= 20
    assert storage.incoming() == []
    assert await sql("SELECT count(*) FROM storage.uploads") == "0"


async def several(storage: RunningStorage, *written: tuple[int, str, bytes]) -> list[str]:
    """Write objects of one message, each a repository, an oid and bytes; return the oids of those that are held."""
    objects = [
        pb.WriteWholeObjectRequest(repository_id=repository, oid=oid, size=len(data), data=data)
        for repository, oid, data in written
    ]
    request = pb.WriteWholeObjectsRequest(objects=objects)
    return [each.object.oid for each in (await storage.stub.WriteWholeObjects(request, timeout=STEP_SECONDS)).objects]


async def test_several_in_one_message(storage: RunningStorage, sql: Sql) -> None:
    """In their order, repeats included, and in one transaction."""
    data = [os.urandom(1000) for _ in range(10)]
    written = [(1 + number % 3, oid_of(each), each) for number, each in enumerate(data)]
    assert await several(storage, *written, *written[:2]) == [oid for _, oid, _ in [*written, *written[:2]]]
    for repository, oid, each in written:
        assert await storage.read(repository, oid) == each
    assert await sql("SELECT count(DISTINCT xmin::text) FROM storage.objects") == "1"
    assert await several(storage) == []
    assert storage.incoming() == []


async def test_what_is_refused_of_several_in_one_message(storage: RunningStorage) -> None:
    """For whatever reason: it lacks its object, leaves nothing, and holds up no other."""
    removed = await storage.write(1, b"removed")
    await storage.delete(1, removed)
    await storage.purge(1, removed)
    await storage.delete_repository(9)
    bad = b"a disk that fails"
    folder = storage.root / "objects" / oid_of(bad)[:2]
    await asyncio.to_thread(folder.parent.mkdir, exist_ok=True)
    await asyncio.to_thread(folder.write_bytes, b"in the way")
    good = [data for number in range(9) if not oid_of(data := b"good %d" % number).startswith(oid_of(bad)[:2])]
    large = bytes(CHUNK_BYTES + 1)
    refused = [
        (1, oid_of(b"other"), b"wrong"),
        (1, removed, b"removed"),
        (9, oid_of(b"late"), b"late"),
        (0, oid_of(b"nowhere"), b"nowhere"),
        (1, oid_of(b"upper").upper(), b"upper"),
        (1, oid_of(large), large),
        (1, oid_of(bad), bad),
    ]
    held = [(1, oid_of(data), data) for data in good]
    expected = ["" for _ in refused] + [oid for _, oid, _ in held]
    assert await several(storage, *refused, *held) == expected
    assert set(await storage.statuses(1, *map(oid_of, good))) == {PRESENT}
    assert await storage.statuses(1, oid_of(b"other"), oid_of(large), oid_of(bad)) == [MISSING] * 3
    await until(lambda: len(storage.files()) == len(good) + 1)
    await until(lambda: storage.incoming() == [])


async def test_room_for_some_of_a_group(database_url: SecretStr, tmp_path: Path) -> None:
    """A full disk must not fail a whole group: objects that fit are held, and the rest leave nothing."""
    backend = MemoryBackend(capacity=5_500)
    async with running_storage(database_url, tmp_path, backend=backend) as storage:
        data = [os.urandom(1000) for _ in range(12)]
        answers = await asyncio.gather(*(told(storage, 1, each) for each in data))
        assert Counter(answers).keys() == {"", Reason.STORAGE_FULL}
        statuses = await storage.statuses(1, *map(oid_of, data))
        assert [status == PRESENT for status in statuses] == [answer == "" for answer in answers]
        await until(lambda: len(backend.contents) == answers.count(""))


async def test_who_gives_up_changes_nothing_for_others(storage: RunningStorage) -> None:
    """Calls that are cancelled meanwhile end; the others are answered, and what is held is whole."""
    data = [os.urandom(20_000) for _ in range(40)]
    calls = [asyncio.create_task(told(storage, 1, each)) for each in data]
    # Amid the first groups.
    await asyncio.sleep(0.01)
    for call in calls[::3]:
        call.cancel()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(answer == "" for answer in ended if not isinstance(answer, BaseException))
    kept = [each for each, answer in zip(data, ended, strict=True) if answer == ""]
    assert len(kept) >= len(data) - len(calls[::3])
    for each in kept:
        assert await storage.read(1, oid_of(each)) == each
    await until(lambda: storage.incoming() == [])


@pytest.mark.parametrize("count", [1, 12])
async def test_two_services_write_the_same_at_once(database_url: SecretStr, tmp_path: Path, count: int) -> None:
    """Groups of two processes, with the same objects in other orders, do not wait for each other."""
    async with two_storages(database_url, tmp_path) as [one, two]:
        for _ in range(5):
            data = [os.urandom(2000) for _ in range(count)]
            answers = await asyncio.gather(
                *(told(one, 1, each) for each in data), *(told(two, 2, each) for each in reversed(data))
            )
            assert set(answers) == {""}
            for each in data:
                assert await one.read(2, oid_of(each)) == await two.read(1, oid_of(each)) == each
        await until(lambda: len(one.files()) == 5 * count)
