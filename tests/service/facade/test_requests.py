"""The order in which every request is checked."""

import httpx
import pytest

from services.facade.web.media_types import GIT_LFS
from tests.service.facade.conftest import Place
from tests.support.http import basic
from tests.support.waiting import STEP_SECONDS


async def _post(place: Place, headers: dict[str, str], path: str, content: bytes) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, headers={"Accept": "*/*"}) as http:
        return await http.post(f"{place.base_url}/{path}", content=content, headers=headers)


@pytest.mark.parametrize("path", ["objects/batch", "locks", "locks/verify", "locks/1/unlock"])
async def test_the_checks_have_one_order(place: Place, path: str) -> None:
    """406, 401, 415, 413, 400, 422, then the access."""
    content = b"{" + b" " * 11 * 1024**2
    headers = {"Accept": "text/html", "Authorization": "x", "Content-Type": "text/plain"}
    good = basic("alice", place.inner.tokens["alice"])
    better = [{"Accept": "*/*"}, {"Authorization": good}, {"Content-Type": GIT_LFS.media_type}]
    for status in (406, 401, 415):
        assert (await _post(place, headers, path, content)).status_code == status
        headers |= better.pop(0)
    assert (await _post(place, headers, path, content)).status_code == 413
    assert (await _post(place, headers, path, b"{")).status_code == 400
    place.name = "studio/unknown"
    assert (await _post(place, headers, path, b'{"ref": 5}')).status_code == 422
    fit = b'{"operation": "upload", "objects": [], "path": "a"}'
    assert (await _post(place, headers, path, fit)).status_code == (404 if path == "objects/batch" else 403)
