"""Access control of AdminService."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub

from services.common.errors import Reason, ServiceError, Unauthenticated
from services.common.rpc.client import ServiceClient
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS

METHODS = admin.DESCRIPTOR.services_by_name["AdminService"].methods


@asynccontextmanager
async def _caller(service: RunningLocks, token: str | None) -> AsyncIterator[ServiceClient]:
    peer = ServiceClient(service.address, deadline=STEP_SECONDS, secret=SecretStr(token) if token is not None else None)
    try:
        yield peer
    finally:
        await peer.close()


async def _call(peer: ServiceClient, method: str) -> None:
    """Call a method with an empty request, by its name alone."""
    call = peer.channel.unary_unary(
        f"/towpath.access.v1.AdminService/{method}",
        request_serializer=admin.ListUsersRequest.SerializeToString,
        response_deserializer=admin.ListUsersResponse.FromString,
    )
    await peer.call(call, admin.ListUsersRequest())


async def _list_users(service: RunningLocks, token: str) -> None:
    async with _caller(service, token) as peer:
        await _call(peer, "ListUsers")


async def test_only_administrators_get_in(service: RunningLocks, team: Team) -> None:
    """Every method asks for an administrator's token before it looks at anything else."""
    ordinary = await service.add_token(team.alice_name)
    refusals = dict.fromkeys((None, "", "tp_wrong", f"{service.admin_token}x"), Reason.BAD_CREDENTIALS)
    refusals[ordinary] = Reason.NOT_ADMINISTRATOR
    found = []
    for token, expected in refusals.items():
        async with _caller(service, token) as peer:
            for method in METHODS:
                try:
                    await _call(peer, method.name)
                    found.append((method.name, token, "let in"))
                except ServiceError as error:
                    if error.reason != expected:
                        found.append((method.name, token, str(error.reason)))
    assert found == []


async def test_another_administrator(service: RunningLocks) -> None:
    """Any administrator's token will do, until it is revoked."""
    await service.add_user("root2", administrator=True)
    token = await service.add_token("root2")
    await _list_users(service, token)
    request = admin.RevokeTokenRequest(user_name="root2", name="laptop")
    await service.admin_peer.call(service.admin.RevokeToken, request)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _list_users(service, token)


async def test_the_secret_between_services(postgres: TestPostgres, tmp_path: Path) -> None:
    """The services' secret opens LockService and AccessService, an administrator's token AdminService: none both."""
    secret = SecretStr("between-the-services")
    authenticate = access.AuthenticateRequest(token="tp_x")
    url = await postgres.create_database()
    async with running_locks(url, tmp_path, service_secret=secret) as service:
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await service.peer.call(service.access.Authenticate, authenticate)
        await _list_users(service, service.admin_token)
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await _list_users(service, secret.get_secret_value())
        stub = AccessServiceStub(service.admin_peer.channel)
        with pytest.raises(Unauthenticated) as caught:
            await service.admin_peer.call(stub.Authenticate, authenticate)
        assert "secret between services" in caught.value.message
