"""Tokens that users make, list and end by themselves, and the rules by which no token gains anything by that."""

import asyncio
from typing import Any

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    ServiceError,
    Unauthenticated,
)
from services.locks.access.own_tokens import MAX_TOKENS
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import add_issuer, allow, authenticate, exchange, token_events
from tests.service.locks.test_ssh_keys import add_key, issue_session_token
from tests.support.issuer import Issuer
from tests.support.locks import RunningLocks, refused

HOUR, DAY = 3_600, 86_400


async def _make(
    service: RunningLocks, credential: str, name: str = "page", seconds: int = 0
) -> access.CreateUserTokenResponse:
    request = access.CreateUserTokenRequest(credential=credential, name=name, expires_in_seconds=seconds)
    return await service.peer.call(service.access.CreateUserToken, request)


async def _end(service: RunningLocks, credential: str, name: str) -> access.UserToken:
    request = access.RevokeUserTokenRequest(credential=credential, name=name)
    return (await service.peer.call(service.access.RevokeUserToken, request)).token


async def _page(
    service: RunningLocks, credential: str, *, cursor: str = "", limit: int = 0
) -> access.ListUserTokensResponse:
    request = access.ListUserTokensRequest(credential=credential, cursor=cursor, limit=limit)
    return await service.peer.call(service.access.ListUserTokens, request)


async def _names(service: RunningLocks, credential: str) -> list[str]:
    return [token.name for token in (await _page(service, credential)).tokens]


async def _own_name(service: RunningLocks, credential: str) -> str:
    """Return the name of a token."""
    token_id = (await authenticate(service, credential)).token_id
    [name] = [token.name for token in (await _page(service, credential)).tokens if token.id == token_id]
    return name


async def _alice(service: RunningLocks, team: Team) -> str:
    return await service.add_token(team.alice_name)


async def test_a_token_is_made_used_listed_and_ended(service: RunningLocks, team: Team) -> None:
    """The audit log names the user, and a token that was ended says so to whoever shows it."""
    alice = await _alice(service, team)
    made = await _make(service, alice, "page", DAY)
    assert made.secret.startswith("tp_")
    assert made.token.expires_at.seconds - made.token.created_at.seconds == DAY
    known = await authenticate(service, made.secret)
    assert (known.user_id, known.token_id, known.administrator) == (team.alice, made.token.id, False)
    assert await service.check(known.user_id, team.repository, access.PERMISSION_WRITE) == team.repository_id
    listed = {token.name: token for token in (await _page(service, alice)).tokens}
    assert list(listed) == ["laptop", "page"]
    assert (listed["page"].id, listed["page"].expires_at) == (made.token.id, made.token.expires_at)
    assert not listed["laptop"].HasField("expires_at")
    assert (await _end(service, alice, "page")).id == made.token.id
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await authenticate(service, made.secret)
    assert caught.value.metadata["revoked"] == "page"
    assert await _names(service, alice) == ["laptop"]
    events = await token_events(service, f"{team.alice_name}/page")
    assert [(event.type, event.actor, event.source) for event in events] == [
        (f"org.towpath.token.{change}", team.alice_name, "facade") for change in ("created", "deleted")
    ]


async def test_a_token_may_end_itself(service: RunningLocks, team: Team) -> None:
    """Nothing more is done with it then."""
    alice = await _alice(service, team)
    await _end(service, alice, "laptop")
    for attempt in (_make(service, alice), _end(service, alice, "laptop")):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await attempt
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _page(service, alice)


async def test_nobody_reaches_the_tokens_of_others(service: RunningLocks, team: Team) -> None:
    """Not even who has the secret between services: the credential decides, and a name is one of its user's."""
    alice = await _alice(service, team)
    bob = await service.add_token(team.bob_name, "bobs")
    with refused(NotFound, Reason.TOKEN_NOT_FOUND):
        await _end(service, alice, "bobs")
    known = await authenticate(service, bob)
    user_id, token_id = known.user_id, known.token_id
    making = access.CreateUserTokenRequest(user_id=user_id, token_id=token_id, name="stolen")
    ending = access.RevokeUserTokenRequest(user_id=user_id, token_id=token_id, name="bobs")
    call, stub = service.peer.call, service.access
    for attempt in (
        call(stub.ListUserTokens, access.ListUserTokensRequest(user_id=user_id, token_id=token_id)),
        call(stub.CreateUserToken, making),
        call(stub.RevokeUserToken, ending),
    ):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await attempt
    assert await _names(service, bob) == ["bobs"]


async def test_a_token_with_an_end_makes_none_that_outlives_it(service: RunningLocks, team: Team) -> None:
    """Neither by a longer life, nor by none, nor by the one that it has made; a shorter life stays as it is."""
    alice = await _alice(service, team)
    short = await _make(service, alice, "short", HOUR)
    for name, seconds in (("longer", DAY), ("endless", 0)):
        made = await _make(service, short.secret, name, seconds)
        assert made.token.expires_at == short.token.expires_at
        again = await _make(service, made.secret, f"{name}-again", 10 * DAY)
        assert again.token.expires_at == short.token.expires_at
    shorter = await _make(service, short.secret, "shorter", 60)
    assert shorter.token.expires_at.seconds - shorter.token.created_at.seconds == 60
    assert not (await _make(service, alice, "lasting")).token.HasField("expires_at")


async def test_a_token_that_has_expired_does_nothing(service: RunningLocks, team: Team) -> None:
    """It is listed until it is ended."""
    alice = await _alice(service, team)
    short = await _make(service, alice, "short", HOUR)
    await service.execute("UPDATE tokens SET expires_at = now() WHERE id = :id", id=short.token.id)
    for attempt in (_make(service, short.secret), _end(service, short.secret, "laptop")):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await attempt
    assert await _names(service, alice) == ["laptop", "short"]
    await _end(service, alice, "short")


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("", 0), ("a b", 0), ("-rf", 0), ("x" * 65, 0), ("page", 59), ("page", -1), ("page", 10 * 365 * DAY + 1)],
)
async def test_malformed_requests(service: RunningLocks, team: Team, name: str, seconds: int) -> None:
    """The message names the field."""
    alice = await _alice(service, team)
    with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
        await _make(service, alice, name, seconds)
    assert caught.value.message.startswith("expires_in_seconds: " if seconds else "name: ")


async def test_a_name_is_taken_once(service: RunningLocks, team: Team) -> None:
    """Also by an administrator."""
    alice = await _alice(service, team)
    await _make(service, alice)
    for name in ("page", "laptop"):
        with refused(AlreadyExists, Reason.TOKEN_EXISTS):
            await _make(service, alice, name)


async def test_a_user_has_at_most_a_hundred(service: RunningLocks, team: Team) -> None:
    """Calls at once make as many as there is room for. Expired tokens take room, and an administrator goes on."""
    alice = await _alice(service, team)
    fill = (
        "INSERT INTO tokens (user_id, name, token_hash, expires_at)"
        " SELECT id, 'old-' || n, sha256(concat(id, ' ', n)::bytea), now()"
        " FROM users, generate_series(1, :count) AS n WHERE id = :user"
    )
    await service.execute(fill, user=team.alice, count=MAX_TOKENS - 4)
    attempts = (_make(service, alice, f"page-{number}") for number in range(8))
    results = await asyncio.gather(*attempts, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    assert len(failures) == 5
    for failure in failures:
        assert isinstance(failure, ResourceExhausted)
        assert failure.reason == Reason.TOO_MANY_TOKENS
    await service.add_token(team.alice_name, "desktop")
    for name in ("old-1", "old-2"):
        await _end(service, alice, name)
    await _make(service, alice, "room")


async def test_pages_of_tokens(service: RunningLocks, team: Team) -> None:
    """They follow the name."""
    alice = await _alice(service, team)
    for name in ("a", "b", "c"):
        await _make(service, alice, name)
    first = await _page(service, alice, limit=2)
    assert ([token.name for token in first.tokens], first.next_cursor) == (["a", "b"], "b")
    second = await _page(service, alice, cursor="b", limit=2)
    assert ([token.name for token in second.tokens], second.next_cursor) == (["c", "laptop"], "")
    with refused(InvalidArgument, Reason.INVALID_CURSOR):
        await _page(service, alice, cursor="a b")


async def _cannot_make(service: RunningLocks, credential: str) -> ServiceError:
    with refused(PermissionDenied, Reason.ACCESS_DENIED) as caught:
        await _make(service, credential)
    return caught.value


async def _neither_makes_nor_ends(service: RunningLocks, credential: str) -> None:
    await _cannot_make(service, credential)
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await _end(service, credential, "laptop")


async def test_the_token_of_a_session_makes_and_ends_none(service: RunningLocks, team: Team) -> None:
    """It ends with its key, and no list shows it."""
    alice = await _alice(service, team)
    key = await add_key(service, team.alice_name)
    session = await issue_session_token(service, key.fingerprint, team.repository)
    await _neither_makes_nor_ends(service, session.token)
    assert await _names(service, alice) == ["laptop"]


async def test_a_token_with_a_limit_makes_none(service: RunningLocks, team: Team) -> None:
    """The new one would be without the limit, or would add another of the same height."""
    alice = await _alice(service, team)
    request = admin.UpdateTokenRequest(
        user_name=team.alice_name, name="laptop", rate=admin.RequestRate(requests_per_hour=60)
    )
    await service.admin_peer.call(service.admin.UpdateToken, request)
    assert "limit of requests" in (await _cannot_make(service, alice)).message
    await _end(service, alice, "laptop")


async def test_programs_make_none_and_end_themselves_alone(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """Neither a JSON Web Token nor what is given for it, whatever its user is granted; it ends itself alone."""
    name, subject = f"ci-{team.repository_id}", f"job-{team.repository_id}"
    await add_issuer(service, issuer, name)
    await allow(service, name, team.repository, {"sub": subject})
    job = issuer.token(sub=subject, ref="refs/heads/main")
    known = await authenticate(service, job)
    assert known.refused_by_pages
    await service.add_token(known.user_name)
    await service.grant(known.user_name, team.repository, admin.ROLE_READ, origin=f"issuer {name}")
    await _neither_makes_nor_ends(service, job)
    next_job = issuer.token(sub=subject, ref="refs/heads/main", jti="next")
    mine, other = (await exchange(service, job)).secret, (await exchange(service, next_job)).secret
    assert (await authenticate(service, mine)).refused_by_pages
    await _cannot_make(service, mine)
    # All jobs are one user: that of a pull request could end those of the others.
    own, others = await _own_name(service, mine), await _own_name(service, other)
    for name in ("laptop", others):
        with refused(PermissionDenied, Reason.ACCESS_DENIED):
            await _end(service, mine, name)
    await _end(service, mine, own)
    assert own not in await _names(service, other)


async def test_a_person_s_sign_in(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """It makes a token where an administrator has given the user a grant, which is all that the token has."""
    name = f"sso-{team.repository_id}"
    await add_issuer(service, issuer, name, user_claim="preferred_username", groups_claim="groups")
    group, other = f"artists-{team.repository_id}", f"other/{team.repository_id}"
    await service.add_group(group)
    mapping = admin.MapIssuerGroupRequest(issuer=name, value="artists", group=group)
    await service.admin_peer.call(service.admin.MapIssuerGroup, mapping)
    await service.grant("", team.repository, admin.ROLE_WRITE, group_name=group)
    claims: dict[str, Any] = {"preferred_username": f"ada-{team.repository_id}", "groups": ["artists"]}
    ada = (await exchange(service, issuer.token(**claims))).secret
    known = await authenticate(service, ada)
    assert not known.refused_by_pages
    assert "sign-in" in (await _cannot_make(service, ada)).message
    await service.add_repository(other)
    await service.grant(known.user_name, other, admin.ROLE_READ, origin=f"issuer {name}")
    made = await _make(service, ada, "script", DAY)
    listed = {token.name: token for token in (await _page(service, ada)).tokens}
    [sign_in] = [token for token in listed.values() if token.issuer == name]
    assert (sign_in.id, sign_in.expires_at) == (known.token_id, made.token.expires_at)
    new = await authenticate(service, made.secret)
    request = access.ListUserRepositoriesRequest(user_id=new.user_id, token_id=new.token_id)
    readable = await service.peer.call(service.access.ListUserRepositories, request)
    assert other in [repository.name for repository in readable.repositories]
    assert team.repository not in [repository.name for repository in readable.repositories]
    # It ends another sign-in, such as that of a lost computer, and itself.
    lost_name = await _own_name(service, (await exchange(service, issuer.token(**claims, jti="lost"))).secret)
    for ended in (lost_name, sign_in.name):
        await _end(service, ada, ended)
    assert await _names(service, made.secret) == ["script"]


async def test_whom_the_administration_admits(service: RunningLocks, team: Team) -> None:
    """The answer about a token agrees with AdminService; the tokens that an administrator makes are no different."""
    assert (await authenticate(service, service.admin_token)).administrator
    made = await _make(service, service.admin_token, f"page-{team.repository_id}", HOUR)
    assert (await authenticate(service, made.secret)).administrator
    assert not (await authenticate(service, await _alice(service, team))).administrator
