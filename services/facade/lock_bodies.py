"""A lock as the protocol shows it (protocol: "Lock object")."""

from towpath.locks.v1 import lock_service_pb2

from services.facade import models
from services.facade.answers import timestamp
from services.facade.reasons import invalid_reply


def lock_body(lock: lock_service_pb2.Lock) -> models.Lock:
    """Return the body; every lock has an owner's name, without which clients crash (client row 4).

    Raises `ServiceError` (INVALID_REPLY) where a field is missing.
    """
    if not (lock.id and lock.path and lock.owner_name and lock.HasField("locked_at")):
        raise invalid_reply("LockService", "a lock lacks its id, path, time or owner")
    return models.Lock(
        id=lock.id,
        path=lock.path,
        locked_at=timestamp(lock.locked_at.seconds),
        owner=models.LockOwner(name=lock.owner_name),
    )
