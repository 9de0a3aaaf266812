"""Generations of the locks of repositories; clients that poll at the same time share a call to the lock service."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceStub

from services.common.concurrency.batcher import Batcher
from services.common.errors import ServiceError
from services.common.rpc.client import ServiceClient

# A client that polls notices no such delay, and many clients that poll once a second become one call.
_GATHER_SECONDS = 0.1
_MAX_BATCH = 1_000
# Many calls wait for the lock service while it is not available.
_MAX_IN_FLIGHT = 16


class _Poll(NamedTuple):
    repository_id: int
    known: int


class LockGenerations:
    """Reads generations of locks, none before it is asked for: no client misses a change that was acknowledged to it.

    Its owner closes it.
    """

    def __init__(self, locks: ServiceClient) -> None:
        self._locks = locks
        self._stub = LockServiceStub(locks.channel)
        self._polls = Batcher(
            self._read_all, max_batch=_MAX_BATCH, max_in_flight=_MAX_IN_FLIGHT, gather_seconds=_GATHER_SECONDS
        )

    async def read(self, repository_id: int, known: int) -> int:
        """Return the generation of a repository's locks; the call is cheapest if it is the `known` one.

        It is 0 if the lock service is of a version that tells none. Raises the errors of LockService.ListLocks.
        """
        return await self._polls.submit(_Poll(repository_id, known))

    async def close(self) -> None:
        """Cancel the calls in flight."""
        await self._polls.close()

    async def _read_all(self, polls: Sequence[_Poll]) -> Sequence[int | ServiceError]:
        # The newest generation that a client knows is most likely the present one.
        known = dict(sorted(polls))
        found = dict(zip(known, await asyncio.gather(*(self._read(*each) for each in known.items())), strict=True))
        return [found[poll.repository_id] for poll in polls]

    async def _read(self, repository_id: int, known: int) -> int | ServiceError:
        request = pb.ListLocksRequest(repository_id=repository_id, known_generation=known, limit=1)
        try:
            return int((await self._locks.call(self._stub.ListLocks, request)).generation)
        except ServiceError as error:
            # The error applies to all of them; asking again for each would take the same time again.
            return error
