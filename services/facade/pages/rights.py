"""The rights of a visit's caller in a repository that the caller may read, in words for its pages."""

from typing import NamedTuple

from towpath.access.v1 import access_service_pb2 as pb

from services.common.errors import NotFound, PermissionDenied, Reason, Unauthenticated
from services.facade.auth.authorizer import Permission
from services.facade.pages.visit import Visit

PERMISSION_WORDS = {
    pb.PERMISSION_READ: "read",
    pb.PERMISSION_WRITE_ANY_REF: "write some refs",
    pb.PERMISSION_WRITE: "write",
    pb.PERMISSION_ADMIN: "administer",
}


class Rights(NamedTuple):
    """The most that a caller may do in a repository, as if it were not archived, and the state of the repository."""

    permission: Permission
    is_public: bool
    is_archived: bool


async def rights_in(visit: Visit, repository_id: int) -> Rights:
    """Return the caller's rights in a repository that the caller may read."""
    clients, caller = visit.context.clients, visit.caller
    request = pb.ListUserRepositoriesRequest(
        user_id=caller.user_id, token_id=caller.deciding_token_id, repository_id=repository_id
    )
    reply = await clients.locks.call(clients.access_stub.ListUserRepositories, request)
    for found in reply.repositories:
        if found.id == repository_id:
            return Rights(Permission(found.permission), found.public, found.HasField("archived_at"))
    # The right has ended since it was checked; or the service is of the version before, and lists others.
    return Rights(Permission.READ, is_public=False, is_archived=False)


async def may_write(visit: Visit, repository: str, permission: Permission = Permission.WRITE) -> bool:
    """Return whether the caller has a permission to write in a repository, or might if it were not archived."""
    try:
        await visit.context.authorizer.check(visit.caller, repository, permission, "")
    except (Unauthenticated, PermissionDenied, NotFound) as refusal:
        return refusal.reason == Reason.REPOSITORY_ARCHIVED
    return True


async def is_writer(visit: Visit, repository: str) -> bool:
    """Return whether the caller may see more than counts of what a repository holds: whoever writes a ref of it."""
    return visit.caller.administrator or await may_write(visit, repository, Permission.WRITE_ANY_REF)


async def authorize_writer(visit: Visit, repository: str) -> int:
    """Return the id of a repository whose objects the caller may see: their ids tell what others are working on.

    Raises `PermissionDenied` (ACCESS_DENIED), and the errors of `Visit.authorize`.
    """
    repository_id = await visit.authorize(repository)
    if not await is_writer(visit, repository):
        message = f"the objects of {repository} are shown to those who may write it"
        raise PermissionDenied(Reason.ACCESS_DENIED, message)
    return repository_id
