"""Access control of AdminService."""

from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub

from services.common.errors import PermissionDenied, Reason, Unauthenticated
from services.common.rpc.client import ServiceClient
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS

METHODS = admin.DESCRIPTOR.services_by_name["AdminService"].methods


async def _call(service: RunningLocks, method: str, token: str | None) -> None:
    """Call a method with an empty request, by its name alone."""
    peer = ServiceClient(service.address, deadline=STEP_SECONDS, secret=SecretStr(token) if token is not None else None)
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


async def test_the_secret_between_services(postgres: TestPostgres, tmp_path: Path) -> None:
    """The services' secret opens LockService and AccessService, an administrator's token AdminService: none both."""
    secret = SecretStr("between-the-services")
    authenticate = access.AuthenticateRequest(token="tp_x")
    url = await postgres.create_database()
    async with running_locks(url, tmp_path, service_secret=secret) as service:
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await service.peer.call(service.access.Authenticate, authenticate)
        await _call(service, "ListUsers", service.admin_token)
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await _call(service, "ListUsers", secret.get_secret_value())
        stub = AccessServiceStub(service.admin_peer.channel)
        with pytest.raises(Unauthenticated) as caught:
            await service.admin_peer.call(stub.Authenticate, authenticate)
        assert "secret between services" in caught.value.message
