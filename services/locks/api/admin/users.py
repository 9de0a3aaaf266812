"""AdminService: users."""

from functools import partial

from towpath.access.v1 import admin_service_pb2 as pb

from services.locks.access.request_limits import set_limit_of_user
from services.locks.access.users import create_user, find_user, list_users
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.messages import user_message
from services.locks.api.name_pages import name_page
from services.locks.api.rate_messages import changed_limit_of, limit_of
from services.locks.models import User
from services.locks.removals import remove_user
from services.locks.validation import check_name, check_new_name


class UserHandlers(Handlers):
    """Adds, lists, changes and removes users."""

    @administrator_only
    async def CreateUser(self, request: pb.CreateUserRequest, _administrator: User) -> pb.CreateUserResponse:
        """Add a user."""
        check_new_name("name", request.name)
        limit = limit_of(request.rate)
        user = await self.database.run(
            partial(create_user, name=request.name, administrator=request.administrator, limit=limit)
        )
        return pb.CreateUserResponse(user=user_message(user))

    @administrator_only
    async def ListUsers(self, request: pb.ListUsersRequest, _administrator: User) -> pb.ListUsersResponse:
        """Return a page of the users, or all, or the one that the request names."""
        if request.name:
            check_name("name", request.name)
            user = await self.database.run(partial(find_user, name=request.name))
            return pb.ListUsersResponse(users=await self.user_messages([user]))
        page = name_page(request.cursor, request.limit, default=None)
        found = await self.database.run(partial(list_users, after=page.after, limit=page.asked))
        users, cursor = page.cut(found, lambda user: user.name)
        return pb.ListUsersResponse(users=await self.user_messages(users), next_cursor=cursor)

    @administrator_only
    async def UpdateUser(self, request: pb.UpdateUserRequest, _administrator: User) -> pb.UpdateUserResponse:
        """Change a user's limit of requests."""
        check_name("name", request.name)
        limit = changed_limit_of(request)
        user = await self.database.run(partial(set_limit_of_user, name=request.name, limit=limit))
        [message] = await self.user_messages([user])
        return pb.UpdateUserResponse(user=message)

    @administrator_only
    async def DeleteUser(self, request: pb.DeleteUserRequest, administrator: User) -> pb.DeleteUserResponse:
        """Remove a user with its tokens and grants."""
        check_name("name", request.name)
        user = await self.database.run(
            partial(remove_user, name=request.name, release_locks=request.release_locks, administrator=administrator)
        )
        return pb.DeleteUserResponse(user=user_message(user))
