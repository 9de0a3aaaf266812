"""AdminService with the storage service: objects that come from elsewhere and go there, and the times of locks."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import status_pb2
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage_pb

from services.cli.connection import Administration
from services.common.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Reason,
    ResourceExhausted,
    ServiceError,
    from_status,
)
from tests.service.locks import conftest
from tests.support.locks import RunningLocks, refused
from tests.support.storage import RunningStorage, chunks_of, oid_of

ORIGIN = "https://old.example/studio/film"


@dataclass(frozen=True)
class Both:
    """A lock service, the storage service that it calls, and a repository."""

    locks: RunningLocks
    storage: RunningStorage
    name: str
    repository_id: int

    @property
    def administration(self) -> Administration:
        """The client of the commands."""
        return Administration(self.locks.admin_peer)

    async def announce(self, *datas: bytes) -> list[pb.AnnounceObjectsResponse.ObjectState]:
        """Announce objects."""
        key = storage_pb.BatchStatObjectsRequest.ObjectKey
        request = pb.AnnounceObjectsRequest(
            repository=self.name, objects=(key(oid=oid_of(data), size=len(data)) for data in datas)
        )
        return list((await self.locks.admin_peer.call(self.locks.admin.AnnounceObjects, request)).objects)

    async def import_small(self, *objects: tuple[str, bytes]) -> list[ServiceError | None]:
        """Import objects in one message, and return the error of each."""
        entry = pb.ImportObjectsRequest.ImportedObject
        request = pb.ImportObjectsRequest(
            repository=self.name,
            origin=ORIGIN,
            objects=(entry(oid=oid, size=len(data), data=data) for oid, data in objects),
        )
        answer = await self.locks.admin_peer.call(self.locks.admin.ImportObjects, request)
        return [_error_of(outcome) for outcome in answer.objects]

    async def import_one(self, oid: str, data: bytes, *, size: int | None = None) -> storage_pb.Object:
        """Import an object as a stream."""

        async def messages() -> AsyncIterator[pb.ImportObjectRequest]:
            header = pb.ImportObjectRequest.Header(
                repository=self.name, origin=ORIGIN, oid=oid, size=len(data) if size is None else size
            )
            yield pb.ImportObjectRequest(header=header)
            for chunk in chunks_of(data):
                yield pb.ImportObjectRequest(data=chunk)

        answers = self.administration.exchange("ImportObject", messages(), pb.ImportObjectResponse)
        async with aclosing(answers):
            return (await anext(answers)).object

    async def export(self, *oids: str, offset: int = 0) -> dict[str, bytes | ServiceError]:
        """Export objects."""
        found: dict[str, bytes | ServiceError] = {}
        request = pb.ExportObjectsRequest(repository=self.name, destination="/srv/film", oids=oids, offset=offset)
        last = ""
        async with aclosing(self.administration.stream(self.locks.admin.ExportObjects, request)) as messages:
            async for message in messages:
                before = found.get(last, b"")
                match message.WhichOneof("content"):
                    case "header":
                        last = message.header.oid
                        found[last] = b""
                    case "data" if isinstance(before, bytes):
                        found[last] = before + message.data
                    case "error":
                        status = status_pb2.Status()
                        message.error.Unpack(status)
                        found[last] = from_status(status)
        return found

    async def audited(self, kind: str) -> list[dict[str, object]]:
        """Return what the audit log has of this kind and of the repository."""
        request = pb.ListAuditEventsRequest(repository=self.name, type_prefix=kind)
        events = (await self.locks.admin_peer.call(self.locks.admin.ListAuditEvents, request)).events
        assert all(event.actor == "admin" for event in events)
        return [json.loads(event.after) for event in events]


def _error_of(outcome: pb.ImportObjectsResponse.ImportOutcome) -> ServiceError | None:
    if outcome.HasField("object"):
        return None
    status = status_pb2.Status()
    outcome.error.Unpack(status)
    return from_status(status)


@pytest.fixture
async def both(both: conftest.Both) -> Both:
    """Both services, and a new repository."""
    return Both(both.locks, both.storage, *await both.add_repository())


async def test_what_is_held_is_told(both: Both) -> None:
    """In the order asked: an import copies what is lacking, and learns what must not come back."""
    held = await both.storage.write(both.repository_id, b"held")
    removed = await both.storage.write(both.repository_id, b"removed")
    await both.storage.delete(both.repository_id, removed, reason="licence")
    states = await both.announce(b"lacking", b"held", b"removed", b"held")
    assert [state.status for state in states] == [
        storage_pb.OBJECT_STATUS_MISSING,
        storage_pb.OBJECT_STATUS_PRESENT,
        storage_pb.OBJECT_STATUS_REMOVED,
        storage_pb.OBJECT_STATUS_PRESENT,
    ]
    assert (states[1].size, states[2].removal_reason) == (4, "licence")
    assert await both.storage.read(both.repository_id, held) == b"held"


async def test_objects_in_one_message(both: Both) -> None:
    """A wrong one has its error, and holds up no other; the audit log names those that came."""
    datas = [b"one", b"two", b""]
    wrong, *others = await both.import_small((oid_of(b"another"), b"wrong"), *((oid_of(data), data) for data in datas))
    assert isinstance(wrong, InvalidArgument)
    assert wrong.reason == Reason.HASH_MISMATCH
    assert others == [None, None, None]
    for data in datas:
        assert await both.storage.read(both.repository_id, oid_of(data)) == data
    [told] = await both.audited("org.towpath.object.imported")
    assert told == {"from": ORIGIN, "oids": [oid_of(data) for data in datas]}


async def test_one_object_of_any_size(both: Both) -> None:
    """It comes in pieces, and is held once the call has succeeded; the user quota of nobody counts it."""
    data = b"large " * 700_000
    assert (await both.import_one(oid_of(data), data)).size == len(data)
    assert await both.storage.read(both.repository_id, oid_of(data)) == data
    assert [told["oids"] for told in await both.audited("org.towpath.object.imported")] == [[oid_of(data)]]
    page = await both.locks.admin_peer.call(
        both.locks.admin.ListRepositoryObjects, pb.ListRepositoryObjectsRequest(repository=both.name)
    )
    assert [held.added_by for held in page.objects] == [0]


async def test_a_wrong_object_is_refused(both: Both) -> None:
    """The storage service compares the size and the hash, and keeps nothing."""
    data = b"wrong " * 400_000
    with refused(InvalidArgument, Reason.HASH_MISMATCH):
        await both.import_one(oid_of(b"another"), data)
    with refused(InvalidArgument, Reason.SIZE_MISMATCH):
        await both.import_one(oid_of(data), data, size=len(data) + 1)
    with refused(InvalidArgument, Reason.INVALID_OID):
        await both.import_one("../../x", data)
    assert await both.storage.statuses(both.repository_id, oid_of(data)) == [storage_pb.OBJECT_STATUS_MISSING]
    assert await both.audited("org.towpath.object.imported") == []


async def test_the_quota_of_the_repository_counts(both: Both) -> None:
    """An import learns before any byte moves that it does not fit."""
    await both.storage.limit(both.repository_id, quota=10)
    with refused(ResourceExhausted, Reason.QUOTA_EXCEEDED):
        await both.announce(b"x" * 11)
    [error] = await both.import_small((oid_of(b"x" * 11), b"x" * 11))
    assert error is not None
    assert error.reason == Reason.QUOTA_EXCEEDED
    with refused(ResourceExhausted, Reason.QUOTA_EXCEEDED):
        await both.import_one(oid_of(b"x" * 11), b"x" * 11)


async def test_an_archived_repository_takes_nothing(both: Both) -> None:
    """It may still be exported."""
    oid = await both.storage.write(both.repository_id, b"archived")
    await both.locks.update_repository(both.name, archived=True)
    new = oid_of(b"new")
    for attempt in (both.announce(b"new"), both.import_small((new, b"new")), both.import_one(new, b"new")):
        with refused(FailedPrecondition, Reason.REPOSITORY_ARCHIVED):
            await attempt
    assert await both.export(oid) == {oid: b"archived"}


async def test_an_export(both: Both) -> None:
    """One after the other in the order asked; what cannot be read has its error, and holds up no other."""
    large = b"large " * 400_000
    oids = [await both.storage.write(both.repository_id, data, streamed=True) for data in (b"small", large)]
    unknown = oid_of(b"unknown")
    found = await both.export(oids[1], unknown, oids[0])
    assert list(found) == [oids[1], unknown, oids[0]]
    assert (found[oids[1]], found[oids[0]]) == (large, b"small")
    assert isinstance(found[unknown], NotFound)
    assert await both.export(oids[0], offset=2) == {oids[0]: b"all"}
    told = await both.audited("org.towpath.object.exported")
    assert told[-1] == {"to": "/srv/film", "oids": [oids[1], unknown, oids[0]]}


async def test_what_is_malformed_is_refused(both: Both) -> None:
    """Every list is bounded, and every field is looked at."""
    for oids in ([], [oid_of(b"x")] * 1001):
        with refused(InvalidArgument, Reason.BATCH_TOO_LARGE):
            await both.export(*oids)
    with refused(InvalidArgument, Reason.INVALID_OID):
        await both.export("x")
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await both.export(oid_of(b"x"), oid_of(b"y"), offset=1)
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        entry = pb.ImportObjectsRequest.ImportedObject(oid=oid_of(b""), size=0)
        request = pb.ImportObjectsRequest(repository=both.name, origin="x" * 1001, objects=[entry])
        await both.locks.admin_peer.call(both.locks.admin.ImportObjects, request)
    with refused(InvalidArgument, Reason.MALFORMED_STREAM):

        async def data() -> AsyncIterator[pb.ImportObjectRequest]:
            yield pb.ImportObjectRequest(data=b"x")

        async with aclosing(both.administration.exchange("ImportObject", data(), pb.ImportObjectResponse)) as answers:
            await anext(answers)


async def test_locks_keep_their_time(both: Both) -> None:
    """Whoever may steal old locks may steal those that have moved; a lock that stands already keeps its own time."""
    user = f"carol-{both.repository_id}"
    await both.locks.add_user(user)
    then = datetime(2024, 2, 3, 4, 5, 6, 700_000, UTC)

    async def lock(paths: list[str], moments: list[datetime]) -> list[datetime]:
        request = pb.LockPathsRequest(
            repository=both.name, user_name=user, paths=paths, locked_at=map(_timestamp, moments)
        )
        answer = await both.locks.admin_peer.call(both.locks.admin.LockPaths, request)
        return [taken.locked_at.ToDatetime(UTC) for taken in answer.locks]

    whole = then.replace(microsecond=0)
    assert await lock(["b", "a"], [then, then + timedelta(days=1)]) == [whole, whole + timedelta(days=1)]
    assert await lock(["a"], [then]) == [whole + timedelta(days=1)]
    [now] = await lock(["c"], [])
    assert abs(datetime.now(UTC) - now) < timedelta(minutes=5)
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await lock(["d", "e"], [then])
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await lock(["d"], [datetime.now(UTC) + timedelta(hours=1)])


def _timestamp(moment: datetime) -> Timestamp:
    found = Timestamp()
    found.FromDatetime(moment)
    return found
