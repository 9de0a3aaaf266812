"""Addresses of the store itself, by which a client spares the facade the bytes of its objects."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Reason, ServiceError
from services.common.logs import get_logger
from services.facade.outages import is_interruption
from services.facade.peers import Peers
from services.facade.reasons import invalid_reply

_log = get_logger(__name__)


@dataclass(frozen=True)
class Signed:
    """An address of the store, which is never logged; `expires_at` is Unix time."""

    url: str = field(repr=False)
    headers: dict[str, str]
    expires_at: int


async def sign(
    peers: Peers, repository_id: int, objects: Sequence[tuple[str, int]], intent: pb.Intent.ValueType, seconds: int
) -> list[Signed | None]:
    """Return addresses for `objects` (oid and size in bytes each), in their order; None for what is relayed.

    All is relayed where they cannot be had for the moment. Raises what StorageService.SignObjectUrls says.
    """
    keys = [pb.SignObjectUrlsRequest.ObjectKey(oid=oid, size=size) for oid, size in objects]
    request = pb.SignObjectUrlsRequest(repository_id=repository_id, intent=intent, objects=keys, expires_in=seconds)
    try:
        reply = await peers.storage.call(peers.storage_stub.SignObjectUrls, request)
    except ServiceError as error:
        # While versions change, one that tells of addresses stands beside one that knows none.
        if not is_interruption(error) and error.reason != Reason.UNIMPLEMENTED:
            raise
        _log.warning("bytes are relayed: storage signs nothing for the moment", reason=error.reason)
        return [None] * len(objects)
    if len(reply.objects) != len(objects):
        raise invalid_reply("SignObjectUrls", "the reply lacks an object")
    return [
        Signed(signed.url, dict(signed.headers), signed.expires_at.seconds) if signed.url else None
        for signed in reply.objects
    ]
