"""The rights of a visit's caller in a repository that the caller may read, in words for its pages."""

import asyncio
from typing import NamedTuple

from towpath.access.v1 import access_service_pb2 as pb

from services.common.errors import NotFound, PermissionDenied, Reason, Unauthenticated
from services.facade.auth.authorizer import Permission
from services.facade.auth.caller import Caller
from services.facade.pages.visit import Visit

PERMISSION_WORDS = {
    pb.PERMISSION_READ: "read",
    pb.PERMISSION_WRITE_ANY_REF: "write some refs",
    pb.PERMISSION_WRITE: "write",
    pb.PERMISSION_ADMIN: "administer",
}
# The most comes first.
_CHANGES = (Permission.ADMIN, Permission.WRITE, Permission.WRITE_ANY_REF)
_REFUSALS = (Unauthenticated, PermissionDenied, NotFound)


class Rights(NamedTuple):
    """The most that a caller may do in a repository, as if it were not archived, and the state of the repository."""

    permission: Permission
    is_public: bool
    is_archived: bool
    """True if it is archived; only those who otherwise may change it are told."""


async def rights_in(visit: Visit, repository: str) -> Rights:
    """Return the caller's rights in a repository that the caller may read."""
    outcomes = await asyncio.gather(
        _refusal(visit, Caller(), repository, Permission.READ),
        *(_refusal(visit, visit.caller, repository, permission) for permission in _CHANGES),
    )
    granted = [
        permission
        for permission, reason in zip(_CHANGES, outcomes[1:], strict=True)
        if reason in ("", Reason.REPOSITORY_ARCHIVED)
    ]
    return Rights(
        permission=granted[0] if granted else Permission.READ,
        is_public=not outcomes[0],
        is_archived=Reason.REPOSITORY_ARCHIVED in outcomes,
    )


async def may_write(visit: Visit, repository: str) -> bool:
    """Return whether the caller may write every ref of a repository, or might if it were not archived."""
    return await _refusal(visit, visit.caller, repository, Permission.WRITE) in ("", Reason.REPOSITORY_ARCHIVED)


async def _refusal(visit: Visit, caller: Caller, repository: str, permission: Permission) -> str:
    """Return the reason for which a caller lacks a permission; an empty one if the caller has it."""
    try:
        await visit.context.authorizer.check(caller, repository, permission, "")
    except _REFUSALS as refusal:
        return refusal.reason
    return ""
