"""Whether a repository holds an object, for the actions' URLs."""

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import FailedPrecondition, NotFound, Reason
from services.facade.batch import removed_message, stat
from services.facade.peers import Peers


async def require(peers: Peers, repository_id: int, oid: str, size: int) -> None:
    """Raise `NotFound`, or `FailedPrecondition` (OBJECT_REMOVED), unless the object is held in this size."""
    (found,) = await stat(peers, repository_id, [(oid, size)], pb.INTENT_UNSPECIFIED)
    if found.status == pb.OBJECT_STATUS_REMOVED:
        raise FailedPrecondition(Reason.OBJECT_REMOVED, removed_message(found.removal_reason))
    if found.status != pb.OBJECT_STATUS_PRESENT or found.size != size:
        raise NotFound(Reason.OBJECT_NOT_FOUND, f"oid: no object {oid} of {size} bytes is held")
