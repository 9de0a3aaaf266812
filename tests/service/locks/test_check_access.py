"""CheckAccess beyond the rules of tests/unit/locks/access/test_policy.py and tests/protocol/test_ref_access.py."""

import itertools

import pytest
from towpath.access.v1 import access_service_pb2 as access

from services.common.errors import InvalidArgument, NotFound, Reason, Unauthenticated
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import authenticate, check
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
    shown = await authenticate(service, await service.add_token(team.alice_name))
    assert await check(service, shown, team.repository) == team.repository_id
    await service.revoke_token(team.alice_name)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await check(service, shown, team.repository)


@pytest.mark.parametrize("permission", [access.PERMISSION_UNSPECIFIED, 5, -1])
async def test_no_permission_asked(service: RunningLocks, team: Team, permission: int) -> None:
    """A call that does not say what is wanted is refused."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "permission: "):
        await service.check(team.alice, team.repository, access.Permission.ValueType(permission))
