"""Checks for the actions' URLs that a repository holds an object."""

from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import FailedPrecondition, NotFound, Reason, ServiceError
from services.facade.auth.action_tokens import ActionGrant, Operation
from services.facade.clients.services import ServiceClients
from services.facade.objects.batch import removed_message


async def require_stored(clients: ServiceClients, repository_id: int, oid: str, size: int) -> None:
    """Raise `NotFound` or `FailedPrecondition` (OBJECT_REMOVED) unless the repository holds the object in this size."""
    [found] = await clients.objects.stat(repository_id, [(oid, size)])
    if found.status == pb.OBJECT_STATUS_REMOVED:
        raise FailedPrecondition(Reason.OBJECT_REMOVED, removed_message(found.removal_reason, Operation.VERIFY))
    if found.status != pb.OBJECT_STATUS_PRESENT or found.size != size:
        raise NotFound(Reason.OBJECT_NOT_FOUND, f"oid: no object {oid} of {size} bytes is held")


async def confirm_upload(clients: ServiceClients, grant: ActionGrant) -> bool:
    """Check that the repository holds the object of a grant; return whether the store confirmed it in this call.

    An object that the client uploaded to the store directly is held once the store has confirmed its bytes; that it was
    removed as garbage meanwhile does not matter. Raises the errors of `require_stored`, and of
    StorageService.ConfirmObject.
    """
    try:
        await require_stored(clients, grant.repository_id, grant.oid, grant.size)
    except (NotFound, FailedPrecondition) as missing:
        request = pb.ConfirmObjectRequest(
            repository_id=grant.repository_id, oid=grant.oid, size=grant.size, user_id=grant.user_id or 0
        )
        try:
            await clients.storage.call(clients.storage_stub.ConfirmObject, request)
        except ServiceError as error:
            if error.reason in (Reason.OBJECT_NOT_FOUND, Reason.UNIMPLEMENTED):
                raise missing from error
            if error.reason == Reason.OBJECT_REMOVED:
                raise FailedPrecondition(
                    Reason.OBJECT_REMOVED,
                    removed_message(error.metadata.get("removal_reason", ""), Operation.VERIFY),
                ) from error
            raise
        return True
    return False
