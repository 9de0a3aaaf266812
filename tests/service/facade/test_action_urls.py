"""Scope of an action's URL, and answers of verify (docs/protocol.md, "Basic transfer: verify action")."""

import time

import httpx
import pytest
from pydantic import SecretStr

from services.facade.auth.action_tokens import ActionGrant, ActionTokens, Operation
from tests.service.facade.conftest import Place
from tests.support.action_tokens import issue
from tests.support.facade import SIGNING_KEY
from tests.support.http import MEDIA_TYPE, basic, oid_of
from tests.support.waiting import STEP_SECONDS

EMPTY = oid_of(b"")


def _permit(place: Place, operation: Operation, oid: str, size: int) -> ActionGrant:
    return ActionGrant(operation, place.name, place.repository_id, oid, size, "alice")


def _header(grant: ActionGrant, seconds: int = 60) -> dict[str, str]:
    token = issue(ActionTokens(SecretStr(SIGNING_KEY)), grant, int(time.time()) + seconds)
    return {"Authorization": f"Bearer {token}"}


async def test_what_is_not_held_is_404(place: Place) -> None:
    """On every action's URL but the upload's."""
    oid = oid_of(b"never sent")
    url = f"{place.base_url}/objects/{oid}"
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        header = _header(_permit(place, Operation.DOWNLOAD, oid, 10))
        assert (await http.get(url, headers=header)).status_code == 404
        assert (await http.get(url, headers={**header, "If-None-Match": "*"})).status_code == 404
        assert (await http.head(url, headers=header)).status_code == 404
        header = {**_header(_permit(place, Operation.VERIFY, oid, 10)), "Content-Type": MEDIA_TYPE}
        assert (await http.post(url, json={"oid": oid, "size": 10}, headers=header)).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"oid": "OID", "size": 4}', 200),
        (b'{"oid": "OID", "size": 4, "x": null}', 200),
        (b'{"oid": "OID", "size": 5}', 404),
        (b'{"oid": "' + b"0" * 64 + b'", "size": 4}', 404),
        (b"{", 400),
        (b"", 400),
        (b"[]", 400),
        (b'{"oid": "OID"}', 400),
        (b'{"oid": "OID", "size": "4"}', 400),
        (b'{"oid": 5, "size": 4}', 400),
    ],
)
@pytest.mark.parametrize("media_type", [MEDIA_TYPE, "application/vnd.git-lfs+json"])
async def test_verify_tells_whether_the_object_is_held(place: Place, body: bytes, status: int, media_type: str) -> None:
    """200, 404 or 400, never 422 (client-1)."""
    data = b"data"
    await place.inner.storage.write(place.repository_id, data)
    url = f"{place.base_url}/objects/{oid_of(data)}"
    header = {**_header(_permit(place, Operation.VERIFY, oid_of(data), 4)), "Content-Type": media_type}
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        response = await http.post(url, content=body.replace(b"OID", oid_of(data).encode()), headers=header)
        assert response.status_code == status, response.text
        if status != 200:
            assert response.headers["content-type"] == media_type
        text = await http.post(url, content=b"x", headers={**header, "Content-Type": "text/plain"})
        assert text.status_code == 415


async def test_verify_is_not_asked_for_html(place: Place) -> None:
    """Action URLs ignore Accept, so that a download that asks for HTML still gets the bytes."""
    data = b"more data"
    await place.inner.storage.write(place.repository_id, data)
    url = f"{place.base_url}/objects/{oid_of(data)}"
    header = {**_header(_permit(place, Operation.DOWNLOAD, oid_of(data), 9)), "Accept": "text/html"}
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        assert (await http.get(url, headers=header)).content == data


async def test_a_token_opens_nothing_else(place: Place) -> None:
    """Another operation, object, repository or time is 403, never 401 (client-5)."""
    data = b"guarded"
    oid = await place.inner.storage.write(place.repository_id, data)
    url = f"{place.base_url}/objects/{oid}"
    good = _permit(place, Operation.DOWNLOAD, oid, len(data))
    others: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer x"},
        {"Authorization": basic("alice", place.inner.tokens["alice"])},
        _header(good, -1),
        _header(good._replace(operation=Operation.UPLOAD)),
        _header(good._replace(operation=Operation.VERIFY)),
        _header(good._replace(oid=EMPTY)),
        _header(good._replace(repository="studio/other")),
    ]
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        for header in others:
            for response in (
                await http.get(url, headers=header),
                await http.put(f"{place.base_url}/objects/{EMPTY}", content=b"", headers=_header(good)),
            ):
                assert response.status_code == 403, header
                assert response.json()["message"]
                assert "www-authenticate" not in response.headers
        assert (await http.get(url, headers=_header(good))).content == data


@pytest.mark.parametrize("first", [True, False])
async def test_one_good_authorization_among_several_is_enough(place: Place, *, first: bool) -> None:
    """CI checkouts add one of their own (client-9)."""
    data = b"several"
    oid = await place.inner.storage.write(place.repository_id, data)
    good = _header(_permit(place, Operation.DOWNLOAD, oid, len(data)))["Authorization"]
    values = [good, basic("x", "y")] if first else [basic("x", "y"), good]
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        response = await http.get(
            f"{place.base_url}/objects/{oid}", headers=[("Authorization", value) for value in values]
        )
    assert response.content == data


async def test_the_alias_of_the_base_address_leads_to_the_same_object(place: Place) -> None:
    """A token for `NAME` is good under every address of it."""
    data = b"alias"
    oid = await place.inner.storage.write(place.repository_id, data)
    header = _header(_permit(place, Operation.DOWNLOAD, oid, len(data)))
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        for base in (
            f"{place.base_url}.git/info/lfs",
            f"{place.base_url}/info/lfs",
            f"{place.base_url}.git",
            f"{place.base_url}.git/",
            f"{place.base_url}/",
            place.base_url.replace("/film", "%2Ffilm"),
        ):
            assert (await http.get(f"{base}/objects/{oid}", headers=header)).content == data
