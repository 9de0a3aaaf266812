"""Objects on their way to storage that fit in one message each: small ones that come at once share a call."""

from collections.abc import Sequence

from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceStub

from services.common.errors import ServiceError
from services.common.grouped import Grouped
from services.common.rpc.client import Peer
from services.facade.reasons import invalid_reply
from services.facade.together import ask_together

COMMIT_SECONDS = 60.0
"""Many bytes may have to reach the disk; the client hears nothing, and gives up after 30 s (client row 19)."""

# Of larger ones the bytes take more than the call.
_SMALL_BYTES = 128 * 1024
_MOST = 16
# The next ones are at storage when it is done with those before. A store that is far is slow, and takes much at once.
_HELD_SECONDS = 0.005
_AT_ONCE = 16

_Asked = pb.WriteWholeObjectRequest
_Told = pb.WriteWholeObjectResponse


class WholeObjects:
    """Writes them. Its owner closes it.

    In storage's log a call for several is one line, with the request id of one of them.
    """

    def __init__(self, storage: Peer) -> None:
        self._storage = storage
        self._stub = StorageServiceStub(storage.channel)
        self._grouped = Grouped(self._write_group, most=_MOST, at_once=_AT_ONCE, held_seconds=_HELD_SECONDS)

    async def write(self, request: pb.WriteWholeObjectRequest) -> None:
        """Write an object of at most 1 MiB; it is durable when this returns.

        A storage that cannot be reached is `Unavailable` at once. Raises what StorageService.WriteWholeObject says, and
        `Unimplemented` where storage is older than that.
        """
        if len(request.data) > _SMALL_BYTES:
            await self._write_one(request)
        else:
            await self._grouped.ask(request)

    async def close(self) -> None:
        """Give up what is under way."""
        await self._grouped.close()

    async def _write_group(self, group: Sequence[_Asked]) -> Sequence[_Told | ServiceError]:
        return await ask_together(group, self._write_several, self._write_one, _is_held)

    async def _write_several(self, objects: Sequence[_Asked]) -> Sequence[_Told]:
        # For how long storage may be away is for who asks to know.
        reply = await self._storage.call(
            self._stub.WriteWholeObjects,
            pb.WriteWholeObjectsRequest(objects=objects),
            deadline=COMMIT_SECONDS,
            wait_for_ready=False,
        )
        return reply.objects

    async def _write_one(self, request: _Asked) -> _Told:
        reply = await self._storage.call(
            self._stub.WriteWholeObject, request, deadline=COMMIT_SECONDS, wait_for_ready=False
        )
        if not _is_held(reply):
            raise invalid_reply("WriteWholeObject", "the reply lacks the object")
        return reply


def _is_held(reply: _Told) -> bool:
    return reply.HasField("object")
