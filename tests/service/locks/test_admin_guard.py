"""Access control of AdminService."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub
from towpath.locks.v1.push_service_pb2 import CheckPushRequest

from services.common.errors import NotFound, Reason, ResourceExhausted, ServiceError, Unauthenticated
from services.common.rpc.client import ServiceClient
from services.common.rpc.options import SSH_METADATA_KEY
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused, running_locks
from tests.support.ports import free_ports
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS

METHODS = admin.DESCRIPTOR.services_by_name["AdminService"].methods


async def _call(peer: ServiceClient, method: str) -> None:
    """Call a method with an empty request, by its name alone."""
    call = peer.channel.unary_unary(
        f"/towpath.access.v1.AdminService/{method}",
        request_serializer=admin.ListUsersRequest.SerializeToString,
        response_deserializer=admin.ListUsersResponse.FromString,
    )
    await peer.call(call, admin.ListUsersRequest())


async def _list_users(service: RunningLocks, token: str) -> None:
    await service.peer.call(service.admin.ListUsers, admin.ListUsersRequest(), secret=SecretStr(token))


async def test_only_administrators_get_in(service: RunningLocks, team: Team) -> None:
    """Every method asks for an administrator's token before it looks at anything else."""
    ordinary = await service.add_token(team.alice_name)
    refusals = dict.fromkeys((None, "", "tp_wrong", f"{service.admin_token}x"), Reason.BAD_CREDENTIALS)
    refusals[ordinary] = Reason.NOT_ADMINISTRATOR
    found = []
    for token, expected in refusals.items():
        secret = SecretStr(token) if token is not None else None
        peer = ServiceClient(service.address, deadline=STEP_SECONDS, secret=secret)
        for method in METHODS:
            try:
                await _call(peer, method.name)
                found.append((method.name, token, "let in"))
            except ServiceError as error:
                if error.reason != expected:
                    found.append((method.name, token, str(error.reason)))
        await peer.close()
    assert found == []


async def test_the_token_is_looked_at_before_the_message(service: RunningLocks) -> None:
    """Otherwise strangers fill the memory; what is too long for the service is refused after it."""
    request = admin.CreateRepositoryRequest(name="x" * (15 * 1024**2))
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await service.peer.call(service.admin.CreateRepository, request, secret=SecretStr("tp_wrong"))
    request = admin.CreateRepositoryRequest(name="x" * (2 * 1024**2))
    with pytest.raises(ResourceExhausted, match="larger than max"):
        await service.admin_peer.call(service.admin.CreateRepository, request)


async def test_guesses_are_bounded_by_address(postgres: TestPostgres, tmp_path: Path) -> None:
    """Whoever was admitted before goes on, at the same address too."""
    url, [port] = await postgres.create_database(), free_ports(1)
    listen = f"127.0.0.1:{port}"
    secret = SecretStr("between-the-services")
    async with running_locks(url, tmp_path, service_secret=secret, limits={"locks_listen": listen}) as service:
        await service.add_user("alice", administrator=True)
        new = await service.add_token("alice")

        async def outcome(token: str) -> str:
            try:
                await _list_users(service, token)
            except ServiceError as error:
                return error.reason
            return "admitted"

        guesses = Counter(await asyncio.gather(*(outcome(f"tp_{number}") for number in range(60))))
        assert guesses.keys() == {Reason.BAD_CREDENTIALS, Reason.RATE_LIMITED}
        # Ten, and those whose look-up had begun before the tenth failed.
        assert guesses[Reason.BAD_CREDENTIALS] <= 10 + 8
        assert await outcome(new) == Reason.RATE_LIMITED
        assert await outcome(service.admin_token) == "admitted"


async def test_the_secret_between_services(postgres: TestPostgres, tmp_path: Path) -> None:
    """The services' secret opens LockService and AccessService, a token AdminService and PushService: none both."""
    secret = SecretStr("between-the-services")
    authenticate = access.AuthenticateRequest(token="tp_x")
    url = await postgres.create_database()
    async with running_locks(url, tmp_path, service_secret=secret) as service:
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await service.peer.call(service.access.Authenticate, authenticate)
        await _list_users(service, service.admin_token)
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await _list_users(service, secret.get_secret_value())
        # A git server is no part of the stack: it has a token.
        await service.add_repository("studio/film")
        check_push = CheckPushRequest(repository="studio/film")
        assert not (await service.admin_peer.call(service.push.CheckPush, check_push)).blocking
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await service.peer.call(service.push.CheckPush, check_push)
        stub = AccessServiceStub(service.admin_peer.channel)
        with pytest.raises(Unauthenticated) as caught:
            await service.admin_peer.call(stub.Authenticate, authenticate)
        assert "secret between services" in caught.value.message


async def test_tokens_of_sessions_need_the_secret_of_the_ssh_service(postgres: TestPostgres, tmp_path: Path) -> None:
    """Whoever has taken over a facade signs in as nobody."""
    url = await postgres.create_database()
    shown, own = SecretStr("between-the-services"), SecretStr("of the SSH service alone")
    issuing = access.IssueSessionTokenRequest(fingerprint=f"SHA256:{'A' * 43}", repository="a/b", valid_seconds=60)
    async with running_locks(url, tmp_path, service_secret=shown, limits={"ssh_secret": own}) as service:
        with pytest.raises(Unauthenticated, match="the secret of the SSH service"):
            await service.peer.call(service.access.IssueSessionToken, issuing)
        ssh = ServiceClient(service.address, deadline=STEP_SECONDS, secret=shown, further=(SSH_METADATA_KEY, own))
        try:
            with refused(NotFound, Reason.SSH_KEY_NOT_FOUND):
                await ssh.call(AccessServiceStub(ssh.channel).IssueSessionToken, issuing)
        finally:
            await ssh.close()
