"""Objects on their way to storage that fit in one message each: small ones that come at once share a call."""

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
"""Many bytes may have to reach the disk; the client hears nothing, and gives up after 30 s (client row 19)."""

# Of larger ones the bytes take more than the call.
_SMALL_BYTES = 128 * 1024
_MAX_BATCH = 16
# The next ones are at storage when it is done with those before. A store that is far is slow, and takes much at once.
_MAX_WAIT_SECONDS = 0.005
_MAX_IN_FLIGHT = 16

Response = TypeVar("Response")


class SmallUploadClient:
    """Writes them. Its owner closes it.

    In storage's log a call for several is one line, with the request id of one of them.
    """

    def __init__(self, storage: ServiceClient) -> None:
        self._storage = storage
        self._stub = StorageServiceStub(storage.channel)
        self._grouped = Batcher(
            self._write_group, max_batch=_MAX_BATCH, max_in_flight=_MAX_IN_FLIGHT, max_wait_seconds=_MAX_WAIT_SECONDS
        )

    async def write(self, request: pb.WriteWholeObjectRequest) -> None:
        """Write an object of at most 1 MiB; it is durable when this returns.

        A storage that cannot be reached is `Unavailable` at once. Raises what StorageService.WriteWholeObject says.
        """
        if len(request.data) > _SMALL_BYTES:
            await self._write_one(request)
        else:
            await self._grouped.submit(request)

    async def close(self) -> None:
        """Give up what is under way."""
        await self._grouped.close()

    async def _write_group(self, group: Sequence[pb.WriteWholeObjectRequest]) -> Sequence[ServiceError | None]:
        try:
            if len(group) == 1:
                await self._write_one(group[0])
                return [None]
            told = await self._call(self._stub.WriteWholeObjects, pb.WriteWholeObjectsRequest(objects=group))
        except ServiceError as error:
            # It holds for all of them; to ask again for each would take the same time again.
            return [error] * len(group)
        if len(told.objects) != len(group):
            return [invalid_reply("WriteWholeObjects", "the reply has not as many entries as there were")] * len(group)
        return [_error_of(each) for each in told.objects]

    async def _write_one(self, request: pb.WriteWholeObjectRequest) -> None:
        told = await self._call(self._stub.WriteWholeObject, request)
        if not told.HasField("object"):
            raise invalid_reply("WriteWholeObject", "the reply lacks the object")

    async def _call(self, method: Callable[..., Awaitable[Response]], request: Message) -> Response:
        # For how long storage may be away is for who asks to know.
        return await self._storage.call(method, request, deadline=COMMIT_SECONDS, wait_for_ready=False)


def _error_of(told: pb.WriteWholeObjectResponse) -> ServiceError | None:
    if told.HasField("object"):
        return None
    status = status_pb2.Status()
    if not told.error.Unpack(status):
        return invalid_reply("WriteWholeObjects", "an entry lacks the object, and has no error")
    return from_status(status)
