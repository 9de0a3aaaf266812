"""AdminService: groups and their members."""

from collections.abc import Sequence
from functools import partial

from towpath.access.v1 import admin_service_pb2 as pb

from services.locks.access.groups import (
    add_members,
    create_group,
    delete_group,
    list_groups,
    list_members,
    remove_members,
)
from services.locks.access.request_limits import set_limit_of_group
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.messages import group_message
from services.locks.api.name_pages import PAGE_DEFAULT, name_page
from services.locks.api.rate_messages import changed_limit_of, limit_of
from services.locks.models import User
from services.locks.validation import check_name, check_new_name


class GroupHandlers(Handlers):
    """Adds, lists, changes and removes groups and their members."""

    @administrator_only
    async def CreateGroup(self, request: pb.CreateGroupRequest, _administrator: User) -> pb.CreateGroupResponse:
        """Add a group."""
        check_new_name("name", request.name)
        limit = limit_of(request.rate)
        group = await self.database.run(partial(create_group, name=request.name, limit=limit))
        return pb.CreateGroupResponse(group=group_message(group, 0))

    @administrator_only
    async def ListGroups(self, request: pb.ListGroupsRequest, _administrator: User) -> pb.ListGroupsResponse:
        """Return a page of the groups, or all."""
        page = name_page(request.cursor, request.limit, default=None)
        found = await self.database.run(partial(list_groups, after=page.after, limit=page.asked))
        groups, cursor = page.cut(found, lambda entry: entry[0].name)
        return pb.ListGroupsResponse(
            groups=(group_message(group, count) for group, count in groups), next_cursor=cursor
        )

    @administrator_only
    async def UpdateGroup(self, request: pb.UpdateGroupRequest, _administrator: User) -> pb.UpdateGroupResponse:
        """Change the limit of requests of a group's members."""
        check_name("name", request.name)
        work = partial(set_limit_of_group, name=request.name, limit=changed_limit_of(request))
        group, count = await self.database.run(work)
        return pb.UpdateGroupResponse(group=group_message(group, count))

    @administrator_only
    async def DeleteGroup(self, request: pb.DeleteGroupRequest, _administrator: User) -> pb.DeleteGroupResponse:
        """Remove a group with its grants."""
        check_name("name", request.name)
        group, count = await self.database.run(partial(delete_group, name=request.name))
        return pb.DeleteGroupResponse(group=group_message(group, count))

    @administrator_only
    async def AddGroupMembers(
        self, request: pb.AddGroupMembersRequest, _administrator: User
    ) -> pb.AddGroupMembersResponse:
        """Make users members of a group."""
        _check_names(request.group_name, request.user_names)
        work = partial(add_members, group_name=request.group_name, user_names=request.user_names, origin=request.origin)
        group, count = await self.database.run(work)
        return pb.AddGroupMembersResponse(group=group_message(group, count))

    @administrator_only
    async def RemoveGroupMembers(
        self, request: pb.RemoveGroupMembersRequest, _administrator: User
    ) -> pb.RemoveGroupMembersResponse:
        """End the membership of users in a group."""
        _check_names(request.group_name, request.user_names)
        work = partial(remove_members, group_name=request.group_name, user_names=request.user_names)
        group, count = await self.database.run(work)
        return pb.RemoveGroupMembersResponse(group=group_message(group, count))

    @administrator_only
    async def ListGroupMembers(
        self, request: pb.ListGroupMembersRequest, _administrator: User
    ) -> pb.ListGroupMembersResponse:
        """Return a page of a group's members."""
        check_name("group_name", request.group_name)
        page = name_page(request.cursor, request.limit, default=PAGE_DEFAULT)
        work = partial(list_members, group_name=request.group_name, after=page.after, limit=page.asked)
        users, cursor = page.cut(await self.database.run(work), lambda user: user.name)
        return pb.ListGroupMembersResponse(users=await self.user_messages(users), next_cursor=cursor)


def _check_names(group_name: str, user_names: Sequence[str]) -> None:
    check_name("group_name", group_name)
    for name in user_names:
        check_name("user_names", name)
