"""AdminService: limits of repositories, users and groups, which the storage service keeps by their ids."""

from functools import partial

from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.common.errors import InvalidArgument, Reason
from services.locks.access.groups import find_group
from services.locks.access.limited_groups import members_of, tell_members
from services.locks.access.users import find_user
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.audit_messages import limit_fields
from services.locks.audit.event_types import LIMITS_CHANGED
from services.locks.models import User
from services.locks.validation import check_name


class LimitHandlers(Handlers):
    """Sets limits, and tells what users have brought."""

    @administrator_only
    async def SetLimits(self, request: pb.SetLimitsRequest, _administrator: User) -> pb.SetLimitsResponse:
        """Set limits of a repository, a user or a group."""
        limits = storage.SetLimitsRequest(
            quota_bytes=request.quota_bytes if request.HasField("quota_bytes") else None,
            bandwidth_bytes=request.bandwidth_bytes if request.HasField("bandwidth_bytes") else None,
        )
        if [bool(name) for name in (request.repository, request.user_name, request.group_name)].count(True) != 1:
            raise InvalidArgument(Reason.INVALID_FIELD, "expected one of repository, user_name and group_name")
        if request.repository:
            limits.repository_id = (await self.find_repository(request.repository)).id
            subject = f"repository {request.repository}"
        elif request.user_name:
            check_name("user_name", request.user_name)
            limits.user_id = (await self.database.run(partial(find_user, name=request.user_name))).id
            subject = f"user {request.user_name}"
        else:
            check_name("group_name", request.group_name)
            limits.group_id = (await self.database.run(partial(find_group, name=request.group_name))).id
            subject = f"group {request.group_name}"
        changed = await self.storage.call(self.storage.objects.SetLimits, limits)
        if limits.group_id:
            # At once, and not only with the next change of the members.
            members = await self.database.run(partial(members_of, group_ids=[limits.group_id]))
            await tell_members(self.storage, limits.group_id, members[limits.group_id])
        if changed.before != changed.after:
            await self.audit(
                LIMITS_CHANGED,
                subject=subject,
                repository=request.repository,
                before=limit_fields(changed.before),
                after=limit_fields(changed.after),
            )
        return pb.SetLimitsResponse(limits=changed.after)

    @administrator_only
    async def GetUserUsage(self, request: pb.GetUserUsageRequest, _administrator: User) -> pb.GetUserUsageResponse:
        """Return what a user has brought, and the user's quota."""
        check_name("user_name", request.user_name)
        user = await self.database.run(partial(find_user, name=request.user_name))
        wanted = storage.GetUserUsageRequest(user_ids=[user.id])
        usage = await self.storage.call(self.storage.objects.GetUserUsage, wanted)
        return pb.GetUserUsageResponse(usage=usage.users[0])
