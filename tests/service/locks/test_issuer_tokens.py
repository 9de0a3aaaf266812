"""JSON Web Tokens as credentials: which are accepted, what they may do, and how often their issuer is asked."""

import asyncio
import hashlib
import time
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import (
    NotFound,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from services.locks.issuers import sign_in
from tests.service.locks.conftest import Team, delete_old
from tests.service.locks.issuers import add_group, add_issuer, allow, authenticate, check, exchange
from tests.support.issuer import Issuer, encoded, running_issuer
from tests.support.locks import RunningLocks, refused
from tests.support.postgres import TestPostgres

Forge = Callable[[Issuer], str]

MAIN, PULL = "refs/heads/main", "refs/pull/5/merge"


@pytest.fixture
async def people(service: RunningLocks, issuer: Issuer, team: Team) -> str:
    """The name of the issuer, whose tokens are those of people."""
    name = f"keycloak-{team.repository_id}"
    await add_issuer(service, issuer, name, user_claim="preferred_username", groups_claim="groups")
    return name


@pytest.fixture
async def programs(service: RunningLocks, issuer: Issuer, team: Team) -> str:
    """The name of the issuer, whose tokens are those of programs."""
    name = f"ci-{team.repository_id}"
    await add_issuer(service, issuer, name)
    return name


@pytest.mark.usefixtures("people")
async def test_a_token_is_its_users(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """A person is known by the subject, named by the claim, and the same user with every token."""
    login = f"carol-{team.repository_id}"
    first = await authenticate(service, issuer.token(sub="carol", preferred_username=login))
    assert (first.user_name, first.scoped) == (login, True)
    assert 0 < first.keep_seconds <= 300
    # As many as Entra ID puts into a token.
    groups = [str(uuid.uuid4()) for _ in range(200)]
    again = await authenticate(service, issuer.token(sub="carol", preferred_username="renamed", groups=groups))
    assert (again.user_id, again.user_name) == (first.user_id, login)
    assert again.token_id != first.token_id
    other = await authenticate(service, issuer.token(sub="dave", preferred_username=login))
    assert other.user_id != first.user_id


@pytest.mark.usefixtures("people")
async def test_a_known_token_asks_nothing_of_its_issuer(service: RunningLocks, issuer: Issuer) -> None:
    """The issuer is asked once for its keys; a token that was verified is found by its hash."""
    token = issuer.token(preferred_username="erin")
    first = await authenticate(service, token)
    issuer.is_answering = False
    again = await authenticate(service, token)
    assert (again.user_id, again.token_id) == (first.user_id, first.token_id)
    assert issuer.requests == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    "key",
    [
        RSAKey.generate_key(2048, {"kid": "k", "alg": "RS256"}),
        ECKey.generate_key("P-256", {"kid": "k"}),
        OKPKey.generate_key("Ed25519", {"kid": "k"}),
    ],
    ids=lambda key: key.key_type,
)
async def test_kinds_of_keys(service: RunningLocks, issuer: Issuer, key: RSAKey | ECKey | OKPKey) -> None:
    """RSA, EC and OKP sign; a token without a key's id is that of the only key."""
    issuer.keys = [key]
    await authenticate(service, issuer.token(preferred_username="frank"))
    await authenticate(service, issuer.token(preferred_username="frank", header={"kid": None}))


def _short_key() -> RSAKey:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RSAKey.generate_key(1024, {"kid": "first"})


def _another_key(issuer: Issuer) -> str:
    """Return a token that is signed with a key of another, under the id of the issuer's key."""
    with_other = Issuer(issuer.url)
    return with_other.token(preferred_username="mallory")


def _swapped_claims(issuer: Issuer) -> str:
    header, _, signature = issuer.token(preferred_username="alice").split(".")
    return f"{header}.{encoded(issuer.claims(preferred_username='mallory'))}.{signature}"


def _now(seconds: int) -> int:
    return int(time.time()) + seconds


BAD: dict[str, tuple[Forge, str]] = {
    "none": (lambda issuer: issuer.unsigned(preferred_username="mallory"), "alg: the JSON Web Token has 'none'"),
    "HS256": (
        lambda issuer: issuer.signed_with_public_key(preferred_username="mallory"),
        "alg: the JSON Web Token has 'HS256'",
    ),
    "another key": (_another_key, "the signature of the JSON Web Token is not that of its issuer"),
    "other claims": (_swapped_claims, "the signature of the JSON Web Token is not that of its issuer"),
    "audience": (lambda issuer: issuer.token(aud="https://other.example.org"), "aud: the JSON Web Token is for"),
    "audiences": (lambda issuer: issuer.token(aud=["a", "b"]), "aud: the JSON Web Token is for"),
    "no audience": (lambda issuer: issuer.token(aud=None), "aud: the JSON Web Token has none"),
    "expired": (lambda issuer: issuer.token(exp=_now(-1)), "the JSON Web Token has expired"),
    "endless": (lambda issuer: issuer.token(exp=None), "exp: the JSON Web Token never expires"),
    "odd expiry": (lambda issuer: issuer.token(exp="tomorrow"), "exp: expected seconds since 1970"),
    "far expiry": (lambda issuer: issuer.token(exp=10**30), "exp: expected seconds since 1970"),
    "not yet": (lambda issuer: issuer.token(nbf=_now(90)), "nbf: the JSON Web Token is valid in"),
    "issued later": (lambda issuer: issuer.token(iat=_now(90)), "iat: the JSON Web Token is valid in"),
    "type": (lambda issuer: issuer.token(header={"typ": "logout+jwt"}), "typ: the JSON Web Token is 'logout+jwt'"),
    "extension": (lambda issuer: issuer.token(header={"b64": True}), "crit: the JSON Web Token asks for an extension"),
    "nobody": (lambda issuer: issuer.token(), "preferred_username: expected a text"),
    "no subject": (lambda issuer: issuer.token(sub=None, preferred_username="x"), "sub: expected a text"),
    "huge": (lambda issuer: issuer.token(preferred_username="x" * 13_000), "longer than 16384 bytes"),
    "no claims": (lambda _: f"{encoded({'alg': 'RS256'})}.{encoded([1])}.aaaa", "has no claims"),
    "deep": (
        lambda _: f"{encoded({'alg': 'RS256'})}.{'W1tb' * 1_900}.aaaa",
        "has no claims",
    ),
}


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("kind", BAD)
async def test_bad_tokens_are_refused_with_the_reason(service: RunningLocks, issuer: Issuer, kind: str) -> None:
    """Each is refused, as often as it is shown, and its owner can be told why."""
    forge, message = BAD[kind]
    token = forge(issuer)
    for _ in range(2):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await authenticate(service, token)
        assert message in caught.value.message
        assert caught.value.metadata["refused"] == "true"


@pytest.mark.usefixtures("people")
async def test_clocks_may_differ_a_little(service: RunningLocks, issuer: Issuer) -> None:
    """An issuer's clock may be half a minute ahead."""
    await authenticate(service, issuer.token(preferred_username="grace", nbf=_now(10), iat=_now(10)))


@pytest.mark.usefixtures("people")
async def test_an_unknown_issuer_is_never_asked(service: RunningLocks) -> None:
    """Whoever writes an issuer into a token makes the service ask nobody."""
    with running_issuer() as stranger:
        for url in (stranger.url, f"{stranger.url}/", ""):
            with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
                await authenticate(service, stranger.token(iss=url, preferred_username="mallory"))
            assert "iss: the issuer of the JSON Web Token is not known here" in caught.value.message
        assert stranger.requests == []


@pytest.mark.usefixtures("people")
async def test_a_flood_of_unknown_keys_asks_the_issuer_once(service: RunningLocks, issuer: Issuer) -> None:
    """Made-up keys make one reading a minute, and hold up nobody whose key is known."""
    await authenticate(service, issuer.token(preferred_username="heidi"))

    tokens = [issuer.token(preferred_username="mallory", header={"kid": f"made-up-{n}"}) for n in range(200)]
    answers = await asyncio.gather(*(authenticate(service, token) for token in tokens), return_exceptions=True)
    assert all(isinstance(answer, Unauthenticated | ResourceExhausted) for answer in answers)
    assert issuer.key_readings == 2
    limited = [answer for answer in answers if isinstance(answer, ResourceExhausted)]
    assert all(0 < int(answer.metadata["retry_after"]) <= 60 for answer in limited)
    with refused(ResourceExhausted, Reason.RATE_LIMITED):
        await authenticate(service, issuer.token(preferred_username="mallory", header={"kid": "one more"}))
    await authenticate(service, issuer.token(preferred_username="heidi", jti="another"))
    assert issuer.key_readings == 2


@pytest.mark.usefixtures("people")
async def test_a_new_key_is_found_under_load(service: RunningLocks, issuer: Issuer) -> None:
    """Tokens of the new key, and of the key before it, are accepted while the issuer changes keys; it is asked once."""
    old = Issuer(issuer.url)
    old.keys = list(issuer.keys)
    await authenticate(service, old.token(preferred_username="ivan"))
    issuer.keys.append(RSAKey.generate_key(2048, {"kid": "second"}))
    tokens = [signer.token(preferred_username="ivan", jti=str(n)) for n in range(50) for signer in (old, issuer)]
    answers = await asyncio.gather(*(authenticate(service, token) for token in tokens))
    assert len({answer.user_id for answer in answers}) == 1
    assert issuer.key_readings == 2


@pytest.mark.usefixtures("people")
async def test_an_issuer_that_is_away_is_no_bad_credential(service: RunningLocks, issuer: Issuer) -> None:
    """Clients forget credentials after a 401: without keys, nobody knows whether a token is good."""
    issuer.is_answering = False
    token = issuer.token(preferred_username="judy")
    for _ in range(3):
        with refused(Unavailable, Reason.UNAVAILABLE) as caught:
            await authenticate(service, token)
        assert 0 < int(caught.value.metadata["retry_after"]) <= 10
    # Ten seconds pass before it is asked again.
    assert len(issuer.requests) == 1


@pytest.mark.usefixtures("people")
async def test_an_outage_ends_nothing_while_keys_are_known(service: RunningLocks, issuer: Issuer) -> None:
    """New tokens are accepted with the keys that were read before; those of unknown keys have to wait."""
    await authenticate(service, issuer.token(preferred_username="kim"))
    issuer.is_answering = False
    await authenticate(service, issuer.token(preferred_username="kim", jti="another"))
    with refused(Unavailable, Reason.UNAVAILABLE):
        await authenticate(service, issuer.token(preferred_username="kim", header={"kid": "new"}))


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("discovery", "keys"),
    [
        ({"issuer": "http://127.0.0.1:1"}, None),
        ({"jwks_uri": "http://keys.example.org/"}, None),
        ({"jwks_uri": None}, None),
        ({}, [_short_key()]),
        ({}, [RSAKey.generate_key(2048, {"kid": "first", "use": "enc"})]),
        ({"padding": "x" * 300_000}, None),
    ],
    ids=["another issuer", "another scheme", "no keys", "short key", "key to encrypt", "long document"],
)
async def test_odd_key_sets_are_as_good_as_none(
    service: RunningLocks, issuer: Issuer, discovery: dict[str, str], keys: list[RSAKey | ECKey | OKPKey] | None
) -> None:
    """An answer that no issuer may give counts like none."""
    issuer.discovery = discovery
    token = issuer.token(preferred_username="leo")
    if keys is not None:
        issuer.keys = keys
    with refused(Unavailable, Reason.UNAVAILABLE):
        await authenticate(service, token)


async def test_groups_of_a_token(
    service: RunningLocks, issuer: Issuer, people: str, team: Team, postgres: TestPostgres
) -> None:
    """A value of the claim means a group, for this token and those that were given for it, until it does no more."""
    group = f"artists-{team.repository_id}"
    await add_group(postgres, service, group, team.repository, "write")
    mapping = {"issuer": people, "value": "/film/artists", "group": group}
    await service.admin_peer.call(service.admin.MapIssuerGroup, admin.MapIssuerGroupRequest(**mapping))
    member = await authenticate(service, issuer.token(preferred_username="mia", groups=["/film/artists", "other"]))
    assert await check(service, member, team.repository) == team.repository_id
    outsider = await authenticate(service, issuer.token(preferred_username="mia", groups=["/film"]))
    assert outsider.user_id == member.user_id
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await check(service, outsider, team.repository)
    await service.admin_peer.call(service.admin.UnmapIssuerGroup, admin.UnmapIssuerGroupRequest(**mapping))
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await check(service, member, team.repository)


async def test_a_program_writes_its_ref_only(service: RunningLocks, issuer: Issuer, programs: str, team: Team) -> None:
    """The claim with the ref limits writing, and not reading; without a ref nothing is written."""
    await allow(service, programs, team.repository, {"repository": "acme/film"})
    token = issuer.token(repository="acme/film", ref="refs/heads/main", sub="repo:acme/film:ref:refs/heads/main")
    known = await authenticate(service, token)
    assert known.user_name == f"ci-{programs}-acme-film"
    assert await check(service, known, team.repository, ref="refs/heads/main") == team.repository_id
    for ref in ("refs/heads/release", ""):
        assert await check(service, known, team.repository, access.PERMISSION_READ, ref=ref) == team.repository_id
        with refused(PermissionDenied, Reason.ACCESS_DENIED) as caught:
            await check(service, known, team.repository, ref=ref)
        assert "refs/heads/main" in caught.value.message
    other = await authenticate(service, issuer.token(repository="acme/film", ref="refs/heads/release"))
    assert other.user_id == known.user_id
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await check(service, other, team.repository, ref="refs/heads/main")


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"repository": "acme/other", "ref": "refs/heads/main"}, "no grant of the issuer"),
        ({"repository": "acme/film"}, "ref: the JSON Web Token has no such claim"),
        ({"repository": "acme/film", "ref": "main"}, "ref: expected the whole name of a ref"),
        ({"repository": "acme/film", "ref": "refs/heads/*"}, "ref: expected the whole name of a ref"),
        ({"repository": "acme/film", "ref": "refs/heads/[m]ain"}, "ref: expected the whole name of a ref"),
        ({"repository": "acme/film", "ref": ["refs/heads/main"]}, "ref: the JSON Web Token has no such claim"),
    ],
)
async def test_programs_that_are_refused(
    service: RunningLocks, issuer: Issuer, programs: str, team: Team, claims: dict[str, Any], message: str
) -> None:
    """A program whose claims match no grant is nobody, and one whose ref is none writes nothing."""
    await allow(service, programs, team.repository, {"repository": "acme/film"})
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await authenticate(service, issuer.token(**claims))
    assert message in caught.value.message


async def test_grants_end_with_their_rule(service: RunningLocks, issuer: Issuer, programs: str, team: Team) -> None:
    """Grants that an issuer loses are taken from the tokens that are known, and from those that were given for them.

    Without the issuer, they are nobody's.
    """
    await allow(service, programs, team.repository, {"repository": "acme/*"}, ref_claim="")
    token = issuer.token(repository="acme/film")
    known = [await authenticate(service, each) for each in (token, (await exchange(service, token)).secret)]
    for each in known:
        await check(service, each, team.repository)
    request = admin.DeleteIssuerGrantsRequest(issuer=programs, repository=team.repository)
    await service.admin_peer.call(service.admin.DeleteIssuerGrants, request)
    for each in known:
        with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
            await check(service, each, team.repository)
    await service.admin_peer.call(service.admin.DeleteIssuer, admin.DeleteIssuerRequest(name=programs))
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await authenticate(service, token)


async def test_a_token_of_ours_for_a_json_web_token(
    service: RunningLocks, issuer: Issuer, programs: str, team: Team
) -> None:
    """It has the same user and the same limits, for at most an hour, and is given for no token of ours."""
    await allow(service, programs, team.repository, {"repository": "acme/film"})
    token = issuer.token(repository="acme/film", ref="refs/heads/main")
    given = await exchange(service, token)
    assert given.secret.startswith("tp_")
    assert given.valid_seconds == 3_600
    known = await authenticate(service, given.secret)
    assert (known.user_id, known.user_name, known.scoped) == (given.user_id, given.user_name, True)
    await check(service, known, team.repository, ref="refs/heads/main")
    with refused(PermissionDenied, Reason.ACCESS_DENIED):
        await check(service, known, team.repository, ref="refs/heads/release")
    for no_token in (given.secret, await service.add_token(team.alice_name), "nonsense", issuer.token(exp=_now(-1))):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await exchange(service, no_token)


async def test_one_token_for_one_json_web_token(
    service: RunningLocks, issuer: Issuer, programs: str, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one ends the first, and the jobs of one ref take no room from those of another."""
    monkeypatch.setattr(sign_in, "_MAX_TOKENS", 2)
    await allow(service, programs, team.repository, {"repository": "acme/film"})
    tokens = [issuer.token(repository="acme/film", ref="refs/pull/5/merge", jti=jti) for jti in "abc"]
    first = await exchange(service, tokens[0])
    for token in (tokens[0], tokens[0], tokens[1]):
        last = await exchange(service, token)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await authenticate(service, first.secret)
    assert "was revoked" in caught.value.message
    with refused(ResourceExhausted, Reason.RATE_LIMITED):
        await exchange(service, tokens[2])
    assert (await authenticate(service, last.secret)).user_id == first.user_id
    main = await exchange(service, issuer.token(repository="acme/film", ref="refs/heads/main"))
    assert main.user_id == first.user_id


async def test_a_job_gives_back_the_locks_of_its_ref_alone(
    service: RunningLocks, issuer: Issuer, programs: str, team: Team
) -> None:
    """All jobs are one user, and what a pull request runs ends no lock of the main branch, and gains none."""
    await allow(service, programs, team.repository, {"repository": "acme/film"})
    await allow(service, programs, team.repository, {"repository": "acme/film", "environment": "release"}, ref_claim="")
    call, stub = service.peer.call, service.locks
    main, pull = [await authenticate(service, issuer.token(repository="acme/film", ref=ref)) for ref in (MAIN, PULL)]
    given = await exchange(service, issuer.token(repository="acme/film", ref=MAIN, jti="next"))
    following = await authenticate(service, given.secret)
    release = await authenticate(service, issuer.token(repository="acme/film", ref=PULL, environment="release"))
    assert {main.user_id, pull.user_id, following.user_id, release.user_id} == {main.user_id}

    async def delete(job: access.AuthenticateResponse, lock: pb.Lock, *, force: bool = False) -> None:
        request = pb.DeleteLockRequest(
            repository_id=team.repository_id, user_id=job.user_id, token_id=job.token_id, id=lock.id, force=force
        )
        await call(stub.DeleteLock, request)

    async def deleted(job: access.AuthenticateResponse, ref: str, *paths: str) -> list[str]:
        request = pb.DeleteLocksRequest(
            repository_id=team.repository_id, user_id=job.user_id, token_id=job.token_id, paths=paths, ref=ref
        )
        return [lock.path for lock in (await call(stub.DeleteLocks, request)).locks]

    a, b = [await service.create(team.repository_id, main.user_id, path, ref=MAIN) for path in "ab"]
    many = pb.CreateLocksRequest(repository_id=team.repository_id, user_id=main.user_id, paths=["c", "d"], ref=MAIN)
    await call(stub.CreateLocks, many)
    for force, reason in ((False, Reason.LOCK_NOT_OWNED), (True, Reason.FORCE_NOT_ALLOWED)):
        with refused(PermissionDenied, reason):
            await delete(pull, a, force=force)
    assert await deleted(pull, PULL, "b", "c") == []
    theft = pb.StealLockRequest(
        repository_id=team.repository_id, user_id=pull.user_id, token_id=pull.token_id, id=a.id, reason="mine", ref=PULL
    )
    with refused(PermissionDenied, Reason.FORCE_NOT_ALLOWED):
        await call(stub.StealLock, theft)
    await delete(following, b)
    assert await deleted(main, MAIN, "c") == ["c"]
    assert await deleted(release, PULL, "d") == ["d"]
    # A lock that is stale may be stolen by every writer, and is then the thief's own.
    await service.update_repository(team.repository, stale_after_seconds=86_400)
    await service.execute("UPDATE locks SET locked_at = now() - interval '2 days' WHERE id = :id", id=int(a.id))
    stolen = (await call(stub.StealLock, theft)).lock
    with refused(PermissionDenied, Reason.LOCK_NOT_OWNED):
        await delete(main, stolen)
    await delete(pull, stolen)


async def test_a_revoked_token_stays_revoked(service: RunningLocks, issuer: Issuer, people: str, team: Team) -> None:
    """A verified token that an administrator has revoked is not verified again, and nothing is given for it."""
    token = issuer.token(sub=people, preferred_username=f"nina-{team.repository_id}")
    known = await authenticate(service, token)
    name = f"jwt-{hashlib.sha256(token.encode()).hexdigest()[:32]}"
    await service.revoke_token(known.user_name, name)
    for call in (authenticate, exchange):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await call(service, token)
        assert "was revoked" in caught.value.message


@pytest.mark.usefixtures("people")
async def test_tokens_are_deleted_a_day_after_they_expired(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """Expired tokens are told from unknown ones for a day; those of ours without an issuer stay."""
    known = await authenticate(service, issuer.token(preferred_username=f"oscar-{team.repository_id}"))
    await service.add_token(team.alice_name)
    users = {"known": known.user_id, "alice": team.alice}
    older = "UPDATE tokens SET expires_at = now() - interval '25 hours' WHERE user_id IN (:known, :alice)"
    await service.execute(older, **users)
    await delete_old(service)
    left = "SELECT user_id FROM tokens WHERE user_id IN (:known, :alice)"
    assert await service.execute(left, **users) == [(team.alice,)]
