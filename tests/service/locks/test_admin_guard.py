"""Who may call AdminService."""

import pytest
from pydantic import SecretStr
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import PermissionDenied, Reason, Unauthenticated
from services.common.rpc.client import Peer
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused

METHODS = admin.DESCRIPTOR.services_by_name["AdminService"].methods


async def _call(service: RunningLocks, method: str, token: str | None) -> None:
    """Call a method with an empty request, by its name alone."""
    peer = Peer(service.address, deadline=10, secret=SecretStr(token) if token is not None else None)
    try:
        call = peer.channel.unary_unary(
            f"/towpath.access.v1.AdminService/{method}",
            request_serializer=admin.ListUsersRequest.SerializeToString,
            response_deserializer=admin.ListUsersResponse.FromString,
        )
        await peer.call(call, admin.ListUsersRequest())
    finally:
        await peer.close()


@pytest.mark.parametrize("method", [method.name for method in METHODS])
async def test_only_administrators_get_in(service: RunningLocks, team: Team, method: str) -> None:
    """Every method asks for an administrator's token before it looks at anything else."""
    for token in (None, "", "tp_wrong", f"{service.admin_token}x"):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await _call(service, method, token)
    ordinary = await service.add_token(team.alice_name)
    with refused(PermissionDenied, Reason.NOT_ADMINISTRATOR):
        await _call(service, method, ordinary)


async def test_another_administrator(service: RunningLocks) -> None:
    """Any administrator's token will do, until it is revoked."""
    await service.add_user("root2", administrator=True)
    token = await service.add_token("root2")
    await _call(service, "ListUsers", token)
    request = admin.RevokeTokenRequest(user_name="root2", name="laptop")
    await service.admin_peer.call(service.admin.RevokeToken, request)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _call(service, "ListUsers", token)
