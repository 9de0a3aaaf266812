"""SSH keys of users, and the tokens of sessions that end with their keys."""

import base64
import secrets

import pytest
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import push_service_pb2 as push

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, PermissionDenied, Reason, Unauthenticated
from tests.service.locks.conftest import Team, delete_old
from tests.service.locks.issuers import authenticate, check
from tests.support.locks import RunningLocks, refused


def _new_key() -> str:
    """Return a line with a key of the form of Ed25519."""
    parts = (b"ssh-ed25519", secrets.token_bytes(32))
    blob = b"".join(len(part).to_bytes(4) + part for part in parts)
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} somebody@somewhere"


async def add_key(service: RunningLocks, user: str, name: str = "laptop", key: str = "") -> admin.SshKey:
    """Give a user a key."""
    request = admin.AddSshKeyRequest(user_name=user, name=name, public_key=key or _new_key())
    return (await service.admin_peer.call(service.admin.AddSshKey, request)).key


async def _remove(service: RunningLocks, user: str, name: str = "laptop") -> None:
    request = admin.RemoveSshKeyRequest(user_name=user, name=name)
    await service.admin_peer.call(service.admin.RemoveSshKey, request)


async def _listed(service: RunningLocks, user: str) -> list[str]:
    request = admin.ListSshKeysRequest(user_name=user)
    return [key.name for key in (await service.admin_peer.call(service.admin.ListSshKeys, request)).keys]


async def _find(service: RunningLocks, fingerprint: str) -> access.FindSshKeyResponse:
    request = access.FindSshKeyRequest(fingerprint=fingerprint)
    return await service.peer.call(service.access.FindSshKey, request)


async def issue_session_token(
    service: RunningLocks, fingerprint: str, repository: str, *, may_write: bool = True, seconds: int = 3600
) -> access.IssueSessionTokenResponse:
    """Return a token of a session that has proven the key."""
    request = access.IssueSessionTokenRequest(
        fingerprint=fingerprint, repository=repository, may_write=may_write, valid_seconds=seconds
    )
    return await service.peer.call(service.access.IssueSessionToken, request)


async def test_keys_are_added_listed_and_removed(service: RunningLocks, team: Team) -> None:
    """The stored key has no comment, which would be the text of a stranger in authorized_keys."""
    line = _new_key()
    added = await add_key(service, team.alice_name, key=line)
    await add_key(service, team.alice_name, "desktop")
    assert (added.user_name, added.name, added.public_key) == (team.alice_name, "laptop", line.rpartition(" ")[0])
    assert await _listed(service, team.alice_name) == ["desktop", "laptop"]
    found = await _find(service, added.fingerprint)
    assert (found.key_id, found.user_name, found.public_key) == (added.id, team.alice_name, added.public_key)
    await _remove(service, team.alice_name)
    assert await _listed(service, team.alice_name) == ["desktop"]
    with refused(NotFound, Reason.SSH_KEY_NOT_FOUND):
        await _find(service, added.fingerprint)
    with refused(NotFound, Reason.SSH_KEY_NOT_FOUND):
        await _remove(service, team.alice_name)


async def test_a_key_has_one_user_and_a_name_one_key(service: RunningLocks, team: Team) -> None:
    """A key that two users had would sign in as either. To add the same again changes nothing."""
    line = _new_key()
    added = await add_key(service, team.alice_name, key=line)
    assert await add_key(service, team.alice_name, key=line) == added
    for user, name, key in (
        (team.bob_name, "laptop", line),
        (team.alice_name, "other", line),
        (team.alice_name, "laptop", _new_key()),
    ):
        with refused(AlreadyExists, Reason.SSH_KEY_EXISTS):
            await add_key(service, user, name, key)
    assert await _listed(service, team.bob_name) == []


async def test_what_is_no_key_or_no_name_is_refused(service: RunningLocks, team: Team) -> None:
    """The message names the field."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, "public_key: "):
        await add_key(service, team.alice_name, key="hello")
    with refused(InvalidArgument, Reason.INVALID_FIELD, "name: "):
        await add_key(service, team.alice_name, "two words")
    with refused(NotFound, Reason.USER_NOT_FOUND):
        await add_key(service, "nobody-at-all")
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await _find(service, "SHA256:*")


async def test_a_session_token_is_the_users_and_in_no_list(service: RunningLocks, team: Team) -> None:
    """It ends with its time, and no list has it."""
    key = await add_key(service, team.alice_name)
    issued = await issue_session_token(service, key.fingerprint, team.repository, seconds=60)
    assert (issued.key_id, issued.user_name) == (key.id, team.alice_name)
    answer = await authenticate(service, issued.token)
    assert answer.user_id == team.alice
    assert 0 < answer.keep_seconds <= 60
    assert not await service.tokens(team.alice_name)


async def test_a_session_token_is_for_one_repository_and_its_operation(service: RunningLocks, team: Team) -> None:
    """The rights of its user bound it too, and with the token for a repository that does not exist nothing is done."""
    other = f"other/{team.repository_id}"
    await service.add_repository(other)
    for name in (team.repository, other):
        await service.grant(team.alice_name, name, admin.ROLE_ADMIN)
    key = await add_key(service, team.alice_name)

    async def may(token: str, repository: str, permission: access.Permission.ValueType) -> int:
        known = await authenticate(service, token)
        assert known.scoped
        return await check(service, known, repository, permission)

    reading = (await issue_session_token(service, key.fingerprint, team.repository, may_write=False)).token
    writing = (await issue_session_token(service, key.fingerprint, team.repository)).token
    absent = (await issue_session_token(service, key.fingerprint, "no/such")).token
    for token in (reading, writing):
        assert await may(token, team.repository, access.PERMISSION_READ) == team.repository_id
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await may(token, other, access.PERMISSION_READ)
        with refused(PermissionDenied, Reason.ACCESS_DENIED):
            await may(token, team.repository, access.PERMISSION_ADMIN)
    assert await may(writing, team.repository, access.PERMISSION_WRITE) == team.repository_id
    for permission in (access.PERMISSION_WRITE, access.PERMISSION_WRITE_ANY_REF):
        with refused(PermissionDenied, Reason.ACCESS_DENIED):
            await may(reading, team.repository, permission)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await may(absent, team.repository, access.PERMISSION_READ)
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await issue_session_token(service, key.fingerprint, "")


async def test_administration_hooks_and_pages_refuse_a_session_token(service: RunningLocks, team: Team) -> None:
    """Also that of an administrator."""
    root = f"root-{team.repository_id}"
    await service.add_user(root, administrator=True)
    key = await add_key(service, root)
    token = (await issue_session_token(service, key.fingerprint, team.repository)).token
    known = await authenticate(service, token)
    assert (known.administrator, known.refused_by_pages) == (False, True)
    shown = SecretStr(token)
    for method, request in (
        (service.admin.ListUsers, admin.ListUsersRequest()),
        (service.push.CheckPush, push.CheckPushRequest(repository=team.repository, user_name=root)),
    ):
        with refused(PermissionDenied, Reason.ACCESS_DENIED):
            await service.peer.call(method, request, secret=shown)


@pytest.mark.parametrize("seconds", [-1, 0, 59, 31 * 24 * 3600 + 1])
async def test_the_life_of_a_session_token_is_bounded(service: RunningLocks, team: Team, seconds: int) -> None:
    """Neither over before it begins, nor one that outlives everything."""
    key = await add_key(service, team.alice_name)
    with refused(InvalidArgument, Reason.INVALID_FIELD):
        await issue_session_token(service, key.fingerprint, team.repository, seconds=seconds)


async def test_the_tokens_of_a_key_end_with_it(service: RunningLocks, team: Team) -> None:
    """Those of the user's other keys go on."""
    key, other = await add_key(service, team.alice_name), await add_key(service, team.alice_name, "other")
    issued, kept = (
        await issue_session_token(service, key.fingerprint, team.repository),
        await issue_session_token(service, other.fingerprint, team.repository),
    )
    await _remove(service, team.alice_name)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await authenticate(service, issued.token)
    assert (await authenticate(service, kept.token)).user_id == team.alice
    with refused(NotFound, Reason.SSH_KEY_NOT_FOUND):
        await issue_session_token(service, key.fingerprint, team.repository)


async def test_facades_hear_of_a_removed_key(service: RunningLocks, team: Team) -> None:
    """Facades forget within a second that a session's token was good."""
    await add_key(service, team.alice_name)
    watch = service.access.WatchAccess
    before = await service.peer.call(watch, access.WatchAccessRequest(wait_seconds=0))
    await _remove(service, team.alice_name)
    known = {before.source: before.changes}
    after = await service.peer.call(watch, access.WatchAccessRequest(known=known, wait_seconds=0))
    assert (after.source, after.changes > before.changes) == (before.source, True)


async def test_expired_session_tokens_are_deleted(service: RunningLocks, team: Team) -> None:
    """A day later, also where nobody signs in by SSH any more."""
    key = await add_key(service, team.alice_name)
    for _ in range(3):
        await issue_session_token(service, key.fingerprint, team.repository)
    expire = (
        "UPDATE tokens SET expires_at = now() - interval '25 hours' WHERE ssh_key_id = :key"
        " AND id <> (SELECT min(id) FROM tokens WHERE ssh_key_id = :key)"
    )
    await service.execute(expire, key=key.id)
    watch, changes = service.access.WatchAccess, []
    for _ in range(3):
        answer = await service.peer.call(watch, access.WatchAccessRequest(wait_seconds=0))
        changes.append((answer.source, answer.changes))
        await delete_old(service)
        assert await service.execute("SELECT count(*) FROM tokens WHERE ssh_key_id = :key", key=key.id) == [(1,)]
    assert changes[0] != changes[1] == changes[2], "facades forget nothing where nothing was deleted"
