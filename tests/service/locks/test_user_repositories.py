"""The repositories that a user may read, by the same grants as a single access."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, Reason, ServiceError, Unauthenticated
from services.locks.access.policy import Permission, Role
from services.locks.access.readable import list_readable
from services.locks.api.messages import FORGE_KIND_NUMBERS
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import add_issuer, allow, authenticate
from tests.support.forges import StubForge, running_forge
from tests.support.issuer import Issuer
from tests.support.locks import RunningLocks, refused

READ, ANY_REF = access.PERMISSION_READ, access.PERMISSION_WRITE_ANY_REF
WRITE, ADMIN = access.PERMISSION_WRITE, access.PERMISSION_ADMIN
MANY = 10_000


@pytest.fixture
def forge() -> Iterator[StubForge]:
    """A stub of a forge."""
    with running_forge("gitea") as running:
        yield running


async def _page(
    service: RunningLocks, user_id: int, *, token_id: int = 0, cursor: str = "", limit: int = 0
) -> access.ListUserRepositoriesResponse:
    request = access.ListUserRepositoriesRequest(user_id=user_id, token_id=token_id, cursor=cursor, limit=limit)
    return await service.peer.call(service.access.ListUserRepositories, request)


async def _listed(service: RunningLocks, user_id: int, *, token_id: int = 0) -> dict[str, int]:
    """Return all that a user may read, with what the user may do there, and the public ones of other tests left out."""
    found: dict[str, int] = {}
    cursor = ""
    while True:
        page = await _page(service, user_id, token_id=token_id, cursor=cursor)
        found |= {repository.name: repository.permission for repository in page.repositories}
        cursor = page.next_cursor
        if not cursor:
            return {name: permission for name, permission in found.items() if not name.startswith("public/")}


async def test_what_a_user_may_do_is_what_a_check_allows(service: RunningLocks, team: Team) -> None:
    """Every permission up to the listed one is allowed without a ref, and the next one is not."""
    grants: dict[str, list[tuple[admin.Role.ValueType, tuple[str, ...]]]] = {
        "read": [(admin.ROLE_READ, ())],
        "some-refs": [(admin.ROLE_WRITE, ("refs/heads/main",))],
        "every-ref": [(admin.ROLE_READ, ()), (admin.ROLE_WRITE, ()), (admin.ROLE_ADMIN, ("refs/heads/main",))],
        "some-refs-admin": [(admin.ROLE_ADMIN, ("refs/heads/main",))],
        "admin": [(admin.ROLE_WRITE, ("refs/heads/main",)), (admin.ROLE_ADMIN, ())],
    }
    user_id = await service.add_user(f"roles-{team.repository_id}")
    expected = dict(zip(grants, (READ, ANY_REF, WRITE, ANY_REF, ADMIN), strict=True))
    for name, given in grants.items():
        await service.add_repository(f"roles-{team.repository_id}/{name}")
        for role, patterns in given:
            await service.grant(
                f"roles-{team.repository_id}", f"roles-{team.repository_id}/{name}", role, ref_patterns=patterns
            )
    listed = await _listed(service, user_id)
    assert listed == {f"roles-{team.repository_id}/{name}": permission for name, permission in sorted(expected.items())}
    rising: list[int] = [READ, ANY_REF, WRITE, ADMIN]
    for name, most in listed.items():
        for permission in (READ, ANY_REF, WRITE, ADMIN):
            try:
                await service.check(user_id, name, permission)
                is_allowed = True
            except ServiceError:
                is_allowed = False
            assert is_allowed == (rising.index(permission) <= rising.index(most)), (name, permission)


async def test_public_ones_are_everybodys(service: RunningLocks, team: Team) -> None:
    """An anonymous caller sees them alone, and an administrator has no more rights than others."""
    public = f"open/{team.repository_id}"
    await service.add_repository(public, public=True)
    assert await _listed(service, 0) == {public: READ}
    root = await service.add_user(f"root-{team.repository_id}", administrator=True)
    assert await _listed(service, root) == {public: READ}
    assert await _listed(service, team.alice) == {public: READ, team.repository: WRITE}
    await service.grant(team.alice_name, public, admin.ROLE_ADMIN)
    assert (await _listed(service, team.alice))[public] == ADMIN
    await service.update_repository(public, public=False)
    assert await _listed(service, 0) == {}


async def test_archived_ones_are_listed_and_those_in_the_bin_are_not(service: RunningLocks, team: Team) -> None:
    """The permission is that of the grants: an archived repository is archived for everybody."""
    await service.update_repository(team.repository, archived=True)
    [repository] = (await _page(service, team.alice)).repositories
    assert (repository.id, repository.name) == (team.repository_id, team.repository)
    assert (repository.public, repository.permission) == (False, WRITE)
    assert repository.archived_at.seconds > 0
    await service.update_repository(team.repository, archived=False)
    assert not (await _page(service, team.alice)).repositories[0].HasField("archived_at")
    await service.update_repository(team.repository, public=True)
    await service.delete_repository(team.repository, force=True)
    for user_id in (0, team.alice):
        assert await _listed(service, user_id) == {}
    restore = admin.RestoreRepositoryRequest(name=team.repository)
    await service.admin_peer.call(service.admin.RestoreRepository, restore)
    await service.update_repository(team.repository, public=False)
    assert await _listed(service, team.alice) == {team.repository: WRITE}


async def test_pages_follow_the_name(service: RunningLocks, team: Team) -> None:
    """A repository that is made or goes between two pages shifts none."""
    prefix = f"pages-{team.repository_id}"
    names = [f"{prefix}/{number}" for number in range(5)]
    user_id = await service.add_user(prefix)
    for name in names[:4]:
        await service.add_repository(name)
        await service.grant(prefix, name, admin.ROLE_READ)
    first = await _page(service, user_id, limit=2)
    assert [repository.name for repository in first.repositories] == names[:2]
    assert first.next_cursor == names[1]
    await service.add_repository(names[4])
    await service.grant(prefix, names[4], admin.ROLE_READ)
    await service.delete_repository(names[1], force=True)
    second = await _page(service, user_id, cursor=first.next_cursor, limit=3)
    assert ([repository.name for repository in second.repositories], second.next_cursor) == (names[2:], "")
    for cursor in ("/", "a b", "x" * 256):
        with refused(InvalidArgument, Reason.INVALID_CURSOR):
            await _page(service, user_id, cursor=cursor)


async def test_one_repository_by_its_id(service: RunningLocks, team: Team) -> None:
    """It is listed as among all, and one that the user may not read is not."""
    hidden, public = f"one/{team.repository_id}/hidden", f"public/{team.repository_id}"
    hidden_id = await service.add_repository(hidden)
    public_id = await service.add_repository(public, public=True)

    async def only(user_id: int, repository_id: int) -> list[tuple[int, str, int]]:
        request = access.ListUserRepositoriesRequest(user_id=user_id, repository_id=repository_id)
        page = await service.peer.call(service.access.ListUserRepositories, request)
        assert not page.next_cursor
        return [(one.id, one.name, one.permission) for one in page.repositories]

    assert await only(team.alice, team.repository_id) == [(team.repository_id, team.repository, WRITE)]
    assert await only(team.alice, public_id) == [(public_id, public, READ)]
    assert await only(0, public_id) == [(public_id, public, READ)]
    for user_id, repository_id in ((0, team.repository_id), (team.alice, hidden_id), (team.alice, 2**62)):
        assert await only(user_id, repository_id) == []
    await service.grant(team.alice_name, hidden, admin.ROLE_ADMIN)
    assert await only(team.alice, hidden_id) == [(hidden_id, hidden, ADMIN)]
    await service.update_repository(public, public=False)


async def test_groups_count(service: RunningLocks, team: Team) -> None:
    """The higher of two roles does, whichever gives it, and a role ends with the membership."""
    group, other = f"group-{team.repository_id}", f"other/{team.repository_id}"
    await service.add_repository(other)
    await service.add_group(group, team.alice_name)
    for repository, role in ((team.repository, admin.ROLE_ADMIN), (other, admin.ROLE_READ)):
        await service.grant("", repository, role, group_name=group)
    assert await _listed(service, team.alice) == {other: READ, team.repository: ADMIN}
    removal = admin.RemoveGroupMembersRequest(group_name=group, user_names=[team.alice_name])
    await service.admin_peer.call(service.admin.RemoveGroupMembers, removal)
    assert await _listed(service, team.alice) == {team.repository: WRITE}


async def test_a_token_decides_beside_its_user(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """A grant of an issuer counts with its token alone, and one that has ended lists nothing."""
    name = f"ci-{team.repository_id}"
    await add_issuer(service, issuer, name)
    await allow(service, name, team.repository, {"sub": f"job-{team.repository_id}"})
    token = issuer.token(sub=f"job-{team.repository_id}", ref="refs/heads/main")
    known = await authenticate(service, token)
    assert await _listed(service, known.user_id, token_id=known.token_id) == {team.repository: ANY_REF}
    assert await _listed(service, known.user_id) == {}
    for user_id in (team.alice, 0):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await _page(service, user_id, token_id=known.token_id)
    request = admin.DeleteIssuerRequest(name=name)
    await service.admin_peer.call(service.admin.DeleteIssuer, request)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _page(service, known.user_id, token_id=known.token_id)


async def test_a_forge_s_token_lists_what_the_forge_has_told(
    service: RunningLocks, forge: StubForge, team: Team
) -> None:
    """No other repository is listed, as an access there would have to ask the forge, or is refused."""
    await service.admin_peer.call(
        service.admin.CreateForge,
        admin.CreateForgeRequest(
            name=f"forge-{forge.number}",
            kind=FORGE_KIND_NUMBERS[forge.kind],
            api_url=forge.api_url,
            repositories=["acme/*"],
        ),
    )
    told, untold = f"told/{team.repository_id}", f"untold/{team.repository_id}"
    for repository, tied in ((told, "acme/film"), (untold, "acme/other")):
        request = admin.CreateRepositoryRequest(
            name=repository, forge=f"forge-{forge.number}", forge_repository=tied, public=repository == untold
        )
        await service.admin_peer.call(service.admin.CreateRepository, request)
    secret = f"forge-token-{forge.number}"
    forge.add(f"ann-{forge.number}", secret, "write", "acme/film")
    shown = access.AuthenticateRequest(token=secret, repository=told)
    known = await service.peer.call(service.access.Authenticate, shown)
    assert not known.administrator
    await service.grant(known.user_name, team.repository, admin.ROLE_ADMIN, origin=f"forge forge-{forge.number}")
    assert await _listed(service, known.user_id, token_id=known.token_id) == {told: WRITE}
    await service.execute("UPDATE token_roles SET valid_until = now()")
    assert await _listed(service, known.user_id, token_id=known.token_id) == {}
    await service.update_repository(untold, public=False)


async def _rows_read(connection: AsyncConnection) -> int:
    read = text("SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables")
    return int(await connection.scalar(read) or 0)


@pytest.mark.parametrize("grants", [0, 1, MANY])
async def test_a_page_of_many_reads_each_row_at_most_once(service: RunningLocks, team: Team, grants: int) -> None:
    """A user with one grant, and one with a grant everywhere, have their page from one look at each table."""
    fill = (
        # Without the triggers of the audit log, which would take their time.
        "SET LOCAL towpath.restoring = 'true'",
        f"INSERT INTO repositories (name, public, forced_unlock) SELECT 'public/many-' || n, false, 'writers'"  # noqa: S608 - our own numbers
        f" FROM generate_series(1, {MANY}) AS n",
        "INSERT INTO grants (user_id, repository_id, role, ref_patterns) SELECT :user, id, 'write', '{}'"
        " FROM repositories WHERE name LIKE 'public/many-%' ORDER BY name DESC LIMIT :grants",
        "ANALYZE repositories",
        "ANALYZE grants",
    )
    async with service.open_database() as database, database.engine.connect() as connection:
        for statement in fill:
            parameters = {"user": team.bob, "grants": grants} if ":user" in statement else {}
            await connection.execute(text(statement), parameters)
        before = await _rows_read(connection)
        found = await list_readable(connection, user_id=team.bob, token_id=0, after="", limit=101)
        assert sum(repository.name.startswith("public/many-") for repository in found) == min(grants, 101)
        assert await _rows_read(connection) - before < MANY + grants + 1_000
        # One alone costs as much as there are grants in it, however many the user has.
        before = await _rows_read(connection)
        [one] = await list_readable(
            connection, user_id=team.bob, token_id=0, after="", limit=101, repository_id=team.repository_id
        )
        assert one.id == team.repository_id
        assert await _rows_read(connection) - before < 100
        await connection.rollback()


async def test_many_groups_are_one_grant_of_each_role(service: RunningLocks, team: Team) -> None:
    """A page of a user in many groups takes as long as that of another; of each role, the widest grant counts."""
    statement = """
        WITH made AS (
            INSERT INTO groups (name) SELECT 'many-' || CAST(:repository AS bigint) || '-' || n
            FROM generate_series(1, 40) AS n RETURNING id
        ), members AS (INSERT INTO group_members (group_id, user_id) SELECT id, :user FROM made)
        INSERT INTO group_grants (group_id, repository_id, role, ref_patterns)
        SELECT id, :repository, CASE WHEN id % 2 = 0 THEN 'write' ELSE 'admin' END, ARRAY['refs/heads/' || id] FROM made
    """
    await service.execute(statement, user=team.alice, repository=team.repository_id)
    async with service.open_database() as database, database.engine.connect() as connection:
        [found] = await list_readable(
            connection, user_id=team.alice, token_id=0, after="", limit=101, repository_id=team.repository_id
        )
    assert sorted((grant.role, bool(grant.ref_patterns)) for grant in found.grants) == [
        (Role.ADMIN, True),
        (Role.WRITE, False),
    ]
    assert found.permission is Permission.WRITE
