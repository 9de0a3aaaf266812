"""Which objects a repository holds: asked of the StorageService."""

from collections.abc import Sequence

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import FailedPrecondition, NotFound, Reason
from services.facade.peers import Peers
from services.facade.reasons import invalid_reply

ObjectStat = pb.BatchStatObjectsResponse.ObjectStat


async def stat(
    peers: Peers, repository_id: int, objects: Sequence[tuple[str, int]], intent: pb.Intent.ValueType
) -> Sequence[ObjectStat]:
    """Return what is held of `objects` (oid and size in bytes each), in their order.

    Raises what StorageService.BatchStatObjects says.
    """
    keys = [pb.BatchStatObjectsRequest.ObjectKey(oid=oid, size=size) for oid, size in objects]
    request = pb.BatchStatObjectsRequest(repository_id=repository_id, objects=keys, intent=intent)
    reply = await peers.storage.call(peers.storage_stub.BatchStatObjects, request)
    if len(reply.objects) != len(objects) or any(
        found.status == pb.OBJECT_STATUS_UNSPECIFIED for found in reply.objects
    ):
        raise invalid_reply("BatchStatObjects", "the reply lacks an object")
    return reply.objects


def removed_message(reason: str) -> str:
    """Return what is told of an object that was removed."""
    return f"the object was removed: {reason}" if reason else "the object was removed"


async def require(peers: Peers, repository_id: int, oid: str, size: int) -> None:
    """Raise `NotFound`, or `FailedPrecondition` (OBJECT_REMOVED), unless the object is held in this size."""
    (found,) = await stat(peers, repository_id, [(oid, size)], pb.INTENT_UNSPECIFIED)
    if found.status == pb.OBJECT_STATUS_REMOVED:
        raise FailedPrecondition(Reason.OBJECT_REMOVED, removed_message(found.removal_reason))
    if found.status != pb.OBJECT_STATUS_PRESENT or found.size != size:
        raise NotFound(Reason.OBJECT_NOT_FOUND, f"oid: no object {oid} of {size} bytes is held")
