"""BatchStatObjects: answers in order, no oracle, lost bytes, and intents."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.support.damage import DAMAGE
from tests.support.memory_backend import MemoryBackend
from tests.support.storage import RunningStorage, failure, oid_of, running_storage
from tests.support.waiting import STEP_SECONDS

PRESENT, MISSING, REMOVED = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING, pb.OBJECT_STATUS_REMOVED
DAMAGED = pb.OBJECT_STATUS_DAMAGED
Key = pb.BatchStatObjectsRequest.ObjectKey


def ask(
    *keys: pb.BatchStatObjectsRequest.ObjectKey, intent: "pb.Intent.ValueType" = pb.INTENT_UNSPECIFIED
) -> pb.BatchStatObjectsRequest:
    """Return a request of repository 1."""
    return pb.BatchStatObjectsRequest(repository_id=1, objects=keys, intent=intent)


async def test_answers_in_order_with_repeats(storage: RunningStorage) -> None:
    """Each entry is answered, in order, repeats included, with the held size whatever size was asked."""
    held, removed = await storage.write(1, b"held"), await storage.write(1, b"removed")
    await storage.delete(1, removed, reason="a licence")
    missing = oid_of(b"missing")
    oids = [missing, held, removed, held, missing, removed, held]
    answer = await storage.stub.BatchStatObjects(ask(*(Key(oid=oid, size=99) for oid in oids)), timeout=STEP_SECONDS)
    by_oid = {held: (PRESENT, 4, ""), missing: (MISSING, 0, ""), removed: (REMOVED, 0, "a licence")}
    assert [(each.status, each.size, each.removal_reason) for each in answer.objects] == [by_oid[oid] for oid in oids]


@pytest.mark.shared_storage
async def test_nothing_asked_nothing_answered(storage: RunningStorage) -> None:
    """An empty batch has an empty answer, with any intent."""
    for intent in (pb.INTENT_UNSPECIFIED, pb.INTENT_READ, pb.INTENT_WRITE):
        assert not (await storage.stub.BatchStatObjects(ask(intent=intent), timeout=STEP_SECONDS)).objects


@pytest.mark.shared_storage
async def test_many_objects(storage: RunningStorage) -> None:
    """10,000 objects are answered at once."""
    held = await storage.write(1, b"held")
    oids = [held if number % 100 == 0 else oid_of(b"%d" % number) for number in range(10_000)]
    statuses = await storage.statuses(1, *oids)
    assert statuses == [PRESENT if oid == held else MISSING for oid in oids]


async def test_no_oracle_across_repositories(storage: RunningStorage) -> None:
    """A repository must not reveal that another repository holds or removed an object."""
    held, removed = await storage.write(2, b"held"), await storage.write(2, b"removed")
    await storage.delete(2, removed)
    assert await storage.statuses(1, held, removed) == [MISSING, MISSING]


@pytest.mark.parametrize("damage", ["missing", "short by a byte", "long by a byte", "a folder", "a FIFO"])
async def test_traps_6_and_36_lost_bytes_can_be_written_again(storage: RunningStorage, damage: str) -> None:
    """Bytes that a reader finds lost are kept, DAMAGED, logged as errors, and healed by an upload (trap-6, trap-36)."""
    content = os.urandom(1000)
    oid = await storage.write(1, content)
    DAMAGE[damage](storage.path(oid))
    left = storage.files()
    with capture_logs() as logs:
        error = await failure(storage.read(1, oid))
        assert (error.status.name, error.reason) == ("DATA_LOSS", "OBJECT_DAMAGED")
        assert await storage.statuses(1, oid, oid) == [DAMAGED, DAMAGED]
    assert storage.files() == left
    assert [(line["log_level"], line["oid"]) for line in logs if "are lost" in line["event"]] == [("error", oid)]
    await storage.write(1, content)
    assert await storage.statuses(1, oid) == [PRESENT]
    assert await storage.read(1, oid) == content


@pytest.mark.shared_storage
@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (ask(Key(oid="0" * 64), Key(oid="../x")), "INVALID_OID"),
        (ask(Key(oid="F" * 64)), "INVALID_OID"),
        (ask(Key(oid="0" * 64, size=-1)), "INVALID_FIELD"),
        (pb.BatchStatObjectsRequest(objects=[Key(oid="0" * 64)]), "INVALID_FIELD"),
        (pb.BatchStatObjectsRequest(repository_id=1, intent=9), "INVALID_FIELD"),  # type: ignore[arg-type] # that is the point
    ],
)
async def test_malformed_requests(storage: RunningStorage, asked: pb.BatchStatObjectsRequest, reason: str) -> None:
    """Malformed fields are INVALID_ARGUMENT (trap-28)."""
    error = await failure(storage.stub.BatchStatObjects(asked, timeout=STEP_SECONDS))
    assert (error.status.name, error.reason) == ("INVALID_ARGUMENT", reason)


async def test_intent_to_write_needs_room_for_what_is_missing(database_url: SecretStr, tmp_path: Path) -> None:
    """Announced objects that are not held must fit beside the reserve, each counted once."""
    backend = MemoryBackend(capacity=1004)
    async with running_storage(database_url, tmp_path, backend=backend, storage_reserve_bytes=100) as storage:
        held = await storage.write(1, bytes(200))
        fits = [Key(oid="0" * 64, size=704), Key(oid="0" * 64, size=704), Key(oid=held, size=200)]
        answer = await storage.stub.BatchStatObjects(ask(*fits, intent=pb.INTENT_WRITE), timeout=STEP_SECONDS)
        assert [each.status for each in answer.objects] == [MISSING, MISSING, PRESENT]
        too_much = ask(*fits, Key(oid="1" * 64, size=1), intent=pb.INTENT_WRITE)
        error = await failure(storage.stub.BatchStatObjects(too_much, timeout=STEP_SECONDS))
        assert (error.status.name, error.reason) == ("RESOURCE_EXHAUSTED", "STORAGE_FULL")
        too_much.intent = pb.INTENT_READ
        await storage.stub.BatchStatObjects(too_much, timeout=STEP_SECONDS)
        # What is held is not written again, so a full disk does not matter.
        backend.capacity = 0
        await storage.stub.BatchStatObjects(ask(Key(oid=held, size=200), intent=pb.INTENT_WRITE), timeout=STEP_SECONDS)
