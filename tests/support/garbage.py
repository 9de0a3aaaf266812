"""Collections of garbage as callers of StorageService make them."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import ServiceError
from services.common.rpc.client import ServiceClient
from services.common.rpc.streams import exchange
from tests.support.storage import StorageClient
from tests.support.waiting import STEP_SECONDS

COLLECT_GARBAGE = "/towpath.storage.v1.StorageService/CollectGarbage"


@dataclass
class Collected:
    """The answer to a collection."""

    summary: pb.GarbageSummary = field(default_factory=pb.GarbageSummary)
    garbage: list[pb.Object] = field(default_factory=list)
    progress: list[pb.CollectionResult] = field(default_factory=list)
    result: pb.CollectionResult | None = None


def header(
    repository_id: int,
    *,
    apply: bool = False,
    listed: bool = False,
    grace: int = 0,
    ago: int = 0,
    most: int = 100,
    reason: str = "no ref names it",
) -> pb.CollectGarbageRequest:
    """Return the first message of a collection."""
    terms = pb.CollectionTerms(listed_seconds_ago=ago, grace_seconds=grace, most_percent=most, apply=apply, list=listed)
    return pb.CollectGarbageRequest(
        header=pb.CollectGarbageRequest.Header(
            repository_id=repository_id, terms=terms, reason=reason, removed_by="alice"
        )
    )


def digest_of(oids: Iterable[str]) -> str:
    """Return the digest of oids in this order."""
    return hashlib.sha256("".join(f"{oid}\n" for oid in oids).encode()).hexdigest()


def retained(oids: Iterable[str]) -> Iterator[pb.CollectGarbageRequest]:
    """Return the messages of a list of retained objects, and its end."""
    ascending = sorted(oids)
    for start in range(0, len(ascending), 10_000):
        yield pb.CollectGarbageRequest(retained=pb.RetainedObjects(oids=ascending[start : start + 10_000]))
    yield pb.CollectGarbageRequest(end=pb.RetainedEnd(count=len(ascending), digest=digest_of(ascending)))


async def answer_to(
    address: str, messages: Iterable[pb.CollectGarbageRequest], *, secret: SecretStr | None = None
) -> Collected:
    """Send these messages to a storage service, and return the answer. Raises the `ServiceError` of the service."""
    found = Collected()

    async def sent() -> AsyncIterator[pb.CollectGarbageRequest]:
        for message in messages:
            yield message

    client = ServiceClient(address, deadline=STEP_SECONDS, secret=secret)
    responses = exchange(client, COLLECT_GARBAGE, sent(), pb.CollectGarbageResponse, answer_seconds=STEP_SECONDS)
    try:
        async with aclosing(responses):
            async for response in responses:
                match response.WhichOneof("content"):
                    case "summary":
                        found.summary = response.summary
                    case "garbage":
                        found.garbage += response.garbage.objects
                    case "progress":
                        found.progress.append(response.progress)
                    case "result":
                        found.result = response.result
    finally:
        await client.close()
    return found


async def refused(call: Awaitable[Collected]) -> ServiceError:
    """Return the error that a collection fails with."""
    with pytest.raises(ServiceError) as caught:
        await call
    return caught.value


async def collect(
    storage: StorageClient,
    oids: Iterable[str],
    *,
    repository_id: int = 1,
    apply: bool = False,
    listed: bool = False,
    grace: int = 0,
    ago: int = 0,
    most: int = 100,
) -> Collected:
    """Collect the garbage of a repository that retains these objects; by default without any mercy."""
    first = header(repository_id, apply=apply, listed=listed, grace=grace, ago=ago, most=most)
    return await answer_to(storage.address, [first, *retained(oids)])
