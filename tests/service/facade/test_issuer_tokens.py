"""JSON Web Tokens and sign-in over HTTP, through the real facade, lock service and storage."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest

from tests.service.facade.conftest import Inner, Place
from tests.service.locks.issuers import add_issuer, allow
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE, Client, content, oid_of
from tests.support.issuer import Issuer, running_issuer
from tests.support.waiting import STEP_SECONDS, until_answer

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"


@pytest.fixture
async def programs(place: Place, issuer: Issuer) -> str:
    """The name of the issuer, whose programs may write their own ref in the repository."""
    name = f"ci-{place.repository_id}"
    await add_issuer(place.inner.locks, issuer, name)
    await allow(place.inner.locks, name, place.name, {"repository": "acme/film"})
    return name


def program(issuer: Issuer, ref: str, **claims: Any) -> str:  # noqa: ANN401 - claims are whatever JSON the test writes
    """Return the token of a program."""
    return issuer.token(repository="acme/film", ref=ref, **claims)


async def exchange(facade: RunningFacade, token: str, *, address: str = "", **fields: str) -> httpx.Response:
    """Ask for a token of ours, from an address behind a proxy."""
    form = {"grant_type": EXCHANGE, "subject_token": token, "subject_token_type": ID_TOKEN, **fields}
    return await _posted(f"{facade.origin}/-/token", form, address)


async def _posted(url: str, form: dict[str, str], address: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        return await http.post(url, data=form, headers={"X-Forwarded-For": address} if address else {})


@pytest.mark.usefixtures("programs")
async def test_a_program_uploads_on_its_ref_and_on_no_other(place: Place, issuer: Issuer) -> None:
    """A token with the ref main uploads on main; on release, and without a ref, it is told what it may write."""
    token = program(issuer, "refs/heads/main")
    data = content(f"{place.name} main", 2_000)
    async with Client(place.base_url, "ci", token, ref="refs/heads/main") as main:
        assert (await main.upload(data)).status_code == 200
        assert (await main.download(oid_of(data), len(data))).content == data
    other = content(f"{place.name} release", 2_000)
    for ref in ("refs/heads/release", None):
        async with Client(place.base_url, "ci", token, ref=ref) as release:
            answer = await release.batch("upload", (oid_of(other), len(other)))
            assert answer.status_code == 403
            assert "the user may write only on refs like refs/heads/main" in answer.json()["message"]
            assert (await release.download(oid_of(data), len(data))).content == data


@pytest.mark.usefixtures("programs")
async def test_two_tokens_of_one_program_keep_their_refs(place: Place, issuer: Issuer) -> None:
    """The facade keeps what each token may do apart, though both are the same user's."""
    tokens = {ref: program(issuer, ref) for ref in ("refs/heads/main", "refs/heads/release")}
    data = content(f"{place.name} both", 10)
    for _ in range(2):
        for own, token in tokens.items():
            for ref in tokens:
                async with Client(place.base_url, "ci", token, ref=ref) as client:
                    answer = await client.batch("upload", (oid_of(data), len(data)))
                    assert answer.status_code == (200 if ref == own else 403)


@pytest.mark.usefixtures("programs")
async def test_a_refused_token_is_told_why(place: Place, issuer: Issuer) -> None:
    """Refusals are 401 with the reason; an issuer that is away is 503, after which clients keep their credentials."""
    token, message = program(issuer, "refs/heads/main", exp=int(time.time()) - 1), "the JSON Web Token has expired"
    async with Client(place.base_url, "ci", token) as client:
        answers = [await client.batch("download", ("0" * 64, 1)), await client.locks()]
    for answer in (*answers, await exchange(place.facade, token)):
        assert (answer.status_code, message in answer.json()["message"]) == (401, True)
    with running_issuer() as away:
        await add_issuer(place.inner.locks, away, f"away-{place.repository_id}", user_claim="sub")
        away.is_answering = False
        async with Client(place.base_url, "ci", away.token()) as client:
            answer = await client.batch("download", ("0" * 64, 1))
            assert answer.status_code == 503
            assert 0 < int(answer.headers["retry-after"]) <= 10


@pytest.mark.usefixtures("programs")
async def test_an_exchanged_token_has_the_same_limits(place: Place, facade: RunningFacade, issuer: Issuer) -> None:
    """A job that takes longer than its JSON Web Token lives gets a token for an hour."""
    answer = await exchange(facade, program(issuer, "refs/heads/main"))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    given = answer.json()
    assert (given["token_type"], given["expires_in"]) == ("Bearer", 3_600)
    data = content(f"{place.name} exchanged", 10)
    async with Client(place.base_url, given["user"], given["access_token"], ref="refs/heads/main") as client:
        assert (await client.upload(data)).status_code == 200
    async with Client(place.base_url, given["user"], given["access_token"], ref="refs/heads/release") as client:
        assert (await client.batch("upload", (oid_of(data), len(data)))).status_code == 403


@pytest.mark.usefixtures("programs")
async def test_a_revoked_token_is_good_at_no_facade(place: Place, inner: Inner, issuer: Issuer) -> None:
    """Facades that know the token forget it, and nobody is told that it is not known any more."""
    token = program(issuer, "refs/heads/main")
    given = (await exchange(place.facade, token)).json()["access_token"]
    async with inner.running_facade(failed_logins="1000000/hour") as other:
        origins = (place.facade.origin, other.origin)
        for shown in (given, token):
            assert [await asked(origin, place, shown) for origin in origins] == [200, 200]
        answer = await revoke(place.facade, token=given, token_type_hint="access_token")
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["cache-control"] == "no-store"
        for origin in origins:
            await until_answer(401, partial(asked, origin, place, given))
            assert await asked(origin, place, token) == 200
        assert (await revoke(other, token=given)).status_code == 200


@pytest.mark.usefixtures("programs")
async def test_what_is_no_revocation(place: Place, inner: Inner, issuer: Issuer, http: httpx.AsyncClient) -> None:
    """Malformed requests are refused by their form, and a credential that stays valid is never answered 200."""
    token = program(issuer, "refs/heads/main")
    for stays in (inner.tokens["alice"], token):
        assert await asked(place.facade.origin, place, stays) == 200
        answer = await revoke(place.facade, token=stays)
        assert answer.status_code == 400
        assert answer.json()["message"].startswith("token: unsupported_token_type: ")
        assert await asked(place.facade.origin, place, stays) == 200
    assert (await revoke(place.facade, token="unknown")).status_code == 200
    for form, status in (({"token": ""}, 422), ({"other": "x"}, 422), ({"token": "a" * 80_000}, 413)):
        assert (await revoke(place.facade, **form)).status_code == status
    assert (await http.post(f"{place.facade.origin}/-/revoke", json={})).status_code == 415
    assert (await http.get(f"{place.facade.origin}/-/revoke")).status_code == 405


async def test_what_is_no_exchange(facade: RunningFacade, inner: Inner, http: httpx.AsyncClient) -> None:
    """Malformed requests are refused by their form, and a token of ours gives no other."""
    refused = await exchange(facade, inner.tokens["alice"])
    assert refused.status_code == 401
    assert refused.json()["message"] == "expected a JSON Web Token of an issuer"
    for fields in ({"grant_type": "password"}, {"subject_token": ""}, {"subject_token_type": "x"}):
        assert (await exchange(facade, "a.b.c", **fields)).status_code == 422
    assert (await exchange(facade, "a" * 80_000)).status_code == 413
    for body in (b"grant_type=%ff", b"a=1&a=2", b"&".join([b"a=1"] * 30)):
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await http.post(f"{facade.origin}/-/token", content=body, headers=headers)).status_code == 422
    assert (await http.post(f"{facade.origin}/-/token", json={})).status_code == 415
    assert (await http.get(f"{facade.origin}/-/token")).status_code == 405


async def revoke(facade: RunningFacade, *, address: str = "", **form: str) -> httpx.Response:
    """End a token, from an address behind a proxy."""
    return await _posted(f"{facade.origin}/-/revoke", form, address)


async def asked(origin: str, place: Place, token: str) -> int:
    """Return the status of a list of locks at a facade."""
    async with Client(f"{origin}/{place.name}", "somebody", token) as client:
        return (await client.locks()).status_code


@asynccontextmanager
async def _strict(inner: Inner) -> AsyncIterator[RunningFacade]:
    settings: dict[str, Any] = {"failed_logins": "3/hour", "failed_logins_wait_seconds": 1}
    async with inner.running_facade(trusted_proxies="127.0.0.1", **settings) as facade:
        yield facade


async def test_bad_exchanges_are_slowed(inner: Inner) -> None:
    """Tokens cannot be guessed here any faster than elsewhere."""
    async with _strict(inner) as facade:
        statuses = [(await exchange(facade, f"nonsense-{number}")).status_code for number in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        async with Client(f"{facade.origin}/studio/none", "x", "nonsense") as client:
            assert (await client.batch("download", ("0" * 64, 1))).status_code == 429


async def test_bad_revocations_are_slowed(inner: Inner, place: Place, issuer: Issuer, programs: str) -> None:
    """A token that has ended counts for nothing, and one that is valid ends in any case."""
    assert programs
    tokens = [program(issuer, "refs/heads/main", jti=jti) for jti in "ab"]
    given = [(await exchange(place.facade, token)).json()["access_token"] for token in tokens]
    async with _strict(inner) as facade:

        async def status(token: str) -> int:
            return (await revoke(facade, token=token, address="198.51.100.30")).status_code

        assert [await status(given[0]) for _ in range(5)] == [200] * 5
        assert [await status(f"nonsense-{number}") for number in range(5)] == [200, 200, 200, 429, 429]
        assert (await exchange(facade, "nonsense", address="198.51.100.30")).status_code == 429
        assert await status(given[1]) == 200
        await until_answer(401, partial(asked, place.facade.origin, place, given[1]))


async def test_where_people_sign_in(
    place: Place, facade: RunningFacade, issuer: Issuer, http: httpx.AsyncClient
) -> None:
    """Everybody may know it: issuers with a client, and no others."""
    client = {"client_id": "towpath", "client_secret": "public"}
    await add_issuer(place.inner.locks, issuer, f"sso-{place.repository_id}", user_claim="preferred_username", **client)
    answer = await http.get(f"{facade.origin}/.well-known/towpath", headers={"Accept": MEDIA_TYPE})
    assert answer.status_code == 200
    named = [entry for entry in answer.json()["issuers"] if entry["issuer"] == issuer.url]
    assert named == [{"name": f"sso-{place.repository_id}", "issuer": issuer.url, **client}]
    assert all(entry["client_id"] for entry in answer.json()["issuers"])
