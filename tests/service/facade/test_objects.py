"""Downloads and verifications on the actions' URLs (protocol: "Basic transfer")."""

import time

import httpx
from pydantic import SecretStr

from services.facade.auth.action_tokens import ActionGrant, ActionTokens, Operation
from tests.service.facade.conftest import Place
from tests.support.action_tokens import issue
from tests.support.facade import SIGNING_KEY
from tests.support.http import MEDIA_TYPE, content, oid_of


def _header(place: Place, operation: Operation, oid: str, size: int) -> dict[str, str]:
    grant = ActionGrant(operation, place.name, place.repository_id, oid, size, "alice")
    token = issue(ActionTokens(SecretStr(SIGNING_KEY)), grant, int(time.time()) + 60)
    return {"Authorization": f"Bearer {token}"}


async def test_what_is_not_held_is_404(place: Place, http: httpx.AsyncClient) -> None:
    """Downloads and verifications of an object that is not held are 404, and no JSON of another type is verified."""
    oid = oid_of(b"never sent")
    url = f"{place.base_url}/objects/{oid}"
    header = _header(place, Operation.DOWNLOAD, oid, 10)
    assert (await http.get(url, headers=header)).status_code == 404
    assert (await http.get(url, headers={**header, "If-None-Match": "*"})).status_code == 404
    assert (await http.head(url, headers=header)).status_code == 404
    for media_type, status in ((MEDIA_TYPE, 404), ("text/plain", 415)):
        header = {**_header(place, Operation.VERIFY, oid, 10), "Content-Type": media_type}
        assert (await http.post(url, json={"oid": oid, "size": 10}, headers=header)).status_code == status


async def test_conditions_of_a_download(place: Place) -> None:
    """A part is of the object that If-Range names, and an object that If-None-Match names is 304 (RFC 9110)."""
    data = content("conditions", 1_000)
    etag = f'"{oid_of(data)}"'
    async with place.client() as alice:
        await alice.upload(data)
        action = await alice.offered("download", data)

        async def get(**headers: str) -> httpx.Response:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await alice.http.get(action.href, headers={**action.header, **named})

        whole = await get(range="bytes=0-1", if_range='"other"')
        assert (whole.status_code, whole.content) == (200, data)
        part = await get(range="bytes=0-1", if_range=etag)
        assert (part.status_code, part.content) == (206, data[:2])
        known = await get(if_none_match=etag)
        assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", etag)
