"""AdminService and AccessService with the storage service: collections of garbage, and their audit events."""

import json
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

import pytest
from google.protobuf.message import Message
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Reason,
    ServiceError,
    Unauthenticated,
)
from services.common.rpc.client import ServiceClient
from services.common.rpc.streams import exchange
from tests.service.locks.conftest import Both
from tests.support.garbage import header as header_of
from tests.support.garbage import retained
from tests.support.locks import RunningLocks
from tests.support.waiting import STEP_SECONDS

NOBODY = "0" * 64


def terms(*, apply: bool = False, listed: bool = False, most: int = 100) -> pb.CollectionTerms:
    """Return terms without any mercy."""
    return header_of(1, apply=apply, listed=listed, most=most).header.terms


async def _sent(messages: Iterable[Message]) -> AsyncIterator[Message]:
    for message in messages:
        yield message


Asked = TypeVar("Asked", admin.CollectGarbageRequest, access.RetainObjectsRequest)


def _messages(first: Asked, oids: Iterable[str]) -> Iterable[Asked]:
    yield first
    for message in retained(oids):
        part = type(first)(retained=message.retained)
        yield part if message.HasField("retained") else type(first)(end=message.end)


def by_name(repository: str, oids: Iterable[str], asked: pb.CollectionTerms) -> Iterable[Message]:
    """Return the messages of an administrator."""
    header = admin.CollectGarbageRequest.Header(repository=repository, terms=asked, reason="no ref names it")
    return _messages(admin.CollectGarbageRequest(header=header), oids)


async def collect(peer: ServiceClient, messages: Iterable[Message]) -> list[admin.CollectGarbageResponse]:
    """Return the responses to an administrator."""
    method = "/towpath.access.v1.AdminService/CollectGarbage"
    responses = exchange(peer, method, _sent(messages), admin.CollectGarbageResponse, answer_seconds=STEP_SECONDS)
    return [response async for response in responses]


async def events(service: RunningLocks, repository: str) -> list[admin.AuditEvent]:
    """Return the events of collections in a repository, the latest first."""
    request = admin.ListAuditEventsRequest(repository=repository, type_prefix="garbage", limit=100)
    return list((await service.admin_peer.call(service.admin.ListAuditEvents, request)).events)


async def test_a_collection_by_name(both: Both) -> None:
    """A dry run tells, and leaves no event; what is removed is one event, and names the administrator."""
    name, repository_id = await both.add_repository()
    kept, garbage = [await both.storage.write(repository_id, data) for data in (b"kept", b"garbage")]
    told = await collect(both.locks.admin_peer, by_name(name, [kept], terms(listed=True)))
    assert [response.WhichOneof("content") for response in told] == ["summary", "garbage"]
    assert (told[0].summary.garbage_count, told[0].summary.garbage_bytes) == (1, 7)
    assert [found.oid for found in told[1].garbage.objects] == [garbage]
    assert await events(both.locks, name) == []
    told = await collect(both.locks.admin_peer, by_name(name, [kept], terms(apply=True)))
    assert [response.WhichOneof("content") for response in told] == ["summary", "progress", "result"]
    assert told[-1].result == pb.CollectionResult(removed_count=1, removed_bytes=7)
    assert await both.storage.statuses(repository_id, kept, garbage) == [
        pb.OBJECT_STATUS_PRESENT,
        pb.OBJECT_STATUS_REMOVED,
    ]
    [event] = await events(both.locks, name)
    assert (event.type, event.actor, event.source) == ("org.towpath.garbage.collected", "admin", "admin")
    after = json.loads(event.after)
    assert (after["removed_count"], after["removed_bytes"], after["reason"]) == ("1", "7", "no ref names it")
    told = await collect(both.locks.admin_peer, by_name(name, [kept], terms(apply=True)))
    assert told[-1].result == pb.CollectionResult()
    assert await events(both.locks, name) == [event]


async def test_a_collection_of_the_facade(both: Both) -> None:
    """The tombstones and the event name the user of the credential, who has to administer the repository."""
    name, repository_id = await both.add_repository()
    garbage = await both.storage.write(repository_id, b"garbage")

    async def retain(credential: str) -> list[access.RetainObjectsResponse]:
        header = access.RetainObjectsRequest.Header(
            repository_id=repository_id,
            repository=name,
            user_name="alice",
            terms=terms(apply=True),
            reason="unused",
            credential=credential,
        )
        messages = _sent(_messages(access.RetainObjectsRequest(header=header), [NOBODY]))
        method = "/towpath.access.v1.AccessService/RetainObjects"
        responses = exchange(
            both.locks.peer, method, messages, access.RetainObjectsResponse, answer_seconds=STEP_SECONDS
        )
        return [response async for response in responses]

    await both.locks.add_user("alice")
    await both.locks.grant("alice", name, admin.ROLE_WRITE)
    alice = await both.locks.add_token("alice")
    # The secret between services is no right.
    for credential, error in (("", Unauthenticated), (alice, PermissionDenied)):
        with pytest.raises(error):
            await retain(credential)
    await both.locks.grant("alice", name, admin.ROLE_ADMIN)
    assert (await retain(alice))[-1].result.removed_count == 1
    [event] = await events(both.locks, name)
    assert (event.actor, event.source) == ("alice", "facade")
    request = admin.ListRepositoryObjectsRequest(repository=name)
    page = await both.locks.admin_peer.call(both.locks.admin.ListRepositoryObjects, request)
    assert [(found.oid, found.removed_by, found.removal_reason) for found in page.objects] == [
        (garbage, "alice", "unused")
    ]


@pytest.mark.parametrize(
    ("messages", "kind", "reason"),
    [
        ([], InvalidArgument, Reason.MALFORMED_STREAM),
        ([admin.CollectGarbageRequest(end=pb.RetainedEnd(count=1))], InvalidArgument, Reason.MALFORMED_STREAM),
        (list(by_name("no/such", [NOBODY], terms())), NotFound, Reason.REPOSITORY_NOT_FOUND),
        (list(by_name("garbage/first", [NOBODY], terms(most=0))), InvalidArgument, Reason.INVALID_FIELD),
        (list(by_name("garbage/first", [NOBODY], terms()))[:2], InvalidArgument, Reason.INVALID_FIELD),
        (list(by_name("garbage/first", [NOBODY], terms()))[:1] * 2, InvalidArgument, Reason.MALFORMED_STREAM),
        (list(by_name("garbage/first", [NOBODY], terms(apply=True, most=1))), FailedPrecondition, "TOO_MUCH_GARBAGE"),
    ],
    ids=range(7),
)
async def test_refused_collections(both: Both, messages: list[Message], kind: type[ServiceError], reason: str) -> None:
    """Refusals of the storage service are told by name as well, and are no events."""
    with_first = "garbage/first"
    try:
        repository_id = await both.locks.add_repository(with_first)
    except ServiceError:
        pass
    else:
        await both.storage.write(repository_id, b"first")
    with pytest.raises(kind) as caught:
        await collect(both.locks.admin_peer, messages)
    assert caught.value.reason == reason
    assert await events(both.locks, with_first) == []


async def test_turns_by_name(both: Both) -> None:
    """An administrator takes a turn in a repository by its name, and in no other one."""
    name, _ = await both.add_repository()

    def asked(holder: str, repository: str = name) -> admin.TakeCollectionTurnRequest:
        return admin.TakeCollectionTurnRequest(repository=repository, holder=holder, every_seconds=3600)

    peer, take = both.locks.admin_peer, both.locks.admin.TakeCollectionTurn
    assert (await peer.call(take, asked("one"))).is_taken
    assert not (await peer.call(take, asked("another"))).is_taken
    assert (await peer.call(take, asked("another", (await both.add_repository())[0]))).is_taken
    with pytest.raises(NotFound):
        await peer.call(take, asked("one", "no/such"))
