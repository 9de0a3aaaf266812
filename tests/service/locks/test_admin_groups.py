"""AdminService: groups, their members and their grants."""

import asyncio

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import push_service_pb2 as push

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, PermissionDenied, Reason
from tests.service.locks.conftest import Team, explain
from tests.support.locks import RunningLocks, refused

ROUNDS = 10


@pytest.fixture
def artists(team: Team) -> str:
    """The name of a group that no other test has."""
    return f"artists-{team.repository_id}"


async def members_of(service: RunningLocks, group: str, *, limit: int = 0) -> list[str]:
    """Return the names of all members, page by page."""
    request = admin.ListGroupMembersRequest(group_name=group, limit=limit)
    names: list[str] = []
    while True:
        page = await service.admin_peer.call(service.admin.ListGroupMembers, request)
        names += [user.name for user in page.users]
        if not page.next_cursor:
            return names
        request.cursor = page.next_cursor


async def test_a_group_from_beginning_to_end(service: RunningLocks, team: Team, artists: str) -> None:
    """A group is listed with the number of its members, and its removal takes its grants and no user."""
    group = await service.add_group(artists, team.alice_name, team.bob_name, team.alice_name)
    assert (group.name, group.member_count) == (artists, 2)
    assert await members_of(service, artists, limit=1) == [team.alice_name, team.bob_name]
    listed = (await service.admin_peer.call(service.admin.ListGroups, admin.ListGroupsRequest())).groups
    assert group in listed
    assert [each.name for each in listed] == sorted(each.name for each in listed)
    await service.grant("", team.repository, admin.ROLE_ADMIN, group_name=artists)
    request = admin.DeleteGroupRequest(name=artists)
    assert (await service.admin_peer.call(service.admin.DeleteGroup, request)).group == group
    with refused(NotFound, Reason.GROUP_NOT_FOUND):
        await service.admin_peer.call(service.admin.DeleteGroup, request)
    assert {grant.user_name for grant in await service.grants(team.repository)} == {team.alice_name, team.bob_name}


async def test_members_leave(service: RunningLocks, team: Team, artists: str) -> None:
    """Members are removed from a group, or with their user; where one of them is no member, nobody is removed."""
    await service.add_user(f"carol-{artists}")
    await service.add_group(artists, team.alice_name, team.bob_name, f"carol-{artists}")
    remove = admin.RemoveGroupMembersRequest(group_name=artists, user_names=[team.alice_name, "nobody"])
    with refused(NotFound, Reason.GROUP_MEMBER_NOT_FOUND) as caught:
        await service.admin_peer.call(service.admin.RemoveGroupMembers, remove)
    assert caught.value.message == f"nobody is not a member of {artists}"
    assert len(await members_of(service, artists)) == 3
    await service.delete_user(f"carol-{artists}")
    remove.user_names[:] = [team.alice_name]
    group = (await service.admin_peer.call(service.admin.RemoveGroupMembers, remove)).group
    assert group.member_count == 1
    assert await members_of(service, artists) == [team.bob_name]


async def test_refused_groups(service: RunningLocks, team: Team, artists: str) -> None:
    """Names that are taken or are none, and members that do not exist, are refused; nothing is changed."""
    await service.add_group(artists)
    for name in (artists, artists.upper()):
        with refused(AlreadyExists, Reason.GROUP_EXISTS):
            await service.add_group(name)
    for name in ("", "-a", "a b", "a" * 65):
        with refused(InvalidArgument, Reason.INVALID_FIELD, "name: "):
            await service.add_group(name)
    for names, error, reason in (
        ([team.alice_name, "nobody"], NotFound, Reason.USER_NOT_FOUND),
        ([], InvalidArgument, Reason.INVALID_FIELD),
        ([f"u{number}" for number in range(1001)], InvalidArgument, Reason.INVALID_FIELD),
        (["a b"], InvalidArgument, Reason.INVALID_FIELD),
    ):
        with refused(error, reason):
            await service.add_members(artists, *names)
    assert await members_of(service, artists) == []
    with refused(InvalidArgument, Reason.INVALID_CURSOR):
        page = admin.ListGroupMembersRequest(group_name=artists, cursor="a b")
        await service.admin_peer.call(service.admin.ListGroupMembers, page)
    with refused(NotFound, Reason.GROUP_NOT_FOUND):
        await members_of(service, "none-of-that-name")


async def test_pages_of_groups(service: RunningLocks, team: Team, artists: str) -> None:
    """Each group is in one page, by name, with its members counted; without a limit, all of them come at once."""
    names = [f"{artists}-{number}" for number in range(5)]
    for name in names:
        await service.add_group(name, team.alice_name)
    request = admin.ListGroupsRequest(limit=2)
    found: list[admin.Group] = []
    while True:
        page = await service.admin_peer.call(service.admin.ListGroups, request)
        assert len(page.groups) <= request.limit
        found += page.groups
        if not page.next_cursor:
            break
        request.cursor = page.next_cursor
    whole = await service.admin_peer.call(service.admin.ListGroups, admin.ListGroupsRequest())
    assert found == list(whole.groups)
    assert whole.next_cursor == ""
    assert [(group.name, group.member_count) for group in found if group.name in names] == [(name, 1) for name in names]
    rest = admin.ListGroupsRequest(cursor=names[2])
    after = await service.admin_peer.call(service.admin.ListGroups, rest)
    assert list(after.groups) == [group for group in found if group.name > names[2]]
    with refused(InvalidArgument, Reason.INVALID_CURSOR):
        await service.admin_peer.call(service.admin.ListGroups, admin.ListGroupsRequest(cursor="a b"))


async def test_grants_of_a_group(service: RunningLocks, team: Team, artists: str) -> None:
    """They are replaced, listed after those of users, and revoked, as those of users are."""
    await service.add_group(artists)
    patterns = ["refs/heads/a"]
    first = await service.grant("", team.repository, admin.ROLE_WRITE, group_name=artists, ref_patterns=patterns)
    assert not first.HasField("replaced")
    second = await service.grant("", team.repository, admin.ROLE_WRITE, group_name=artists)
    assert second.replaced == first.grant
    assert (second.grant.group_name, second.grant.user_name) == (artists, "")
    grants = await service.grants(team.repository)
    assert [(grant.user_name, grant.group_name) for grant in grants] == [
        (team.alice_name, ""),
        (team.bob_name, ""),
        ("", artists),
    ]
    assert list(await service.revoke("", team.repository, group_name=artists)) == [second.grant]
    with refused(NotFound, Reason.GRANT_NOT_FOUND):
        await service.revoke("", team.repository, group_name=artists)


async def test_a_grant_is_of_one_party(service: RunningLocks, team: Team, artists: str) -> None:
    """Both a user and a group, neither, and an unknown group are refused."""
    await service.add_group(artists)
    for user, group, error, reason in (
        (team.alice_name, artists, InvalidArgument, Reason.INVALID_FIELD),
        ("", "", InvalidArgument, Reason.INVALID_FIELD),
        ("", "a b", InvalidArgument, Reason.INVALID_FIELD),
        ("", "none-of-that-name", NotFound, Reason.GROUP_NOT_FOUND),
    ):
        with refused(error, reason):
            await service.grant(user, team.repository, admin.ROLE_READ, group_name=group)
        with refused(error, reason):
            await service.revoke(user, team.repository, group_name=group)


async def test_without_a_party_both_fields_are_named(service: RunningLocks, team: Team) -> None:
    """The error says that either a user or a group is needed, in place of a malformed name of a user."""
    for attempt in (service.grant("", team.repository, admin.ROLE_READ), service.revoke("", team.repository)):
        with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
            await attempt
        assert caught.value.message == "user_name or group_name: expected a user or a group, got none"


async def test_the_deciding_group_is_named(service: RunningLocks, team: Team, artists: str) -> None:
    """A member has the roles of all its groups beside its own, and the explanation names the group that decides."""
    repository = f"{team.repository}-by-groups"
    await service.add_repository(repository)
    await service.grant(team.alice_name, repository, admin.ROLE_READ)
    for number, (role, patterns) in enumerate(((admin.ROLE_READ, []), (admin.ROLE_WRITE, ["refs/heads/rel/*"]))):
        await service.add_group(f"{artists}-{number}", team.alice_name)
        await service.grant("", repository, role, ref_patterns=patterns, group_name=f"{artists}-{number}")
    found = await explain(service, team.alice_name, repository, ref="refs/heads/rel/1")
    assert found.allowed
    assert (
        found.explanation == f"the role write by the group {artists}-1 includes writing, on refs like refs/heads/rel/*"
    )
    assert (found.grant.user_name, found.grant.group_name) == (team.alice_name, f"{artists}-1")
    assert await service.check(team.alice, repository, access.PERMISSION_WRITE, ref="refs/heads/rel/1")
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await service.check(team.alice, repository, access.PERMISSION_WRITE, ref="refs/heads/main")
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await service.check(team.bob, repository, access.PERMISSION_READ)


async def test_the_least_role_that_suffices_decides(service: RunningLocks, team: Team, artists: str) -> None:
    """The lowest role that suffices decides: an own grant before those of groups, and groups by name."""
    repository = f"{team.repository}-in-order"
    await service.add_repository(repository)
    first, second, third = (f"{artists}-{letter}" for letter in "abc")
    for group in (third, first, second):
        await service.add_group(group, team.alice_name)
    await service.grant("", repository, admin.ROLE_WRITE, group_name=third)
    await service.grant("", repository, admin.ROLE_WRITE, group_name=second)
    await service.grant("", repository, admin.ROLE_ADMIN, group_name=first)
    await service.grant(team.alice_name, repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/alice"])

    async def decides(ref: str) -> tuple[str, str]:
        found = await explain(service, team.alice_name, repository, ref=ref)
        assert found.allowed
        return found.grant.group_name, found.explanation

    # A grant for every ref is named before one for some, even where both would do.
    on_every_ref = "the role write by the group {} includes writing, on every ref"
    assert await decides("refs/heads/alice") == (second, on_every_ref.format(second))
    await service.grant(team.alice_name, repository, admin.ROLE_WRITE)
    assert await decides("refs/heads/main") == ("", "the role write includes writing, on every ref")
    await service.revoke(team.alice_name, repository)
    assert await decides("") == (second, on_every_ref.format(second))
    await service.admin_peer.call(service.admin.DeleteGroup, admin.DeleteGroupRequest(name=second))
    assert await decides("") == (third, on_every_ref.format(third))
    leave = admin.RemoveGroupMembersRequest(group_name=third, user_names=[team.alice_name])
    await service.admin_peer.call(service.admin.RemoveGroupMembers, leave)
    assert await decides("") == (first, f"the role admin by the group {first} includes writing, on every ref")


async def test_a_group_that_may_write_some_refs(service: RunningLocks, team: Team, artists: str) -> None:
    """Its members may neither force, nor push over locks to another ref; the refusal names the refs of all grants."""
    repository = f"{team.repository}-some-refs"
    repository_id = await service.add_repository(repository)
    await service.grant(team.alice_name, repository, admin.ROLE_WRITE)
    await service.grant(team.bob_name, repository, admin.ROLE_WRITE, ref_patterns=["refs/heads/bob"])
    await service.add_group(artists, team.bob_name)
    patterns = ["refs/heads/rel/*"]
    await service.grant("", repository, admin.ROLE_ADMIN, ref_patterns=patterns, ignores_locks=True, group_name=artists)
    lock = await service.create(repository_id, team.alice, "a.psd")
    with refused(PermissionDenied, Reason.FORCE_NOT_ALLOWED):
        await service.delete(repository_id, team.bob, lock.id, force=True)
    for ref, paths in (("refs/heads/rel/1", []), ("refs/heads/bob", ["a.psd"]), ("refs/heads/main", ["a.psd"])):
        asked = push.CheckPushRequest(repository=repository, user_name=team.bob_name, ref=ref, paths=["a.psd"])
        blocking = (await service.admin_peer.call(service.push.CheckPush, asked)).blocking
        assert [each.path for each in blocking] == paths
    found = await explain(service, team.bob_name, repository, ref="refs/heads/main")
    assert not found.allowed
    limits = "refs/heads/bob, refs/heads/rel/*"
    assert found.explanation == f"the user may write only on refs like {limits}, and this is another"


async def test_changes_of_one_group_at_once(service: RunningLocks, team: Team, artists: str) -> None:
    """Members and grants are added while the group or a member is removed: each is done, or says what is missing."""
    calls, missing = service.admin, {Reason.GROUP_NOT_FOUND, Reason.USER_NOT_FOUND, Reason.GROUP_MEMBER_NOT_FOUND}
    for round_number in range(ROUNDS):
        group, user = f"{artists}-{round_number}", f"{artists}-user-{round_number}"
        await service.add_user(user)
        names = [team.alice_name, team.bob_name, user]
        await service.add_group(group, *(names if round_number % 2 else ()))
        changes = (
            service.add_members(group, *names),
            service.add_members(group, *names[::-1]),
            service.admin_peer.call(
                calls.RemoveGroupMembers, admin.RemoveGroupMembersRequest(group_name=group, user_names=names[1:])
            ),
            service.grant("", team.repository, admin.ROLE_READ, group_name=group),
            service.delete_user(user),
            service.admin_peer.call(calls.DeleteGroup, admin.DeleteGroupRequest(name=group)),
        )
        answers = await asyncio.gather(*changes, return_exceptions=True)
        assert not isinstance(answers[-1], BaseException)
        assert not isinstance(answers[-2], BaseException)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        assert {error.reason if isinstance(error, NotFound) else repr(error) for error in errors} <= missing
        with refused(NotFound, Reason.GROUP_NOT_FOUND):
            await members_of(service, group)
    assert {grant.user_name for grant in await service.grants(team.repository)} == {team.alice_name, team.bob_name}


async def test_one_of_many_names_that_look_alike_wins(service: RunningLocks, artists: str) -> None:
    """Two groups whose names differ in case alone could be taken for each other, even if both are added at once."""
    names = [artists, artists.upper(), artists.title(), artists] * 4
    answers = await asyncio.gather(*(service.add_group(name) for name in names), return_exceptions=True)
    assert sum(isinstance(answer, admin.Group) for answer in answers) == 1
    errors = [answer for answer in answers if isinstance(answer, AlreadyExists)]
    assert [error.reason for error in errors] == [Reason.GROUP_EXISTS] * (len(names) - 1)


async def test_a_group_decides_about_force_and_pushes(service: RunningLocks, team: Team, artists: str) -> None:
    """A member may remove locks by force, and push over them, if the group's grant says so."""
    repository = f"{team.repository}-forced"
    repository_id = await service.add_repository(repository, forced_unlock=admin.FORCED_UNLOCK_ADMINS)
    await service.grant(team.alice_name, repository, admin.ROLE_WRITE)
    await service.grant(team.bob_name, repository, admin.ROLE_WRITE)
    await service.add_group(artists, team.bob_name)
    lock = await service.create(repository_id, team.alice, "a.psd")
    asked = push.CheckPushRequest(
        repository=repository, user_name=team.bob_name, ref="refs/heads/main", paths=["a.psd"]
    )
    assert [each.path for each in (await service.admin_peer.call(service.push.CheckPush, asked)).blocking] == ["a.psd"]
    with refused(PermissionDenied, Reason.FORCE_NOT_ALLOWED):
        await service.delete(repository_id, team.bob, lock.id, force=True)
    await service.grant("", repository, admin.ROLE_ADMIN, ignores_locks=True, group_name=artists)
    assert not (await service.admin_peer.call(service.push.CheckPush, asked)).blocking
    assert await service.delete(repository_id, team.bob, lock.id, force=True) == lock
