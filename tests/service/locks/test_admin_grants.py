"""AdminService: grants, and why access is given or refused."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, NotFound, Reason
from tests.service.locks.conftest import Team, explain
from tests.support.locks import RunningLocks, refused


def _in_short(grants: Iterable[admin.Grant]) -> list[tuple[str, "admin.Role.ValueType", list[str]]]:
    return [(grant.user_name, grant.role, list(grant.ref_patterns)) for grant in grants]


async def test_grants(service: RunningLocks, team: Team) -> None:
    """Grants are listed by user name and role; one of the same role replaces the earlier one."""
    await service.grant(team.bob_name, team.repository, admin.ROLE_ADMIN, ref_patterns=["refs/heads/a", "refs/heads/a"])
    await service.grant(team.bob_name, team.repository, admin.ROLE_READ)
    await service.grant(team.bob_name, team.repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/rel/*"])
    listing = admin.ListGrantsRequest(repository=team.repository)
    response = await service.admin_peer.call(service.admin.ListGrants, listing)
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
        response = await service.grant(team.bob_name, "replaced/grants", role, ref_patterns=refs)
        return list(response.replaced.ref_patterns) if response.HasField("replaced") else None

    assert await replaced(admin.ROLE_WRITE, "refs/heads/a") is None
    assert await replaced(admin.ROLE_ADMIN) is None
    assert await replaced(admin.ROLE_WRITE, "refs/heads/b") == ["refs/heads/a"]
    assert await replaced(admin.ROLE_WRITE) == ["refs/heads/b"]
    assert await replaced(admin.ROLE_WRITE) == []


async def test_revocation(service: RunningLocks, team: Team) -> None:
    """All of a user's grants in a repository end together and at once, and those elsewhere stay."""
    await service.grant(team.bob_name, team.repository, admin.ROLE_READ)
    elsewhere = f"elsewhere/{team.repository}"
    await service.add_repository(elsewhere)
    await service.grant(team.bob_name, elsewhere, admin.ROLE_READ)
    revoked = await service.revoke(team.bob_name, team.repository)
    assert {grant.role for grant in revoked} == {admin.ROLE_READ, admin.ROLE_WRITE}
    assert _in_short(await service.grants(elsewhere)) == [(team.bob_name, admin.ROLE_READ, [])]
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(team.bob, team.repository, access.PERMISSION_READ)
    with refused(NotFound, Reason.GRANT_NOT_FOUND):
        await service.revoke(team.bob_name, team.repository)


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
        with refused(InvalidArgument, Reason.INVALID_FIELD, f"{field}: "):
            await service.grant(team.bob_name, team.repository, admin.Role.ValueType(role), ref_patterns=patterns)


async def test_unknown_parties(service: RunningLocks, team: Team) -> None:
    """A call that names a user or a repository that does not exist is not found."""
    calls: Sequence[Callable[[str, str], Awaitable[object]]] = (
        partial(service.grant, role=admin.ROLE_READ),
        service.revoke,
        partial(explain, service),
    )
    for call in calls:
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await call(team.bob_name, "no/such")
        with refused(NotFound, Reason.USER_NOT_FOUND):
            await call("nobody", team.repository)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.grants("no/such")


async def test_explanations(service: RunningLocks, team: Team) -> None:
    """An administrator can learn why a permission was refused, and which grant gave it (trap-37)."""
    repository = f"explained/{team.repository}"
    await service.add_repository(repository)
    await service.grant(team.bob_name, repository, admin.ROLE_READ)
    await service.grant(team.bob_name, repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/bob"])
    answer = await explain(service, team.bob_name, repository, ref="refs/heads/bob")
    assert answer.allowed
    assert _in_short([answer.grant]) == [(team.bob_name, admin.ROLE_WRITE, ["refs/heads/bob"])]
    answer = await explain(service, team.bob_name, repository, permission=access.PERMISSION_READ)
    assert (answer.allowed, answer.grant.role) == (True, admin.ROLE_READ)
    for ref in ("", "refs/heads/main", "\0"):
        answer = await explain(service, team.bob_name, repository, ref=ref)
        assert not answer.allowed
        assert not answer.HasField("grant")
        assert "refs/heads/bob" in answer.explanation
    answer = await explain(service, team.alice_name, repository, permission=access.PERMISSION_READ)
    assert not answer.allowed
    answer = await explain(service, "", repository, permission=access.PERMISSION_READ)
    assert (answer.allowed, "anonymous" in answer.explanation) == (False, True)


async def test_a_public_repository_explained(service: RunningLocks, team: Team) -> None:
    """No grant decides who may read it."""
    repository = f"open/{team.repository}"
    await service.add_repository(repository, public=True)
    for user_name in ("", team.alice_name):
        answer = await explain(service, user_name, repository, permission=access.PERMISSION_READ)
        assert answer.allowed
        assert not answer.HasField("grant")
        assert not (await explain(service, user_name, repository)).allowed


async def test_no_permission_asked(service: RunningLocks, team: Team) -> None:
    """A call that does not say what is wanted is refused."""
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await explain(service, "", team.repository, permission=access.PERMISSION_UNSPECIFIED)
