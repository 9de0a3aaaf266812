"""AdminService: SSH keys."""

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import NotFound, Reason
from services.locks.access.ssh_keys import add_key, list_keys, parse_public_key, remove_key
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.messages import timestamp
from services.locks.models import SshKey, User
from services.locks.validation import check_name, check_new_name


class SshKeyHandlers(Handlers):
    """Adds, lists and removes the SSH keys of users."""

    @administrator_only
    async def AddSshKey(self, request: pb.AddSshKeyRequest, _administrator: User) -> pb.AddSshKeyResponse:
        """Add a key to a user."""
        check_new_name("name", request.name)
        public_key = parse_public_key(request.public_key)

        async def work(connection: AsyncConnection) -> SshKey:
            user = await self.find_user(connection, "user_name", request.user_name)
            return await add_key(connection, user=user, name=request.name, key=public_key)

        return pb.AddSshKeyResponse(key=_message(await self.database.run(work), request.user_name))

    @administrator_only
    async def ListSshKeys(self, request: pb.ListSshKeysRequest, _administrator: User) -> pb.ListSshKeysResponse:
        """Return a user's keys, ordered by name."""

        async def work(connection: AsyncConnection) -> Sequence[SshKey]:
            user = await self.find_user(connection, "user_name", request.user_name)
            return await list_keys(connection, user.id)

        keys = await self.database.run(work)
        return pb.ListSshKeysResponse(keys=(_message(key, request.user_name) for key in keys))

    @administrator_only
    async def RemoveSshKey(self, request: pb.RemoveSshKeyRequest, _administrator: User) -> pb.RemoveSshKeyResponse:
        """Remove a key, and end the tokens of its sessions."""
        check_name("name", request.name)

        async def work(connection: AsyncConnection) -> SshKey:
            user = await self.find_user(connection, "user_name", request.user_name)
            key = await remove_key(connection, user_id=user.id, name=request.name)
            if key is None:
                raise NotFound(Reason.SSH_KEY_NOT_FOUND, f"{request.user_name} has no SSH key {request.name}")
            return key

        return pb.RemoveSshKeyResponse(key=_message(await self.database.run(work), request.user_name))


def _message(key: SshKey, user_name: str) -> pb.SshKey:
    return pb.SshKey(
        id=key.id,
        user_name=user_name,
        name=key.name,
        fingerprint=key.fingerprint,
        public_key=key.public_key,
        created_at=timestamp(key.created_at),
    )
