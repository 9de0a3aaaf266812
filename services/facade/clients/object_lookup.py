"""What storage says of objects: of those of a batch, and of single ones, where those asked for at once share a call."""

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

# While storage is away, many wait for it.
_MAX_IN_FLIGHT = 16
# This process has something to do while storage looks the next ones up.
_MAX_WAIT_SECONDS = 0.002


class _Options(NamedTuple):
    """What the objects of one call to storage have in common."""

    repository_id: int
    intent: pb.Intent.ValueType = pb.INTENT_UNSPECIFIED
    seconds: int = 0


class _Lookup(NamedTuple):
    asked: _Options
    oid: str
    size: int


class ObjectLookupClient:
    """Asks storage. Its owner closes it.

    What is asked for one object goes with what others ask in that moment, in the call of one of them: in storage's log
    that is one line, with one request id.
    """

    def __init__(self, storage: ServiceClient) -> None:
        self._storage = storage
        self._stub = StorageServiceStub(storage.channel)
        self._stats = Batcher(self._stat_all, max_in_flight=_MAX_IN_FLIGHT, max_wait_seconds=_MAX_WAIT_SECONDS)

    async def stat(
        self, repository_id: int, objects: Sequence[SizedOid], intent: pb.Intent.ValueType, *, seconds: int = 0
    ) -> Sequence[ObjectStat]:
        """Return what is held of `objects` (oid and size in bytes each), in their order.

        With `seconds`, those whose bytes a transfer moves have an address of the store for so long, where it signs
        them. Raises what StorageService.BatchStatObjects says.
        """
        asked = _Options(repository_id, intent, seconds)
        # Whether there is room is to be told by what one client announces, not by what several do.
        if len(objects) == 1 and intent != pb.INTENT_WRITE:
            return [await self._stats.submit(_Lookup(asked, *objects[0]))]
        return await self._stat(asked, objects)

    async def stat_one(self, repository_id: int, oid: str, size: int) -> ObjectStat:
        """Return what is held of an object. Raises what StorageService.BatchStatObjects says."""
        return await self._stats.submit(_Lookup(_Options(repository_id), oid, size))

    async def locate(self, asked: pb.LocateObjectRequest) -> pb.LocateObjectResponse:
        """Return where on a disk an object lies. Raises what StorageService.LocateObject says."""
        return await self._storage.call(self._stub.LocateObject, asked)

    async def close(self) -> None:
        """Give up what is under way."""
        await self._stats.close()

    async def _stat_all(self, group: Sequence[_Lookup]) -> Sequence[ObjectStat | ServiceError]:
        together: dict[_Options, list[_Lookup]] = {}
        for wanted in dict.fromkeys(group):
            together.setdefault(wanted.asked, []).append(wanted)
        found: dict[_Lookup, ObjectStat | ServiceError] = {}

        async def stat_some(asked: _Options, some: Sequence[_Lookup]) -> None:
            try:
                stats = await self._stat(asked, [(wanted.oid, wanted.size) for wanted in some])
            except ServiceError as error:
                # It holds for all of them; to ask again for each would take the same time again.
                found.update(dict.fromkeys(some, error))
            else:
                found.update(zip(some, stats, strict=True))

        await asyncio.gather(*(stat_some(*each) for each in together.items()))
        return [found[wanted] for wanted in group]

    async def _stat(self, asked: _Options, objects: Sequence[SizedOid]) -> Sequence[ObjectStat]:
        request = pb.BatchStatObjectsRequest(
            repository_id=asked.repository_id, intent=asked.intent, expires_in=asked.seconds
        )
        for oid, size in objects:
            request.objects.add(oid=oid, size=size)
        found = (await self._storage.call(self._stub.BatchStatObjects, request)).objects
        if len(found) != len(objects) or not all(each.status for each in found):
            raise invalid_reply("BatchStatObjects", "the reply lacks an object")
        return found
