"""A real lock service on a unix socket, and the callers of its three services."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from pydantic import SecretStr
from sqlalchemy import text
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub
from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceStub
from towpath.locks.v1.push_service_pb2_grpc import PushServiceStub

from services.common.errors import Reason, ServiceError
from services.common.rpc.client import ServiceClient
from services.database.engine import create_engine
from services.database.transactions import Database
from services.database.url import DatabaseUrl
from services.locks.access.bootstrap import bootstrap
from services.locks.application import serve
from services.locks.models import SCHEMA
from services.locks.settings import LocksSettings
from services.locks.webhooks.worker import Retries
from tests.support.health import wait_serving
from tests.support.waiting import STEP_SECONDS

NO_STORAGE = "unix:/nonexistent/storage.sock"


@dataclass
class RunningLocks:
    """The service's address, stubs of its services, and the token of an administrator."""

    address: str
    database_url: SecretStr
    peer: ServiceClient
    admin_peer: ServiceClient
    admin_token: str

    def __post_init__(self) -> None:
        self.locks = LockServiceStub(self.peer.channel)
        self.access = AccessServiceStub(self.peer.channel)
        self.admin = AdminServiceStub(self.admin_peer.channel)
        self.push = PushServiceStub(self.admin_peer.channel)

    @property
    def database(self) -> str:
        """The name of the database."""
        return DatabaseUrl.parse(self.database_url).database or ""

    @asynccontextmanager
    async def open_database(self, *, pool_size: int = 1) -> AsyncIterator[Database]:
        """Open the database past the service, as a replica does."""
        database = Database(create_engine(self.database_url, schema=SCHEMA.name, pool_size=pool_size))
        try:
            yield database
        finally:
            await database.close()

    async def execute(self, statement: str, **values: object) -> Sequence[Any]:
        """Run a statement on the tables past the service, and return its rows."""
        async with self.open_database() as database, database.engine.begin() as connection:
            result = await connection.execute(text(statement), values)
            return result.all() if result.returns_rows else []

    @asynccontextmanager
    async def second(self, folder: Path, *, name: str = "second", **options: Any) -> AsyncIterator["RunningLocks"]:  # noqa: ANN401 - those of `serving_locks`
        """Serve on the same database by another lock service, with `options` of `serving_locks`."""
        async with (
            serving_locks(self.database_url, folder, name=name, **options) as address,
            _connected(address, self.database_url, self.admin_token) as second,
        ):
            yield second

    async def add_user(self, name: str, *, administrator: bool = False) -> int:
        """Make a user and return its id."""
        request = admin.CreateUserRequest(name=name, administrator=administrator)
        return (await self.admin_peer.call(self.admin.CreateUser, request)).user.id

    async def delete_user(self, name: str, *, release_locks: bool = False) -> admin.User:
        """Remove a user."""
        request = admin.DeleteUserRequest(name=name, release_locks=release_locks)
        return (await self.admin_peer.call(self.admin.DeleteUser, request)).user

    async def add_token(self, user_name: str, name: str = "laptop") -> str:
        """Make a token of a user and return its secret."""
        request = admin.CreateTokenRequest(user_name=user_name, name=name)
        return (await self.admin_peer.call(self.admin.CreateToken, request)).secret

    async def revoke_token(self, user_name: str, name: str = "laptop") -> admin.Token:
        """Revoke a token of a user."""
        request = admin.RevokeTokenRequest(user_name=user_name, name=name)
        return (await self.admin_peer.call(self.admin.RevokeToken, request)).token

    async def tokens(self, user_name: str) -> Sequence[admin.Token]:
        """Return the tokens of a user."""
        return (await self.admin_peer.call(self.admin.ListTokens, admin.ListTokensRequest(user_name=user_name))).tokens

    async def add_group(self, name: str, *members: str, **fields: Any) -> admin.Group:  # noqa: ANN401 - those of the request
        """Make a group with members, and return it."""
        request = admin.CreateGroupRequest(name=name, **fields)
        group = (await self.admin_peer.call(self.admin.CreateGroup, request)).group
        return await self.add_members(name, *members) if members else group

    async def add_members(self, group: str, *members: str, origin: str = "") -> admin.Group:
        """Add members to a group, and return it."""
        request = admin.AddGroupMembersRequest(group_name=group, user_names=members, origin=origin)
        return (await self.admin_peer.call(self.admin.AddGroupMembers, request)).group

    async def add_repository(
        self,
        name: str,
        *,
        public: bool = False,
        forced_unlock: admin.ForcedUnlock.ValueType = admin.FORCED_UNLOCK_UNSPECIFIED,
    ) -> int:
        """Make a repository and return its id."""
        request = admin.CreateRepositoryRequest(name=name, public=public, forced_unlock=forced_unlock)
        return (await self.admin_peer.call(self.admin.CreateRepository, request)).repository.id

    async def update_repository(self, name: str, **fields: Any) -> admin.Repository:  # noqa: ANN401 - those of the request
        """Change fields of a repository."""
        request = admin.UpdateRepositoryRequest(name=name, **fields)
        return (await self.admin_peer.call(self.admin.UpdateRepository, request)).repository

    async def delete_repository(self, name: str, *, force: bool = False) -> admin.Repository:
        """Remove a repository."""
        request = admin.DeleteRepositoryRequest(name=name, force=force)
        return (await self.admin_peer.call(self.admin.DeleteRepository, request)).repository

    async def released(self, repository: str, **fields: Any) -> Sequence[admin.ReleasedLock]:  # noqa: ANN401 - those of the request
        """Return a page of released locks, as an administrator."""
        request = admin.ListReleasedLocksRequest(repository=repository, **fields)
        return (await self.admin_peer.call(self.admin.ListReleasedLocks, request)).locks

    async def grants(self, repository: str) -> Sequence[admin.Grant]:
        """Return the grants in a repository."""
        request = admin.ListGrantsRequest(repository=repository)
        return (await self.admin_peer.call(self.admin.ListGrants, request)).grants

    async def revoke(self, user_name: str, repository: str, *, group_name: str = "") -> Sequence[admin.Grant]:
        """Revoke the grants that a user, or a group, has in a repository."""
        request = admin.RevokeAccessRequest(user_name=user_name, repository=repository, group_name=group_name)
        return (await self.admin_peer.call(self.admin.RevokeAccess, request)).grants

    async def grant(
        self,
        user_name: str,
        repository: str,
        role: admin.Role.ValueType,
        *,
        ref_patterns: Iterable[str] = (),
        ignores_locks: bool = False,
        origin: str = "",
        group_name: str = "",
    ) -> admin.GrantAccessResponse:
        """Give a user, or a group, a role in a repository."""
        request = admin.GrantAccessRequest(
            user_name=user_name,
            group_name=group_name,
            repository=repository,
            role=role,
            ref_patterns=ref_patterns,
            ignores_locks=ignores_locks,
            origin=origin,
        )
        return await self.admin_peer.call(self.admin.GrantAccess, request)

    async def check(
        self, user_id: int, repository: str, permission: access.Permission.ValueType, *, ref: str = ""
    ) -> int:
        """Check an access and return the repository's id."""
        request = access.CheckAccessRequest(user_id=user_id, repository=repository, permission=permission, ref=ref)
        return (await self.peer.call(self.access.CheckAccess, request)).repository_id

    async def create(
        self, repository_id: int, user_id: int, path: str, *, key: str = "", note: str = "", ref: str = ""
    ) -> pb.Lock:
        """Create a lock; a conflict carries the standing one as its detail."""
        request = pb.CreateLockRequest(
            repository_id=repository_id, user_id=user_id, path=path, idempotency_key=key, note=note, ref=ref
        )
        return (await self.peer.call(self.locks.CreateLock, request, detail=pb.Lock())).lock

    async def delete(
        self, repository_id: int, user_id: int, lock_id: str, *, force: bool = False, key: str = ""
    ) -> pb.Lock:
        """Delete a lock and return it."""
        request = pb.DeleteLockRequest(
            repository_id=repository_id, user_id=user_id, id=lock_id, force=force, idempotency_key=key
        )
        return (await self.peer.call(self.locks.DeleteLock, request)).lock

    async def list(
        self,
        repository_id: int,
        *,
        cursor: str = "",
        limit: int = 0,
        path: str | None = None,
        lock_id: str | None = None,
        path_prefix: str | None = None,
        owner_name: str | None = None,
        ref: str = "",
    ) -> pb.ListLocksResponse:
        """Return a page of locks."""
        request = pb.ListLocksRequest(
            repository_id=repository_id,
            cursor=cursor,
            limit=limit,
            path=path,
            id=lock_id,
            path_prefix=path_prefix,
            owner_name=owner_name,
            ref=ref,
        )
        return await self.peer.call(self.locks.ListLocks, request)

    async def verify(
        self, repository_id: int, user_id: int, *, cursor: str = "", limit: int = 0, ref: str = ""
    ) -> pb.VerifyLocksResponse:
        """Return a page of locks, split by owner."""
        request = pb.VerifyLocksRequest(
            repository_id=repository_id, user_id=user_id, cursor=cursor, limit=limit, ref=ref
        )
        return await self.peer.call(self.locks.VerifyLocks, request)


@contextmanager
def refused(
    kind: type[ServiceError], reason: Reason, beginning: str = ""
) -> Iterator[pytest.ExceptionInfo[ServiceError]]:
    """Expect an error of this kind and reason, whose message begins so."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.reason == reason, caught.value
    assert caught.value.message.startswith(beginning), caught.value


async def is_refused(kind: type[ServiceError], attempt: Awaitable[object]) -> bool:
    """Return whether a call ends with an error of this kind; raise any other error."""
    try:
        await attempt
    except kind:
        return True
    return False


@asynccontextmanager
async def serving_locks(
    database_url: SecretStr,
    folder: Path,
    *,
    storage_address: str = NO_STORAGE,
    name: str = "locks",
    service_secret: SecretStr | None = None,
    storage_admin_secret: SecretStr | None = None,
    limits: Mapping[str, Any] | None = None,
    retries: Retries | None = None,
) -> AsyncIterator[str]:
    """Serve on a migrated database, as one replica; yield the address."""
    address = f"unix:{folder / name}.sock"
    settings = LocksSettings(
        locks_database_url=database_url,
        storage_address=storage_address,
        service_secret=service_secret,
        storage_admin_secret=storage_admin_secret,
        **{"locks_listen": address, "drain_seconds": 0.5, **(limits or {})},
    )
    address = settings.locks_listen
    stop = asyncio.Event()
    service = asyncio.create_task(serve(settings, stop, retries=retries))
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            ready = asyncio.create_task(wait_serving(channel))
            await asyncio.wait({service, ready}, return_when=asyncio.FIRST_COMPLETED)
            if service.done():
                ready.cancel()
                await service
            await ready
        yield address
    finally:
        stop.set()
        await service


@asynccontextmanager
async def _connected(
    address: str, database_url: SecretStr, admin_token: str, *, service_secret: SecretStr | None = None
) -> AsyncIterator[RunningLocks]:
    peer = ServiceClient(address, deadline=STEP_SECONDS, secret=service_secret)
    admin_peer = ServiceClient(address, deadline=STEP_SECONDS, secret=SecretStr(admin_token))
    try:
        yield RunningLocks(address, database_url, peer, admin_peer, admin_token)
    finally:
        await peer.close()
        await admin_peer.close()


@asynccontextmanager
async def running_locks(
    database_url: SecretStr,
    folder: Path,
    *,
    storage_address: str = NO_STORAGE,
    service_secret: SecretStr | None = None,
    storage_admin_secret: SecretStr | None = None,
    limits: Mapping[str, Any] | None = None,
    retries: Retries | None = None,
) -> AsyncIterator[RunningLocks]:
    """Serve on a database with settings that are `limits`, and make an administrator.

    `retries` are those of deliveries to webhooks.
    """
    database = Database(create_engine(database_url, schema=SCHEMA.name, pool_size=1))
    secret = await bootstrap(database)
    await database.close()
    async with (
        serving_locks(
            database_url,
            folder,
            storage_address=storage_address,
            service_secret=service_secret,
            storage_admin_secret=storage_admin_secret,
            limits=limits,
            retries=retries,
        ) as address,
        _connected(address, database_url, secret, service_secret=service_secret) as running,
    ):
        yield running
