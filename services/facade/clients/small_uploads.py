"""Uploads to storage of objects that fit in one message each; concurrent uploads of small objects share a call."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from google.protobuf.message import Message
from google.rpc import status_pb2
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceStub

from services.common.concurrency.batcher import Batcher
from services.common.errors import ServiceError, from_status
from services.common.rpc.client import ServiceClient
from services.facade.web.error_reasons import invalid_reply

COMMIT_SECONDS = 60.0
"""The timeout of a commit, because many bytes may have to reach the disk.

The client receives nothing meanwhile, and gives up after 30 s (client-19).
"""

# For larger objects, moving the bytes costs more than the call.
_SMALL_BYTES = 128 * 1024
_MAX_BATCH = 16
# The next batch reaches storage before it has finished the last. A remote store is slow, and takes many at once.
_MAX_WAIT_SECONDS = 0.005
_MAX_IN_FLIGHT = 16

Response = TypeVar("Response")


class SmallUploadClient:
    """Uploads objects of one message each; small objects are micro-batched. Its owner closes it.

    Storage's log has one line for a call with several objects, with the request id of one of them.
    """

    def __init__(self, storage: ServiceClient) -> None:
        self._storage = storage
        self._stub = StorageServiceStub(storage.channel)
        self._batcher = Batcher(
            self._write_group, max_batch=_MAX_BATCH, max_in_flight=_MAX_IN_FLIGHT, max_wait_seconds=_MAX_WAIT_SECONDS
        )

    async def write(self, request: pb.WriteWholeObjectRequest) -> None:
        """Write an object of at most 1 MiB; it is durable when this returns.

        Raises `Unavailable` at once where storage cannot be reached, and the errors of StorageService.WriteWholeObject.
        """
        if len(request.data) > _SMALL_BYTES:
            await self._write_one(request)
        else:
            await self._batcher.submit(request)

    async def close(self) -> None:
        """Cancel the batches in flight."""
        await self._batcher.close()

    async def _write_group(self, group: Sequence[pb.WriteWholeObjectRequest]) -> Sequence[ServiceError | None]:
        try:
            if len(group) == 1:
                await self._write_one(group[0])
                return [None]
            reply = await self._call(self._stub.WriteWholeObjects, pb.WriteWholeObjectsRequest(objects=group))
        except ServiceError as error:
            # The error applies to all of them; asking again for each would take the same time again.
            return [error] * len(group)
        if len(reply.objects) != len(group):
            return [invalid_reply("WriteWholeObjects", "the reply has not as many entries as there were")] * len(group)
        return [_error_of(entry) for entry in reply.objects]

    async def _write_one(self, request: pb.WriteWholeObjectRequest) -> None:
        reply = await self._call(self._stub.WriteWholeObject, request)
        if not reply.HasField("object"):
            raise invalid_reply("WriteWholeObject", "the reply lacks the object")

    async def _call(self, method: Callable[..., Awaitable[Response]], request: Message) -> Response:
        # Do not wait for storage to come back: the caller of `write` decides how long to retry.
        return await self._storage.call(method, request, deadline=COMMIT_SECONDS, wait_for_ready=False)


def _error_of(reply: pb.WriteWholeObjectResponse) -> ServiceError | None:
    if reply.HasField("object"):
        return None
    status = status_pb2.Status()
    if not reply.error.Unpack(status):
        return invalid_reply("WriteWholeObjects", "an entry lacks the object, and has no error")
    return from_status(status)
