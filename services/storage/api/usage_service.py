"""The calls of StorageService about usage and limits."""

import datetime
from typing import Any

import grpc
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceServicer

from services.storage import validation
from services.storage.api.messages import listed_message
from services.storage.context import StorageContext
from services.storage.index import quota_levels
from services.storage.index.limits import Limits
from services.storage.objects.limits import (
    acknowledge_quota_events,
    limited_groups,
    quota_events,
    set_group_members,
    set_limits,
)
from services.storage.objects.usage import RepositoryUsage, usage_of, user_usage_of

_LEVELS = {quota_levels.WARNED: pb.QUOTA_LEVEL_WARNED, quota_levels.EXCEEDED: pb.QUOTA_LEVEL_EXCEEDED}

_Context = grpc.aio.ServicerContext[Any, Any]


class UsageHandlers(StorageServiceServicer):
    """See `towpath.storage.v1.StorageService`."""

    def __init__(self, context: StorageContext) -> None:
        self._context = context

    async def GetUsage(self, request: pb.GetUsageRequest, _context: _Context) -> pb.GetUsageResponse:
        """Return what each repository holds and has transferred today, its limits, and the free space."""
        usages = await usage_of(
            self._context,
            [validation.repository_id(id_) for id_ in request.repository_ids],
            largest=validation.largest(request.largest, repositories=len(request.repository_ids)),
            days=validation.days(request.days, repositories=len(request.repository_ids)),
        )
        return pb.GetUsageResponse(
            repositories=map(_usage_message, usages), available_bytes=await self._context.space.available_bytes()
        )

    async def SetLimits(self, request: pb.SetLimitsRequest, _context: _Context) -> pb.SetLimitsResponse:
        """Set limits of a repository, a user or a group."""
        changes = {
            field: validation.limit(field, getattr(request, field))
            for field in ("quota_bytes", "bandwidth_bytes")
            if request.HasField(field)
        }
        ids = {field: getattr(request, field) for field in ("repository_id", "user_id", "group_id")}
        before, after = await set_limits(self._context, *validation.limited_party(ids, changes), changes)
        return pb.SetLimitsResponse(before=_limits_message(before), after=_limits_message(after))

    async def ListQuotaEvents(
        self, _request: pb.ListQuotaEventsRequest, _context: _Context
    ) -> pb.ListQuotaEventsResponse:
        """Return the repositories that have reached a level of their quota, and are not acknowledged."""
        response = pb.ListQuotaEventsResponse()
        for reached in await quota_events(self._context):
            event = response.events.add(
                repository_id=reached.repository_id,
                level=_LEVELS[reached.level],
                used_bytes=reached.used_bytes,
                quota_bytes=reached.quota_bytes,
            )
            event.reached_at.FromDatetime(reached.reached_at)
        return response

    async def AcknowledgeQuotaEvents(
        self, request: pb.AcknowledgeQuotaEventsRequest, _context: _Context
    ) -> pb.AcknowledgeQuotaEventsResponse:
        """Let ListQuotaEvents return these events no more."""
        await acknowledge_quota_events(
            self._context,
            {event.repository_id: event.reached_at.ToDatetime(tzinfo=datetime.UTC) for event in request.events},
        )
        return pb.AcknowledgeQuotaEventsResponse()

    async def GetUserUsage(self, request: pb.GetUserUsageRequest, _context: _Context) -> pb.GetUserUsageResponse:
        """Return what users have brought, and their quotas."""
        usages = await user_usage_of(self._context, validation.user_ids(request.user_ids))
        return pb.GetUserUsageResponse(
            users=(
                pb.UserUsage(object_count=used.object_count, object_bytes=used.object_bytes, quota_bytes=quota)
                for used, quota in usages
            )
        )

    async def ListLimitedGroups(
        self, _request: pb.ListLimitedGroupsRequest, _context: _Context
    ) -> pb.ListLimitedGroupsResponse:
        """Return the groups that have a quota."""
        return pb.ListLimitedGroupsResponse(group_ids=await limited_groups(self._context))

    async def SetLimitedGroupMembers(
        self, request: pb.SetLimitedGroupMembersRequest, _context: _Context
    ) -> pb.SetLimitedGroupMembersResponse:
        """Record the members of a group that has a quota."""
        await set_group_members(self._context, request.group_id, request.user_ids)
        return pb.SetLimitedGroupMembersResponse()


def _usage_message(usage: RepositoryUsage) -> pb.RepositoryUsage:
    return pb.RepositoryUsage(
        object_count=usage.held.object_count,
        object_bytes=usage.held.object_bytes,
        removed_count=usage.held.removed_count,
        bin_count=usage.held.bin_count,
        bin_bytes=usage.held.bin_bytes,
        bytes_in_today=usage.moved.bytes_in,
        bytes_out_today=usage.moved.bytes_out,
        quota_bytes=usage.quota,
        bandwidth_bytes=usage.bandwidth,
        reserved_bytes=usage.reserved_bytes,
        growth_bytes=usage.growth_bytes,
        largest=map(listed_message, usage.largest),
        by_day=(
            pb.DayUsage(day=held.day.isoformat(), object_count=held.object_count, object_bytes=held.object_bytes)
            for held in usage.by_day
        ),
    )


def _limits_message(limits: Limits) -> pb.SetLimitsResponse.Limits:
    return pb.SetLimitsResponse.Limits(quota_bytes=limits.quota, bandwidth_bytes=limits.bandwidth)
