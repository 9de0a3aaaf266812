"""Uploads, downloads and verifications on the actions' URLs (protocol: "Basic transfer")."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx

from tests.service.facade.conftest import Place
from tests.support.http import Client, content, oid_of


async def _pieces(data: bytes, length: int = 50_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), length):
        yield data[start : start + length]


async def _held(client: Client, oid: str, size: int) -> bool:
    response = await client.batch("download", (oid, size))
    return "actions" in response.json()["objects"][0]


async def test_conditions_and_head(place: Place) -> None:
    """416 with the size, If-Range, If-None-Match, several ranges, HEAD (RFC 9110)."""
    data = content("conditions", 1_000)
    etag = f'"{oid_of(data)}"'
    async with place.client() as alice:
        await alice.upload(data)
        action = await alice.action("download", oid_of(data), len(data))
        assert action is not None

        async def get(**headers: str) -> httpx.Response:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await alice.http.get(action.href, headers={**action.header, **named})

        beyond = await get(range="bytes=1000-")
        assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */1000")
        assert beyond.json()["message"]
        for whole in (
            await get(range="bytes=0-1,4-5"),
            await get(range="garbage"),
            await get(range="bytes=0-1", if_range='"other"'),
        ):
            assert (whole.status_code, whole.content) == (200, data)
        part = await get(range="bytes=0-1", if_range=etag)
        assert (part.status_code, part.content) == (206, data[:2])
        known = await get(if_none_match=etag)
        assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", etag)
        head = await alice.http.head(action.href, headers=action.header)
        assert (head.status_code, head.headers["content-length"], head.content) == (200, "1000", b"")
        assert head.headers["accept-ranges"] == "bytes"


async def test_a_large_object_is_streamed_both_ways(place: Place) -> None:
    """Piece by piece (trap-9); its hash is right at the end."""
    size = 64 * 1024**2
    piece = content("piece", 1024**2)
    digest = hashlib.sha256()
    for _ in range(64):
        digest.update(piece)

    async def body() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield piece

    seen: Any = hashlib.sha256()
    async with place.client() as alice:
        action = await alice.action("upload", digest.hexdigest(), size)
        assert action is not None
        assert (await alice.put(action, body(), size)).status_code == 200
        action = await alice.action("download", digest.hexdigest(), size)
        assert action is not None
        async with alice.http.stream("GET", action.href, headers=action.header) as response:
            async for part in response.aiter_raw():
                seen.update(part)
    assert seen.hexdigest() == digest.hexdigest()
