"""Uploads, downloads and verifications on the actions' URLs (protocol: "Basic transfer")."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.service.facade.conftest import Place
from tests.support.http import Client, content, oid_of
from tests.support.waiting import until


async def _pieces(data: bytes, length: int = 50_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), length):
        yield data[start : start + length]


async def _held(client: Client, oid: str, size: int) -> bool:
    response = await client.batch("download", (oid, size))
    return "actions" in response.json()["objects"][0]


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1024**2, 1024**2 + 1, 5_000_000])
async def test_an_object_goes_up_and_comes_down(place: Place, size: int) -> None:
    """Byte for byte, with its exact length; the upload's answer is empty."""
    data = content(f"object of {size}", size)
    async with place.client() as alice:
        uploaded = await alice.upload(data)
        downloaded = await alice.download(oid_of(data), size)
    assert (uploaded.status_code, uploaded.content) == (200, b"")
    assert downloaded.content == data
    assert downloaded.headers["content-type"] == "application/octet-stream"
    assert downloaded.headers["content-length"] == str(size)
    assert downloaded.headers["etag"] == f'"{oid_of(data)}"'
    assert "x-request-id" in downloaded.headers


@pytest.mark.parametrize("content_type", ["text/plain", "application/json", "multipart/form-data; boundary=x", None])
@pytest.mark.parametrize("chunked", [True, False])
async def test_an_upload_may_have_any_type_and_no_length(
    place: Place, content_type: str | None, *, chunked: bool
) -> None:
    """The widespread client sniffs the type (client-10); the bytes are stored verbatim."""
    data = content(f"{content_type} {chunked}", 200_000)
    async with place.client() as alice:
        action = await alice.action("upload", oid_of(data), len(data))
        assert action is not None
        headers = {**action.header, **({"Content-Type": content_type} if content_type else {})}
        put = await alice.http.put(action.href, content=_pieces(data) if chunked else data, headers=headers)
        downloaded = await alice.download(oid_of(data), len(data))
    assert put.status_code == 200, put.text
    assert downloaded.content == data


@pytest.mark.parametrize("size", [100, 3_000_000])
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("fault", ["other bytes", "too short", "too long"])
async def test_wrong_bytes_are_answered_400_and_nothing_is_kept(
    place: Place, fault: str, size: int, *, chunked: bool
) -> None:
    """Never 422, which a client takes for success (client-1, trap-1, trap-2, trap-5)."""
    data = content(f"{fault} {size} {chunked}", size)
    sent = {"other bytes": data[:-1] + bytes([data[-1] ^ 1]), "too short": data[:-1], "too long": data + b"x"}[fault]
    async with place.client() as alice:
        action = await alice.action("upload", oid_of(data), size)
        assert action is not None
        put = await alice.http.put(action.href, content=_pieces(sent) if chunked else sent, headers=action.header)
        assert put.status_code == 400, put.text
        assert put.json()["message"]
        assert not await _held(alice, oid_of(data), size)
        assert (await alice.upload(data)).status_code == 200


async def test_an_interrupted_upload_leaves_nothing(place: Place) -> None:
    """An interrupted upload leaves no file that counts as present or blocks the next upload (trap-2, trap-3)."""
    data = content("interrupted", 4_000_000)

    async def half() -> AsyncIterator[bytes]:
        yield data[:2_000_000]
        await asyncio.sleep(0.2)
        raise ConnectionError

    before = place.inner.storage.files()
    async with place.client() as alice:
        action = await alice.action("upload", oid_of(data), len(data))
        assert action is not None
        with pytest.raises(ConnectionError):
            await alice.put(action, half(), len(data))
        await until(lambda: place.inner.storage.files() == before)
        assert not await _held(alice, oid_of(data), len(data))
        assert (await alice.upload(data)).status_code == 200


async def test_concurrent_uploads_of_one_object_all_succeed(place: Place) -> None:
    """Whoever comes first (trap-4); a repeated one too."""
    data = content("concurrent", 2_000_000)
    async with place.client() as alice:
        action = await alice.action("upload", oid_of(data), len(data))
        assert action is not None
        answers = await asyncio.gather(*(alice.put(action, data, len(data)) for _ in range(8)))
        again = await alice.put(action, data, len(data))
        downloaded = await alice.download(oid_of(data), len(data))
    assert {answer.status_code for answer in [*answers, again]} == {200}
    assert downloaded.content == data


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=1500000-", 1_500_000, 2_000_000),
        ("bytes=-3", 1_999_997, None),
    ],
)
async def test_a_range_is_answered_206(place: Place, asked: str, start: int, end: int | None) -> None:
    """With those bytes and no others (trap-8)."""
    data = content("ranges", 2_000_000)
    async with place.client() as alice:
        await alice.upload(data)
        action = await alice.action("download", oid_of(data), len(data))
        assert action is not None
        response = await alice.http.get(action.href, headers={**action.header, "Range": asked})
    assert response.status_code == 206
    assert response.content == data[start:end]
    last = (end or len(data)) - 1
    assert response.headers["content-range"] == f"bytes {start}-{last}/{len(data)}"


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
