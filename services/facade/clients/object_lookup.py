"""Lookups of objects in storage; concurrent lookups of single objects share a call."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceStub

from services.common.concurrency.batcher import Batcher
from services.common.errors import ServiceError
from services.common.rpc.client import ServiceClient
from services.facade.web.error_reasons import invalid_reply

ObjectStat = pb.BatchStatObjectsResponse.ObjectStat
SizedOid = tuple[str, int]
"""An object: its oid, and its size in bytes."""

# Many calls wait for storage while it is not available.
_MAX_IN_FLIGHT = 16
# A further call leaves after this time, so that storage works on it while this process handles the one before.
_MAX_WAIT_SECONDS = 0.002


class _Options(NamedTuple):
    """The options that all objects of one call to storage share."""

    repository_id: int
    intent: pb.Intent.ValueType
    seconds: int
    user_id: int = 0


class _Lookup(NamedTuple):
    asked: _Options
    oid: str
    size: int


class ObjectLookupClient:
    """Looks up objects in storage. Its owner closes it.

    Concurrent lookups of single objects are micro-batched into one call, made in the context of one of them: storage's
    log has one line for the call, with one request id.
    """

    def __init__(self, storage: ServiceClient) -> None:
        self._storage = storage
        self._stub = StorageServiceStub(storage.channel)
        self._stats = Batcher(self._stat_all, max_in_flight=_MAX_IN_FLIGHT, max_wait_seconds=_MAX_WAIT_SECONDS)

    async def stat(
        self,
        repository_id: int,
        objects: Sequence[SizedOid],
        intent: pb.Intent.ValueType = pb.INTENT_UNSPECIFIED,
        *,
        seconds: int = 0,
    ) -> Sequence[ObjectStat]:
        """Return the state of `objects` (oid and size in bytes each) in a repository, in their order.

        With `seconds`, each object that the transfer moves has a signed URL of the store for that time, where the store
        signs URLs. Raises the errors of StorageService.BatchStatObjects.
        """
        asked = _Options(repository_id, intent, seconds)
        # Uploads are not combined, because storage checks the free space for the objects that one client announces.
        if len(objects) == 1 and intent != pb.INTENT_WRITE:
            return [await self._stats.submit(_Lookup(asked, *objects[0]))]
        return await self._stat(asked, objects)

    async def announce(
        self, repository_id: int, objects: Sequence[SizedOid], *, seconds: int, user_id: int
    ) -> pb.BatchStatObjectsResponse:
        """Announce a user's upload of `objects`; return their state, in their order, and the use of a quota.

        Raises the errors of StorageService.BatchStatObjects.
        """
        return await self._ask(_Options(repository_id, pb.INTENT_WRITE, seconds, user_id), objects)

    async def close(self) -> None:
        """Cancel the lookups in flight."""
        await self._stats.close()

    async def _stat_all(self, group: Sequence[_Lookup]) -> Sequence[ObjectStat | ServiceError]:
        by_options: dict[_Options, list[_Lookup]] = {}
        for lookup in dict.fromkeys(group):
            by_options.setdefault(lookup.asked, []).append(lookup)
        found: dict[_Lookup, ObjectStat | ServiceError] = {}

        async def stat_some(asked: _Options, some: Sequence[_Lookup]) -> None:
            try:
                stats = await self._stat(asked, [(lookup.oid, lookup.size) for lookup in some])
            except ServiceError as error:
                # The error applies to all of them; asking again for each would take the same time again.
                found.update(dict.fromkeys(some, error))
            else:
                found.update(zip(some, stats, strict=True))

        await asyncio.gather(*(stat_some(*entry) for entry in by_options.items()))
        return [found[lookup] for lookup in group]

    async def _stat(self, asked: _Options, objects: Sequence[SizedOid]) -> Sequence[ObjectStat]:
        return (await self._ask(asked, objects)).objects

    async def _ask(self, asked: _Options, objects: Sequence[SizedOid]) -> pb.BatchStatObjectsResponse:
        request = pb.BatchStatObjectsRequest(
            repository_id=asked.repository_id, intent=asked.intent, expires_in=asked.seconds, user_id=asked.user_id
        )
        for oid, size in objects:
            request.objects.add(oid=oid, size=size)
        reply: pb.BatchStatObjectsResponse = await self._storage.call(self._stub.BatchStatObjects, request)
        if len(reply.objects) != len(objects) or not all(entry.status for entry in reply.objects):
            raise invalid_reply("BatchStatObjects", "the reply lacks an object")
        return reply
