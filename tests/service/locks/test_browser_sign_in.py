"""Sign-in in a browser by authorization code with PKCE: at a real provider, and at one that answers as a test likes."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Reason,
    ResourceExhausted,
    ServiceError,
    Unauthenticated,
    Unavailable,
)
from services.locks.issuers import redemption
from tests.service.locks.browser_sign_in import REDIRECT_URI, BrowserSignIn
from tests.service.locks.conftest import Team
from tests.service.locks.issuers import add_group, add_issuer, add_provider, authenticate, check
from tests.support.authorization import authorize
from tests.support.issuer import Issuer, running_issuer
from tests.support.locks import RunningLocks, refused
from tests.support.oidc_provider import OidcProvider
from tests.support.postgres import TestPostgres
from tests.support.waiting import until

CLIENT = "towpath"


@pytest.fixture(scope="module")
async def sso(service: RunningLocks, provider: OidcProvider) -> str:
    """The name of the real provider at the service."""
    return await add_provider(service, "sso", provider)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer of its own for each test, with the endpoints for a sign-in in a browser."""
    with running_issuer() as running:
        running.discovery = {
            "authorization_endpoint": f"{running.url}/authorize?tenant=studio",
            "token_endpoint": f"{running.url}/token",
            "scopes_supported": ["openid", "email", "offline_access"],
        }
        yield running


@pytest.fixture
async def sign_in(service: RunningLocks, issuer: Issuer, team: Team) -> BrowserSignIn:
    """A sign-in at that issuer."""
    name = f"sso-{team.repository_id}"
    await add_issuer(service, issuer, name, user_claim="preferred_username", client_id=CLIENT)
    return BrowserSignIn(service, name)


async def test_a_person_signs_in(
    service: RunningLocks, provider: OidcProvider, sso: str, team: Team, postgres: TestPostgres
) -> None:
    """The token has the groups of the issuer, is listed with its name, and ends as that of `towpath login`."""
    await add_group(postgres, service, "browser-artists", team.repository, "write")
    mapping = admin.MapIssuerGroupRequest(issuer=sso, value="/film/artists", group="browser-artists")
    await service.admin_peer.call(service.admin.MapIssuerGroup, mapping)
    sign_in = BrowserSignIn(service, sso)
    returned = await authorize(await sign_in.start(), redirect_uri=REDIRECT_URI, user="alice", password="any")
    assert returned["state"] == sign_in.state
    assert returned["iss"] == provider.url
    given = await sign_in.finish(returned["code"], response_issuer=returned["iss"])
    assert (given.user_name, given.valid_seconds) == ("alice", 3_600)
    known = await authenticate(service, given.secret)
    assert (known.user_id, known.scoped, known.administrator) == (given.user_id, True, False)
    assert await check(service, known, team.repository) == team.repository_id
    request = access.ListUserTokensRequest(credential=given.secret)
    [token] = (await service.peer.call(service.access.ListUserTokens, request)).tokens
    assert (token.id, token.issuer) == (known.token_id, sso)
    end = access.RevokeSignInTokenRequest(token=given.secret)
    await service.peer.call(service.access.RevokeSignInToken, end)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await authenticate(service, given.secret)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("code_verifier", "another-verifier-of-at-least-43-characters-01234", "code: "),
        ("redirect_uri", "http://127.0.0.1:9999/-/elsewhere", "code: "),
        ("nonce", "the-nonce-of-another-sign-in", "nonce: "),
        ("response_issuer", "https://evil.example.org", "iss: "),
        ("response_issuer", "", "iss: "),
        ("code", "made-up", "code: "),
    ],
)
async def test_a_code_counts_with_what_belongs_to_it(
    service: RunningLocks, provider: OidcProvider, sso: str, field: str, value: str, message: str
) -> None:
    """A stolen code is worth nothing, and nobody is made to sign in as somebody else."""
    sign_in = BrowserSignIn(service, sso)
    returned = await authorize(await sign_in.start(), redirect_uri=REDIRECT_URI, user="bob", password="any")
    fields = {"code": returned["code"], "response_issuer": provider.url, field: value}
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await sign_in.finish(**fields)
    assert caught.value.message.startswith(message)
    assert "refused" in caught.value.metadata


async def test_a_code_counts_once(service: RunningLocks, provider: OidcProvider, sso: str) -> None:
    """The token of the first redemption stays."""
    sign_in = BrowserSignIn(service, sso)
    returned = await authorize(await sign_in.start(), redirect_uri=REDIRECT_URI, user="carol", password="any")
    given = await sign_in.finish(returned["code"], response_issuer=provider.url)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await sign_in.finish(returned["code"], response_issuer=provider.url)
    assert (await authenticate(service, given.secret)).user_name == given.user_name


async def test_what_an_issuer_lacks_is_told_when_it_is_added(service: RunningLocks, issuer: Issuer, team: Team) -> None:
    """An operator knows of it before the first person fails to sign in."""

    async def added(name: str, url: str) -> admin.CreateIssuerResponse:
        request = admin.CreateIssuerRequest(name=name, url=url, client_id=CLIENT, user_claim="name", check=True)
        return await service.admin_peer.call(service.admin.CreateIssuer, request)

    found = await added(f"sso-{team.repository_id}", issuer.url)
    assert (found.keys, len(found.problems)) == (1, 1)
    assert "device_authorization_endpoint" in found.problems[0]
    wrong = await added(f"wrong-{team.repository_id}", f"{issuer.url}/wrong")
    assert (wrong.keys, len(wrong.problems)) == (0, 1)
    assert "404" in wrong.problems[0]


async def test_the_url_for_the_browser(sign_in: BrowserSignIn, issuer: Issuer) -> None:
    """It goes on with the query of the endpoint, and asks for scopes that the issuer has, and for no refresh token."""
    parts = urlsplit(await sign_in.start())
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{issuer.url}/authorize"
    assert dict(parse_qsl(parts.query, strict_parsing=True)) == {
        "tenant": "studio",
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": REDIRECT_URI,
        "scope": "openid email",
        "state": sign_in.state,
        "nonce": sign_in.nonce,
        "code_challenge": sign_in.challenge,
        "code_challenge_method": "S256",
    }
    odd = parse_qs(urlsplit(await sign_in.start(redirect_uri="https://lfs.example.org/a?b=c&d=%20")).query)
    assert odd["redirect_uri"] == ["https://lfs.example.org/a?b=c&d=%20"]
    assert len(issuer.requests) == 2


Change = Callable[[Issuer], dict[str, Any]]


@pytest.mark.parametrize(
    "change",
    [
        lambda _: {"authorization_endpoint": None},
        lambda _: {"token_endpoint": None},
        lambda _: {"authorization_endpoint": "http://sso.example.org/authorize"},
        lambda _: {"authorization_endpoint": "javascript:alert(1)"},
        lambda issuer: {"authorization_endpoint": f"{issuer.url}/authorize#fragment"},
        lambda issuer: {"token_endpoint": f"{issuer.url}/token?a b"},
        lambda _: {"token_endpoint": "http://169.254.169.254/latest"},
        lambda _: {"token_endpoint": ["http://127.0.0.1/token"]},
    ],
)
async def test_an_issuer_without_usable_endpoints(sign_in: BrowserSignIn, issuer: Issuer, change: Change) -> None:
    """Its tokens count all the same."""
    issuer.discovery |= change(issuer)
    for attempt in (sign_in.start(), sign_in.finish("code")):
        with refused(FailedPrecondition, Reason.SIGN_IN_UNSUPPORTED):
            await attempt
    assert issuer.redeemed == []
    token = issuer.token(aud=CLIENT, preferred_username="dora")
    assert (await authenticate(sign_in.service, token)).user_name


async def test_an_issuer_that_is_away(sign_in: BrowserSignIn, issuer: Issuer) -> None:
    """The answer says when to try again, and no further request is made until then."""
    issuer.is_answering = False
    for _ in range(2):
        with refused(Unavailable, Reason.UNAVAILABLE) as caught:
            await sign_in.start()
        assert int(caught.value.metadata["retry_after"]) > 0
    assert len(issuer.requests) == 1


async def test_an_issuer_that_is_none(sign_in: BrowserSignIn, issuer: Issuer, team: Team) -> None:
    """Neither an unknown one nor one where programs alone have tokens."""
    with running_issuer() as other:
        await add_issuer(sign_in.service, other, f"ci-{team.repository_id}")
        for name in (f"ci-{team.repository_id}", "unknown"):
            for attempt in (sign_in.start(issuer=name), sign_in.finish("code", issuer=name)):
                with refused(NotFound, Reason.ISSUER_NOT_FOUND):
                    await attempt
        assert other.requests == issuer.requests == []


@pytest.mark.parametrize("client", [{"client_id": CLIENT}, {"client_id": CLIENT, "client_secret": "public"}])
async def test_a_code_is_redeemed(service: RunningLocks, issuer: Issuer, team: Team, client: dict[str, str]) -> None:
    """No secret is sent but that which the issuer asks a public client for, and no nonce."""
    sign_in = BrowserSignIn(service, f"sso-{team.repository_id}")
    await add_issuer(service, issuer, sign_in.issuer, user_claim="preferred_username", **client)
    token = issuer.token(aud=CLIENT, azp=CLIENT, nonce=sign_in.nonce, preferred_username="erin")
    issuer.token_answer = (200, {"id_token": token, "access_token": "opaque"})
    given = await sign_in.finish("a-code")
    assert issuer.redeemed == [
        {
            "grant_type": "authorization_code",
            **client,
            "code": "a-code",
            "redirect_uri": REDIRECT_URI,
            "code_verifier": sign_in.verifier,
        }
    ]
    assert (await authenticate(sign_in.service, given.secret)).user_id == given.user_id


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"nonce": "that-of-another-sign-in"}, "nonce: "),
        ({"nonce": None}, "nonce: "),
        ({"aud": "another-client"}, "aud: "),
        # An audience of the issuer for other tokens, such as those of jobs.
        ({"aud": "https://lfs.example.org"}, "aud: "),
        ({"aud": [CLIENT, "another-client"], "azp": "another-client"}, "azp: "),
        ({"iss": "https://evil.example.org"}, "iss: "),
        ({"exp": 1}, "the JSON Web Token has expired"),
        ({"preferred_username": None}, "preferred_username: "),
    ],
)
async def test_an_id_token_of_something_else(
    sign_in: BrowserSignIn, issuer: Issuer, claims: dict[str, Any], message: str
) -> None:
    """The message tells the claim."""
    expected: dict[str, Any] = {"aud": CLIENT, "nonce": sign_in.nonce, "preferred_username": "fay"}
    issuer.token_answer = (200, {"id_token": issuer.token(**{**expected, **claims})})
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
        await sign_in.finish("a-code")
    assert caught.value.message.startswith(message)


async def test_an_id_token_without_a_signature(sign_in: BrowserSignIn, issuer: Issuer) -> None:
    """The connection to the token endpoint proves nothing: the signature is needed."""
    for write in (issuer.unsigned, issuer.signed_with_public_key):
        attempt = BrowserSignIn(sign_in.service, sign_in.issuer)
        token = write(aud=CLIENT, nonce=attempt.nonce, preferred_username="gus")
        issuer.token_answer = (200, {"id_token": token})
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await attempt.finish("a-code")
    assert len(issuer.redeemed) == 2


async def test_a_sign_in_redeems_one_code(sign_in: BrowserSignIn, issuer: Issuer) -> None:
    """Of made-up codes, the first one reaches the issuer; the nonce of another sign-in redeems another one."""
    for code, message in (("first", "code: the issuer refuses"), ("second", "code: this sign-in has had its code")):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await sign_in.finish(code)
        assert caught.value.message.startswith(message)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await BrowserSignIn(sign_in.service, sign_in.issuer).finish("third")
    assert [fields["code"] for fields in issuer.redeemed] == ["first", "third"]


async def test_an_address_over_its_limit_redeems_no_code(sign_in: BrowserSignIn, issuer: Issuer) -> None:
    """Nothing is asked, and the sign-in keeps its code for later."""
    with refused(ResourceExhausted, Reason.RATE_LIMITED) as caught:
        await sign_in.finish("a-code", client_address="203.0.113.7", client_is_limited=True)
    assert "undecided" in caught.value.metadata
    assert issuer.redeemed == []
    token = issuer.token(aud=CLIENT, nonce=sign_in.nonce, preferred_username="ivy")
    issuer.token_answer = (200, {"id_token": token})
    assert (await sign_in.finish("a-code")).secret


async def test_codes_of_one_address_leave_room(sign_in: BrowserSignIn, issuer: Issuer) -> None:
    """An issuer that is slow is asked about two codes of an address at once, and about those of others meanwhile."""
    issuer.may_redeem.clear()

    def redeem(code: str, address: str) -> asyncio.Task[access.FinishSignInResponse]:
        attempt = BrowserSignIn(sign_in.service, sign_in.issuer)
        return asyncio.create_task(attempt.finish(code, client_address=address))

    asking = [redeem("made-up", "203.0.113.7") for _ in range(16)]
    await until(lambda: len(issuer.redeemed) == 2, "the first codes are redeemed")
    asking.append(redeem("honest", "198.51.100.1"))
    await until(lambda: "honest" in {fields["code"] for fields in issuer.redeemed}, "the code of another address is")
    assert len(issuer.redeemed) == 3
    issuer.may_redeem.set()
    assert {type(error) for error in await asyncio.gather(*asking, return_exceptions=True)} == {Unauthenticated}


@pytest.mark.parametrize(
    ("status", "answer", "kind", "reason"),
    [
        (400, {"error": "invalid_grant"}, Unauthenticated, Reason.BAD_CREDENTIALS),
        (401, {"error": "invalid_client"}, FailedPrecondition, Reason.SIGN_IN_UNSUPPORTED),
        (400, {"error": "<script>"}, FailedPrecondition, Reason.SIGN_IN_UNSUPPORTED),
        (400, ["invalid_grant"], FailedPrecondition, Reason.SIGN_IN_UNSUPPORTED),
        (200, {"access_token": "opaque"}, FailedPrecondition, Reason.SIGN_IN_UNSUPPORTED),
        (200, {"id_token": 5}, FailedPrecondition, Reason.SIGN_IN_UNSUPPORTED),
        (200, {"id_token": "opaque"}, Unauthenticated, Reason.BAD_CREDENTIALS),
        (302, {}, Unavailable, Reason.UNAVAILABLE),
        (429, {"error": "slow_down"}, Unavailable, Reason.UNAVAILABLE),
        (503, {}, Unavailable, Reason.UNAVAILABLE),
        (200, {"id_token": "x" * 300_000}, Unavailable, Reason.UNAVAILABLE),
    ],
)
async def test_answers_of_the_token_endpoint(
    sign_in: BrowserSignIn, issuer: Issuer, status: int, answer: object, kind: type[ServiceError], reason: Reason
) -> None:
    """Nothing that the issuer writes gets into a message, but the name of an error."""
    issuer.token_answer = (status, answer)
    with refused(kind, reason) as caught:
        await sign_in.finish("a-code")
    assert "script" not in caught.value.message
    assert ("retry_after" in caught.value.metadata) == (kind is Unavailable)
    assert all(path != "/elsewhere" for path in issuer.requests)


async def test_a_token_endpoint_that_does_not_answer(
    sign_in: BrowserSignIn, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait has an end."""
    monkeypatch.setattr(redemption, "ANSWER_SECONDS", 0.5)
    issuer.may_redeem.clear()
    with refused(Unavailable, Reason.UNAVAILABLE):
        await sign_in.finish("a-code")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("redirect_uri", "ftp://lfs.example.org/"),
        ("redirect_uri", "https://lfs.example.org/#fragment"),
        ("redirect_uri", "https://user@lfs.example.org/"),
        ("redirect_uri", "https://[lfs"),
        ("redirect_uri", f"https://lfs.example.org/{'x' * 2_000}"),
        ("state", "short"),
        ("state", "with spaces in it, and long"),
        ("nonce", "x" * 513),
        ("code_challenge", "x" * 42),
        ("issuer", "a b"),
    ],
)
async def test_malformed_beginnings(sign_in: BrowserSignIn, issuer: Issuer, field: str, value: str) -> None:
    """The message names the field, and the issuer is not asked."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, f"{field}: "):
        await sign_in.start(**{field: value})
    assert issuer.requests == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("code", ""), ("code", "x" * 4_097), ("code", "a\nb"), ("code_verifier", "x" * 42), ("nonce", "short")],
)
async def test_malformed_ends(sign_in: BrowserSignIn, issuer: Issuer, field: str, value: str) -> None:
    """The message names the field, and the issuer is not asked."""
    with refused(InvalidArgument, Reason.INVALID_FIELD, f"{field}: "):
        await sign_in.finish(**{"code": "a-code", field: value})
    assert issuer.requests == []
    assert issuer.redeemed == []
