"""CheckAccess (protocol: "Authentication", rule 5)."""

import itertools

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, NotFound, PermissionDenied, Reason, Unauthenticated
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused

READ, WRITE = access.PERMISSION_READ, access.PERMISSION_WRITE
NO_REFS = [
    "refs/heads/rel/../main",
    "refs/heads/rel/1\n",
    "refs/heads/rel/a b",
    "refs/heads/rel//1",
    "refs/heads/rel/.a",
]


async def test_the_access_examples_of_the_protocol(service: RunningLocks, team: Team) -> None:
    """The access examples of the protocol hold word for word, because refs serve permission alone (trap-26).

    User A has full access; user B has read-only access plus write access on one ref (docs/protocol.md, "Batch").
    """
    repository = f"examples/{team.repository}"
    repository_id = await service.add_repository(repository)
    await service.grant(team.alice_name, repository, admin.ROLE_ADMIN)
    await service.grant(team.bob_name, repository, admin.ROLE_READ)
    await service.grant(team.bob_name, repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/bob"])
    # A download without `ref` succeeds for both.
    assert await service.check(team.alice, repository, READ) == repository_id
    assert await service.check(team.bob, repository, READ) == repository_id
    # An upload without `ref` succeeds only for A.
    assert await service.check(team.alice, repository, WRITE) == repository_id
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await service.check(team.bob, repository, WRITE)
    # An upload whose `ref.name` is the ref B may write succeeds for both.
    assert await service.check(team.alice, repository, WRITE, ref="refs/heads/bob") == repository_id
    assert await service.check(team.bob, repository, WRITE, ref="refs/heads/bob") == repository_id
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await service.check(team.bob, repository, WRITE, ref="refs/heads/main")


@pytest.mark.parametrize(
    "ref", ["", "HEAD", "main:foo", "refs/heads/Rel/1", "\0", "refs/heads/rel/1\0", "x" * 100_000, *NO_REFS]
)
async def test_other_refs_match_nothing(service: RunningLocks, team: Team, ref: str) -> None:
    """Any text is a ref: it is matched against the grants, and is no error (client-11)."""
    repository = f"patterns/{team.repository}"
    await service.add_repository(repository)
    await service.grant(team.bob_name, repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/rel/*", "refs/tags/v?"])
    for allowed in ("refs/heads/rel/1", "refs/heads/rel/1/2", "refs/tags/v1"):
        await service.check(team.bob, repository, WRITE, ref=allowed)
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await service.check(team.bob, repository, WRITE, ref=ref)
    await service.check(team.bob, repository, READ, ref=ref)


async def test_writing_on_any_ref(service: RunningLocks, team: Team) -> None:
    """A grant for some refs is enough, whatever the ref; one for reading is not."""
    repository = f"any-ref/{team.repository}"
    repository_id = await service.add_repository(repository)
    await service.grant(team.alice_name, repository, admin.ROLE_READ)
    await service.grant(team.bob_name, repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/bob"])
    for ref in ("", "refs/heads/bob", "refs/heads/main"):
        assert await service.check(team.bob, repository, access.PERMISSION_WRITE_ANY_REF, ref=ref) == repository_id
        with refused(PermissionDenied, Reason.ACCESS_DENIED):
            await service.check(team.alice, repository, access.PERMISSION_WRITE_ANY_REF, ref=ref)
    with refused(Unauthenticated, Reason.CREDENTIALS_REQUIRED):
        await service.check(0, repository, access.PERMISSION_WRITE_ANY_REF)


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


async def test_anonymous_callers(service: RunningLocks, team: Team) -> None:
    """Without credentials nothing is told of private repositories, existing or not: credentials are asked for."""
    messages = set()
    for name, permission in itertools.product((team.repository, "no/such", "\0", ""), (READ, WRITE)):
        with refused(Unauthenticated, Reason.CREDENTIALS_REQUIRED) as caught:
            await service.check(0, name, permission)
        messages.add(caught.value.message)
    assert len(messages) == 1


async def test_public_repositories(service: RunningLocks, team: Team) -> None:
    """Anybody may read one, anonymous too; writing needs credentials, and a grant."""
    name = f"public/{team.repository}"
    repository_id = await service.add_repository(name, public=True)
    for user_id in (0, team.alice, 2**62):
        assert await service.check(user_id, name, READ) == repository_id
    with refused(Unauthenticated, Reason.CREDENTIALS_REQUIRED):
        await service.check(0, name, WRITE)
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await service.check(team.alice, name, WRITE)


async def test_roles(service: RunningLocks, team: Team) -> None:
    """Read only reads; write and admin read and write."""
    for role, may_write in ((admin.ROLE_READ, False), (admin.ROLE_WRITE, True), (admin.ROLE_ADMIN, True)):
        name = f"roles/{role}/{team.repository}"
        repository_id = await service.add_repository(name)
        await service.grant(team.bob_name, name, role)
        assert await service.check(team.bob, name, READ) == repository_id
        if may_write:
            assert await service.check(team.bob, name, WRITE, ref="refs/heads/x") == repository_id
        else:
            with refused(PermissionDenied, Reason.ACCESS_DENIED):
                await service.check(team.bob, name, WRITE)


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


async def test_names_are_case_sensitive(service: RunningLocks, team: Team) -> None:
    """Another case is no repository: whoever asks for it has misspelt the name."""
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(team.alice, team.repository.upper(), READ)


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
