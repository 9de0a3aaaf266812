"""Common base of the AdminService handlers: the administrator check, the database and the storage client."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import grpc
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceServicer

from services.common.errors import FailedPrecondition, Reason
from services.common.rpc.interceptors import bearer_token
from services.database.transactions import Database
from services.locks.access.token_uses import TokenUses
from services.locks.access.tokens import authenticate
from services.locks.access.users import find_origins, find_user
from services.locks.api.messages import user_message
from services.locks.api.token_callers import check_administrator, token_caller
from services.locks.audit.recorder import ADMIN, acting, record
from services.locks.events.feed import LockFeed
from services.locks.issuers.discovery import Discovery
from services.locks.locking.pages import LockPages
from services.locks.models import Repository, User
from services.locks.repositories import find_repository
from services.locks.settings import LocksSettings
from services.locks.storage_client import StorageClient
from services.locks.validation import check_name, check_repository_name

_Handlers = TypeVar("_Handlers", bound="Handlers")
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, eq=False)
class Handlers(AdminServiceServicer):
    """The base class of the handlers, and what they share; the application that creates these resources closes them."""

    database: Database
    uses: TokenUses
    settings: LocksSettings
    storage: StorageClient
    lock_pages: LockPages
    feed: LockFeed
    discovery: Discovery

    async def check_still_administrator(self, context: Context) -> None:
        """Check the token of a call that takes long once more; `TokenCallers` has admitted it at its beginning.

        Raises `Unauthenticated` (BAD_CREDENTIALS) and `PermissionDenied` (NOT_ADMINISTRATOR).
        """
        token = bearer_token(context.invocation_metadata())
        check_administrator((await authenticate(self.database, self.uses, token)).user)

    async def find_user(self, connection: AsyncConnection, field: str, name: str) -> User:
        """Return the user that a field of a request names. Raises `InvalidArgument`, `NotFound` (USER_NOT_FOUND)."""
        check_name(field, name)
        return await find_user(connection, name)

    async def user_messages(self, users: Sequence[User]) -> Sequence[pb.User]:
        """Return the messages of users, with their origins."""
        origins = await self.database.run(partial(find_origins, user_ids=[user.id for user in users]))
        return [user_message(user, origins.get(user.id, "")) for user in users]

    async def find_repository(self, name: str, *, field: str = "repository") -> Repository:
        """Return the repository that a request names. Raises `InvalidArgument`, `NotFound` (REPOSITORY_NOT_FOUND)."""
        check_repository_name(field, name)
        return await self.database.run(partial(find_repository, name=name))

    async def find_writable(self, name: str, *, field: str = "repository") -> Repository:
        """Return the repository that a request names, to which something is added.

        Raises the errors of `find_repository`, and `FailedPrecondition` (REPOSITORY_ARCHIVED).
        """
        repository = await self.find_repository(name, field=field)
        if repository.archived_at is not None:
            message = f"{field}: {name} is archived; unarchive it first"
            raise FailedPrecondition(Reason.REPOSITORY_ARCHIVED, message)
        return repository

    async def audit(
        self,
        type_: str,
        *,
        subject: str,
        repository: str = "",
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
    ) -> None:
        """Record a change that the storage service has made; no trigger sees it."""
        await self.database.run(
            partial(record, type_=type_, subject=subject, repository=repository, before=before, after=after)
        )


def administrator_only(
    handle: Callable[[_Handlers, _Request, User], Awaitable[_Response]],
) -> Callable[[_Handlers, _Request, object], Awaitable[_Response]]:
    """Return a handler that passes the calling administrator to `handle`, and names it in audit events."""

    async def handler(self: _Handlers, request: _Request, _context: object) -> _Response:
        administrator = token_caller()
        # Triggers record each change of a row in its transaction, with this actor.
        with acting(administrator.name, ADMIN):
            return await handle(self, request, administrator)

    return handler
