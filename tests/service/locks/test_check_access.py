"""CheckAccess beyond the rules of tests/unit/locks/access/test_policy.py and tests/protocol/test_ref_access.py."""

import itertools

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, NotFound, Reason, Unauthenticated
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused

READ, WRITE = access.PERMISSION_READ, access.PERMISSION_WRITE


async def test_strangers(service: RunningLocks, team: Team) -> None:
    """A private repository is for a user without a grant, or one who does not exist, as if it were not there."""
    stranger = await service.add_user(f"stranger-{team.alice}")
    messages = set()
    for user_id, name in itertools.product((stranger, 2**62, -1), (team.repository, "no/such", "no such", "\0", "")):
        for permission in (READ, WRITE):
            with refused(NotFound, Reason.REPOSITORY_NOT_FOUND) as caught:
                await service.check(user_id, name, permission)
            messages.add(caught.value.message)
    assert len(messages) == 1


async def test_the_access_ends_with_the_token_that_was_shown(service: RunningLocks, team: Team) -> None:
    """A caller that asks some time after the token was shown must learn whether the token is still good."""
    user = f"shower-{team.alice}"
    user_id = await service.add_user(user)
    await service.grant(user, team.repository, admin.ROLE_WRITE)
    creating = admin.CreateTokenRequest(user_name=user, name="laptop")
    token = await service.admin_peer.call(service.admin.CreateToken, creating)
    authenticate = access.AuthenticateRequest(token=token.secret)
    shown = await service.peer.call(service.access.Authenticate, authenticate)
    request = access.CheckAccessRequest(
        user_id=user_id, repository=team.repository, permission=WRITE, token_id=shown.token_id
    )
    assert (await service.peer.call(service.access.CheckAccess, request)).keep_seconds > 0
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        another = access.CheckAccessRequest(
            user_id=team.bob, repository=team.repository, permission=WRITE, token_id=shown.token_id
        )
        await service.peer.call(service.access.CheckAccess, another)
    await service.admin_peer.call(service.admin.RevokeToken, admin.RevokeTokenRequest(user_name=user, name="laptop"))
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await service.peer.call(service.access.CheckAccess, request)


@pytest.mark.parametrize("permission", [access.PERMISSION_UNSPECIFIED, 5, -1])
async def test_no_permission_asked(service: RunningLocks, team: Team, permission: int) -> None:
    """A call that does not say what is wanted is refused."""
    with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
        await service.check(team.alice, team.repository, access.Permission.ValueType(permission))
    assert caught.value.message.startswith("permission: ")


async def test_access_ends_at_once(service: RunningLocks, team: Team) -> None:
    """A revoked grant counts no more from the next call on."""
    await service.check(team.bob, team.repository, WRITE)
    request = admin.RevokeAccessRequest(user_name=team.bob_name, repository=team.repository)
    await service.admin_peer.call(service.admin.RevokeAccess, request)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(team.bob, team.repository, READ)
