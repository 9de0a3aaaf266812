"""The lock endpoints over HTTP: what the facade itself decides (protocol: "Create lock" to "Delete lock")."""

import pytest

from tests.service.facade.conftest import Place
from tests.support.http import MEDIA_TYPE


@pytest.mark.parametrize("body", [None, b"", b"{}", b'{"force": null, "ref": {}}'])
async def test_unlock_and_verify_need_no_body(place: Place, body: bytes | None) -> None:
    """Clients may unlock and verify without a body, and then they need no Content-Type either."""
    async with place.client() as alice:
        lock = (await alice.lock("a")).json()["lock"]
        headers = {**alice._headers, **({"Content-Type": MEDIA_TYPE} if body else {})}
        verified = await alice.http.post(f"{place.base_url}/locks/verify", content=body, headers=headers)
        unlocked = await alice.http.post(f"{place.base_url}/locks/{lock['id']}/unlock", content=body, headers=headers)
        created = await alice.http.post(f"{place.base_url}/locks", headers=headers)
    assert (verified.status_code, unlocked.status_code, created.status_code) == (200, 200, 400)
