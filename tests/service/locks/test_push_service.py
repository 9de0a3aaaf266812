"""PushService: the locks in the way of a push, and their release by it."""

from collections.abc import Awaitable, Iterable, Sequence

import pytest
from google.protobuf.message import Message
from pydantic import SecretStr
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import push_service_pb2 as pb

from services.common.errors import InvalidArgument, NotFound, PermissionDenied, Reason, Unauthenticated
from services.locks.access.identities import user_of
from services.locks.models import Forge
from tests.service.locks.conftest import Team, fill
from tests.support.locks import RunningLocks, refused

MAIN = "refs/heads/main"
MAX_PATHS = 10_000
MAX_REFS = 1_000
MAX_BLOCKING = 1_000


async def check(
    service: RunningLocks,
    team: Team,
    user_name: str,
    paths: Sequence[str],
    *,
    ref: str = MAIN,
    account_id: str = "",
    origin: str | None = None,
) -> pb.CheckPushResponse:
    """Check a push as an administrator."""
    request = pb.CheckPushRequest(
        repository=team.repository, user_name=user_name, account_id=account_id, origin=origin, ref=ref, paths=paths
    )
    return await service.admin_peer.call(service.push.CheckPush, request)


async def release(
    service: RunningLocks, team: Team, user_name: str, paths: Sequence[str], *, ref: str = MAIN, reason: str = ""
) -> pb.ReleasePushedResponse:
    """Tell of a push as an administrator."""
    request = pb.ReleasePushedRequest(
        repository=team.repository, user_name=user_name, ref=ref, paths=paths, reason=reason
    )
    return await service.admin_peer.call(service.push.ReleasePushed, request)


async def release_on(service: RunningLocks, team: Team, *patterns: str) -> Sequence[str]:
    """Set the refs to which a push releases locks, and return them."""
    changed = await service.update_repository(team.repository, release_on=admin.RefPatterns(patterns=patterns))
    return list(changed.release_on)


async def standing(service: RunningLocks, team: Team) -> set[str]:
    """Return the locked paths."""
    return {each.path for each in (await service.list(team.repository_id)).locks}


async def test_a_push_meets_the_locks_in_the_space_of_its_ref(service: RunningLocks, team: Team) -> None:
    """A lock on a release branch neither blocks a push to main, nor is released by one."""
    rules = admin.LockSpaces(rules=["refs/heads/release/*=per-ref"])
    await service.update_repository(team.repository, lock_spaces=rules)
    await release_on(service, team, "refs/heads/*")
    await service.create(team.repository_id, team.alice, "a", ref="refs/heads/release/1")
    for ref, count in ((MAIN, 0), ("refs/heads/release/2", 0), ("refs/heads/release/1", 1)):
        assert len((await check(service, team, team.bob_name, ["a"], ref=ref)).blocking) == count
        if not count:
            assert not (await release(service, team, team.alice_name, ["a"], ref=ref)).locks
    released = await release(service, team, team.alice_name, ["a"], ref="refs/heads/release/1")
    assert [lock.path for lock in released.locks] == ["a"]


async def test_locks_of_others_are_in_the_way(service: RunningLocks, team: Team) -> None:
    """The answer has the locks by path, and neither those of other paths nor the pusher's own."""
    for path in ("b", "a", "other"):
        await service.create(team.repository_id, team.alice, path)
    await service.create(team.repository_id, team.bob, "c")
    answer = await check(service, team, team.bob_name, ["c", "b", "a", "unlocked"])
    assert [(each.path, each.owner_name) for each in answer.blocking] == [
        ("a", team.alice_name),
        ("b", team.alice_name),
    ]
    assert (answer.blocking_count, answer.pusher_is_known) == (2, True)
    assert not (await check(service, team, team.alice_name, ["a", "b"])).blocking
    assert not (await check(service, team, team.bob_name, [])).blocking


async def test_a_lock_elsewhere_is_not_in_the_way(service: RunningLocks, team: Team) -> None:
    """The same path of another repository is another file."""
    elsewhere = await service.add_repository(f"elsewhere/{team.repository}")
    await service.create(elsewhere, team.alice, "a")
    assert not (await check(service, team, team.bob_name, ["a"])).blocking


@pytest.mark.parametrize("name", ["", "stranger", "no user, ever\0"])
async def test_every_lock_is_in_the_way_of_an_unknown_pusher(service: RunningLocks, team: Team, name: str) -> None:
    """A push by nobody that Towpath knows is no reason to trust it."""
    await service.create(team.repository_id, team.alice, "a")
    answer = await check(service, team, name, ["a", "unlocked"])
    assert [each.path for each in answer.blocking] == ["a"]
    assert not answer.pusher_is_known
    assert not (await check(service, team, name, ["unlocked"])).blocking


@pytest.fixture
async def carol(service: RunningLocks, team: Team) -> str:
    """The login of a user of a forge of its own, with the account 7; the repository is tied to that forge."""
    forge, login = f"forge-{team.repository_id}", f"carol-{team.repository_id}"
    added = admin.CreateForgeRequest(
        name=forge, kind=admin.FORGE_KIND_GITEA, api_url="https://git.example.org/api/v1", repositories=["acme/*"]
    )
    await service.admin_peer.call(service.admin.CreateForge, added)
    await service.update_repository(team.repository, forge=forge, forge_repository="acme/film")
    user_id = await come(service, forge, "7", login)
    await service.create(team.repository_id, user_id, "carols")
    return login


async def come(service: RunningLocks, forge: str, account_id: str, login: str) -> int:
    """Let the user of an account come by a forge, with the login that it has there now, and return the user's id."""

    async def work(connection: AsyncConnection) -> int:
        forge_id = await connection.scalar(select(Forge.__table__.c.id).where(Forge.__table__.c.name == forge))
        return (await user_of(connection, subject=account_id, login=login, provider=forge, forge_id=forge_id)).id

    async with service.open_database() as database:
        return await database.run(work)


async def test_a_forge_names_its_own_users_alone(service: RunningLocks, team: Team, carol: str) -> None:
    """Whoever takes the name of a colleague at the forge is not the colleague, whatever origin that one has."""
    forge = f"forge-{team.repository_id}"
    await service.create(team.repository_id, team.alice, "a")
    await come(service, forge, "8", team.alice_name)
    for name, account_id in ((team.alice_name, ""), (team.alice_name, "8"), (team.alice_name, "9")):
        answer = await check(service, team, name, ["a"], account_id=account_id)
        assert ([each.path for each in answer.blocking], answer.pusher_is_known) == (["a"], account_id != "9")
    for name, account_id in ((carol, ""), (carol, "7"), ("renamed", "7")):
        assert not (await check(service, team, name, ["carols"], account_id=account_id)).blocking
    assert (await check(service, team, carol, ["carols"], account_id="8")).blocking
    # The account 8 has been renamed, and the forge has not told whether the account 7 was.
    await come(service, forge, "8", carol)
    assert (await check(service, team, carol, ["carols"])).blocking


async def test_an_operator_says_where_users_come_from(service: RunningLocks, team: Team, carol: str) -> None:
    """A git server that is no forge of ours names users that were added here, unless its hook says otherwise."""
    forge = f"forge forge-{team.repository_id}"
    await service.create(team.repository_id, team.alice, "a")
    assert not (await check(service, team, team.alice_name, ["a"], origin="")).blocking
    await service.update_repository(team.repository, forge="")
    assert not (await check(service, team, team.alice_name, ["a"], account_id="7")).blocking
    assert (await check(service, team, carol, ["carols"], account_id="7")).blocking
    assert not (await check(service, team, carol, ["carols"], origin=forge)).blocking
    for origin in ("forge other", "issuer other", "carol", "forge", "forge \0"):
        with refused(InvalidArgument, Reason.INVALID_FIELD, "origin: expected 'forge NAME'"):
            await check(service, team, carol, [], origin=origin)


async def test_a_grant_that_ignores_locks(service: RunningLocks, team: Team) -> None:
    """A bot that merges is exempt on the refs of its grant, and in that repository alone."""
    bot = f"bot-of-{team.alice_name}"
    await service.add_user(bot)
    await service.create(team.repository_id, team.alice, "a")
    await service.grant(bot, team.repository, admin.ROLE_WRITE)
    assert (await check(service, team, bot, ["a"])).blocking_count == 1
    await service.grant(bot, team.repository, admin.ROLE_WRITE, ref_patterns=[MAIN], ignores_locks=True)
    assert (await check(service, team, bot, ["a"])).blocking_count == 0
    assert (await check(service, team, bot, ["a"], ref="refs/heads/x")).blocking_count == 1
    await service.grant(bot, team.repository, admin.ROLE_WRITE, ignores_locks=True)
    assert (await check(service, team, bot, ["a"], ref="refs/heads/x")).blocking_count == 0
    assert [grant.user_name for grant in await service.grants(team.repository) if grant.ignores_locks] == [bot]
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await service.grant(bot, team.repository, admin.ROLE_READ, ignores_locks=True)
    await service.grant(bot, team.repository, admin.ROLE_WRITE)
    assert (await check(service, team, bot, ["a"])).blocking_count == 1


async def test_many_paths(service: RunningLocks, team: Team) -> None:
    """Ten thousand paths are one call; the answer counts all of the locks and has the first thousand."""
    await fill(service, team, MAX_PATHS)
    paths = [f"many/{number}" for number in range(1, MAX_PATHS + 1)]
    answer = await check(service, team, team.bob_name, paths)
    assert answer.blocking_count == MAX_PATHS
    assert [each.path for each in answer.blocking] == sorted(paths)[:MAX_BLOCKING]
    for too_much in ([*paths, "one"], ["x" * 4_096] * 257):
        with refused(InvalidArgument, Reason.INVALID_FIELD, "paths: "):
            await check(service, team, team.bob_name, too_much)


async def test_spaces_of_refs(service: RunningLocks, team: Team) -> None:
    """Each ref has its space by the first rule that it matches; without rules there is one."""

    async def spaces(refs: Sequence[str]) -> tuple[Sequence[str], bool]:
        request = pb.FindLockSpacesRequest(repository=team.repository, refs=refs)
        response = await service.admin_peer.call(service.push.FindLockSpaces, request)
        return list(response.spaces), response.has_rules

    refs = [MAIN, "refs/heads/rel/1", "refs/heads/art/2"]
    assert await spaces(refs) == (["", "", ""], False)
    rules = admin.LockSpaces(rules=["refs/heads/rel/*=per-ref", "refs/heads/art/*=art"])
    await service.update_repository(team.repository, lock_spaces=rules)
    assert await spaces(refs) == (["", "refs/heads/rel/1", "art"], True)
    with refused(InvalidArgument, Reason.INVALID_FIELD, "refs: "):
        await spaces(["x"] * (MAX_REFS + 1))


async def test_callers(service: RunningLocks, team: Team) -> None:
    """Administrators may call, and admins of the repository for every ref; nobody else."""
    request = pb.CheckPushRequest(repository=team.repository, ref=MAIN)
    push = pb.ReleasePushedRequest(repository=team.repository, ref=MAIN)

    def calls(token: str) -> Iterable[Awaitable[Message]]:
        for call, asked in ((service.push.CheckPush, request), (service.push.ReleasePushed, push)):
            yield service.peer.call(call, asked, secret=SecretStr(token))

    for token in ("", "tp_wrong"):
        for attempt in calls(token):
            with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
                await attempt
    bob = await service.add_token(team.bob_name)
    for attempt in calls(bob):
        with refused(PermissionDenied, Reason.ACCESS_DENIED):
            await attempt
    await service.grant(team.bob_name, team.repository, admin.ROLE_ADMIN, ref_patterns=[MAIN])
    for attempt in calls(bob):
        with refused(PermissionDenied, Reason.ACCESS_DENIED):
            await attempt
    await service.grant(team.bob_name, team.repository, admin.ROLE_ADMIN)
    assert not (await service.peer.call(service.push.CheckPush, request, secret=SecretStr(bob))).blocking
    hidden = f"hidden/{team.repository}"
    await service.add_repository(hidden)
    unknown = pb.CheckPushRequest(repository="no/such")
    for asked in (pb.CheckPushRequest(repository=hidden), unknown):
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await service.peer.call(service.push.CheckPush, asked, secret=SecretStr(bob))
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.admin_peer.call(service.push.CheckPush, unknown)


async def test_a_push_releases_nothing_by_default(service: RunningLocks, team: Team) -> None:
    """It is for each repository to say which refs release locks."""
    await service.create(team.repository_id, team.alice, "a")
    answer = await release(service, team, team.alice_name, ["a"])
    assert (list(answer.locks), answer.is_release_ref) == ([], False)
    assert await standing(service, team) == {"a"}


async def test_a_push_releases_the_pushers_locks(service: RunningLocks, team: Team) -> None:
    """Only on the pushed paths and the named refs; the history says why."""
    assert await release_on(service, team, MAIN, "refs/heads/rel/*") == [MAIN, "refs/heads/rel/*"]
    made = {path: await service.create(team.repository_id, team.alice, path) for path in ("a", "b", "c")}
    await service.create(team.repository_id, team.bob, "theirs")
    other = await release(service, team, team.alice_name, ["a"], ref="refs/heads/feature")
    assert (list(other.locks), other.is_release_ref) == ([], False)
    answer = await release(service, team, team.alice_name, ["theirs", "b", "a", "none"], reason="pushed to main")
    assert (list(answer.locks), answer.is_release_ref) == ([made["a"], made["b"]], True)
    assert await standing(service, team) == {"c", "theirs"}
    again = await release(service, team, team.alice_name, ["a", "b"])
    assert (list(again.locks), again.is_release_ref) == ([], True)
    assert len((await release(service, team, team.alice_name, ["c"], ref="refs/heads/rel/1")).locks) == 1
    [released] = await service.released(team.repository, path="a")
    assert (released.released_by, released.forced) == (team.alice_name, False)
    assert await release_on(service, team) == []
    await service.create(team.repository_id, team.alice, "a")
    assert not (await release(service, team, team.alice_name, ["a"])).is_release_ref


@pytest.mark.parametrize("name", ["", "stranger", "\0"])
async def test_an_unknown_pusher_releases_nothing(service: RunningLocks, team: Team, name: str) -> None:
    """Locks are never those of nobody."""
    await release_on(service, team, "refs/heads/*")
    await service.create(team.repository_id, team.alice, "a")
    answer = await release(service, team, name, ["a"])
    assert (list(answer.locks), answer.is_release_ref) == ([], True)
    assert await standing(service, team) == {"a"}


async def test_what_a_release_refuses(service: RunningLocks, team: Team) -> None:
    """The bounds are told by their fields."""
    await release_on(service, team, MAIN)
    with refused(InvalidArgument, Reason.INVALID_FIELD, "paths: "):
        await release(service, team, team.alice_name, ["a"] * (MAX_PATHS + 1))
    for reason in ("x" * 501, "\0"):
        with refused(InvalidArgument, Reason.INVALID_FIELD, "reason: "):
            await release(service, team, team.alice_name, ["a"], reason=reason)
    with refused(InvalidArgument, Reason.INVALID_FIELD, "release_on: "):
        await release_on(service, team, "main")


async def test_an_update_of_something_else_keeps_the_release_refs(service: RunningLocks, team: Team) -> None:
    """A field that a request leaves out stays."""
    await release_on(service, team, MAIN)
    changed = await service.update_repository(team.repository, public=True)
    assert (changed.public, list(changed.release_on)) == (True, [MAIN])
