"""AdminService: grants, and why access is given or refused."""

from collections.abc import Iterable

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, NotFound, Reason
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks, refused


async def _list(service: RunningLocks, repository: str) -> admin.ListGrantsResponse:
    return await service.admin_peer.call(service.admin.ListGrants, admin.ListGrantsRequest(repository=repository))


def _in_short(grants: Iterable[admin.Grant]) -> list[tuple[str, "admin.Role.ValueType", list[str]]]:
    return [(grant.user_name, grant.role, list(grant.ref_patterns)) for grant in grants]


async def _explain(
    service: RunningLocks,
    user_name: str,
    repository: str,
    *,
    ref: str = "",
    permission: "access.Permission.ValueType" = access.PERMISSION_WRITE,
) -> admin.ExplainAccessResponse:
    request = admin.ExplainAccessRequest(user_name=user_name, repository=repository, ref=ref, permission=permission)
    return await service.admin_peer.call(service.admin.ExplainAccess, request)


async def test_grants(service: RunningLocks, team: Team) -> None:
    """Grants are listed by user name and role; one of the same role replaces the earlier one."""
    await service.grant(team.bob_name, team.repository, admin.ROLE_ADMIN, ref_patterns=["refs/heads/a", "refs/heads/a"])
    await service.grant(team.bob_name, team.repository, admin.ROLE_READ)
    await service.grant(team.bob_name, team.repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/rel/*"])
    response = await _list(service, team.repository)
    assert response.repository.id == team.repository_id
    assert _in_short(response.grants) == [
        (team.alice_name, admin.ROLE_WRITE, []),
        (team.bob_name, admin.ROLE_READ, []),
        (team.bob_name, admin.ROLE_WRITE, ["refs/heads/rel/*"]),
        (team.bob_name, admin.ROLE_ADMIN, ["refs/heads/a"]),
    ]
    assert all(grant.repository == team.repository and grant.HasField("created_at") for grant in response.grants)


async def test_a_grant_says_what_it_replaces(service: RunningLocks, team: Team) -> None:
    """A second one of the same role is no addition to the first; who gives it is told what is gone."""
    await service.add_repository("replaced/grants")

    async def replaced(role: "admin.Role.ValueType", *refs: str) -> list[str] | None:
        request = admin.GrantAccessRequest(
            user_name=team.bob_name, repository="replaced/grants", role=role, ref_patterns=refs
        )
        response = await service.admin_peer.call(service.admin.GrantAccess, request)
        return list(response.replaced.ref_patterns) if response.HasField("replaced") else None

    assert await replaced(admin.ROLE_WRITE, "refs/heads/a") is None
    assert await replaced(admin.ROLE_ADMIN) is None
    assert await replaced(admin.ROLE_WRITE, "refs/heads/b") == ["refs/heads/a"]
    assert await replaced(admin.ROLE_WRITE) == ["refs/heads/b"]
    assert await replaced(admin.ROLE_WRITE) == []


async def test_revocation(service: RunningLocks, team: Team) -> None:
    """All of a user's grants in a repository end together, and those elsewhere stay."""
    await service.grant(team.bob_name, team.repository, admin.ROLE_READ)
    elsewhere = f"elsewhere/{team.repository}"
    await service.add_repository(elsewhere)
    await service.grant(team.bob_name, elsewhere, admin.ROLE_READ)
    request = admin.RevokeAccessRequest(user_name=team.bob_name, repository=team.repository)
    response = await service.admin_peer.call(service.admin.RevokeAccess, request)
    assert {grant.role for grant in response.grants} == {admin.ROLE_READ, admin.ROLE_WRITE}
    assert _in_short((await _list(service, elsewhere)).grants) == [(team.bob_name, admin.ROLE_READ, [])]
    with refused(NotFound, Reason.GRANT_NOT_FOUND):
        await service.admin_peer.call(service.admin.RevokeAccess, request)


async def test_malformed_grants(service: RunningLocks, team: Team) -> None:
    """No role, an unknown role, patterns for reading, and malformed patterns are refused, each naming its field."""
    for role, patterns, field in (
        (admin.ROLE_UNSPECIFIED, [], "role"),
        (9, [], "role"),
        (admin.ROLE_READ, ["refs/heads/a"], "ref_patterns"),
        (admin.ROLE_WRITE, [""], "ref_patterns"),
        (admin.ROLE_WRITE, ["a\0"], "ref_patterns"),
        (admin.ROLE_WRITE, ["main"], "ref_patterns"),
        (admin.ROLE_ADMIN, ["refs/heads/[ab"], "ref_patterns"),
    ):
        with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
            await service.grant(team.bob_name, team.repository, admin.Role.ValueType(role), ref_patterns=patterns)
        assert caught.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize("call", ["GrantAccess", "RevokeAccess", "ListGrants", "ExplainAccess"])
async def test_unknown_parties(service: RunningLocks, team: Team, call: str) -> None:
    """A call that names a user or a repository that does not exist is not found."""

    async def attempt(user_name: str, repository: str) -> None:
        if call == "GrantAccess":
            await service.grant(user_name, repository, admin.ROLE_READ)
        elif call == "RevokeAccess":
            request = admin.RevokeAccessRequest(user_name=user_name, repository=repository)
            await service.admin_peer.call(service.admin.RevokeAccess, request)
        elif call == "ListGrants":
            await _list(service, repository)
        else:
            await _explain(service, user_name, repository)

    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await attempt(team.bob_name, "no/such")
    if call != "ListGrants":
        with refused(NotFound, Reason.USER_NOT_FOUND):
            await attempt("nobody", team.repository)


async def test_explanations(service: RunningLocks, team: Team) -> None:
    """An administrator can learn why a permission was refused, and which grant gave it (trap-37)."""
    repository = f"explained/{team.repository}"
    await service.add_repository(repository)
    await service.grant(team.bob_name, repository, admin.ROLE_READ)
    await service.grant(team.bob_name, repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/bob"])
    answer = await _explain(service, team.bob_name, repository, ref="refs/heads/bob")
    assert answer.allowed
    assert _in_short([answer.grant]) == [(team.bob_name, admin.ROLE_WRITE, ["refs/heads/bob"])]
    answer = await _explain(service, team.bob_name, repository, permission=access.PERMISSION_READ)
    assert (answer.allowed, answer.grant.role) == (True, admin.ROLE_READ)
    for ref in ("", "refs/heads/main", "\0"):
        answer = await _explain(service, team.bob_name, repository, ref=ref)
        assert not answer.allowed
        assert not answer.HasField("grant")
        assert "refs/heads/bob" in answer.explanation
    answer = await _explain(service, team.alice_name, repository, permission=access.PERMISSION_READ)
    assert not answer.allowed
    answer = await _explain(service, "", repository, permission=access.PERMISSION_READ)
    assert (answer.allowed, "anonymous" in answer.explanation) == (False, True)


async def test_a_public_repository_explained(service: RunningLocks, team: Team) -> None:
    """No grant decides who may read it."""
    repository = f"open/{team.repository}"
    await service.add_repository(repository, public=True)
    for user_name in ("", team.alice_name):
        answer = await _explain(service, user_name, repository, permission=access.PERMISSION_READ)
        assert answer.allowed
        assert not answer.HasField("grant")
        assert not (await _explain(service, user_name, repository)).allowed


async def test_no_permission_asked(service: RunningLocks, team: Team) -> None:
    """A call that does not say what is wanted is refused."""
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await _explain(service, "", team.repository, permission=access.PERMISSION_UNSPECIFIED)
