"""Peculiarities of blobs in an object store: parts, remains of uploads, credentials, checksums."""

import asyncio
import os
import secrets
from typing import Any

import pytest

from services.common.errors import InvalidArgument, Unavailable
from services.storage.backends.object_store.backend import ObjectStoreBackend
from services.storage.backends.object_store.keys import key_of
from services.storage.backends.object_store.opening import open_object_store
from services.storage.backends.object_store.upload import MEBIBYTE, PART_BYTES, PartedUpload
from services.storage.blob_names import new_name
from tests.conftest import BackendFactory
from tests.service.storage.test_backend_suite import get, put
from tests.support.azurite import Azurite
from tests.support.seaweedfs import BUCKET, SeaweedFS
from tests.support.storage import oid_of


class GivenUp(Exception):
    """Whatever ends an upload."""


@pytest.fixture(params=["seaweedfs_backend", pytest.param("azurite_backend", marks=pytest.mark.drill)])
def factory(request: pytest.FixtureRequest) -> BackendFactory:
    """Return a factory of backends, for each real server."""
    made: BackendFactory = request.getfixturevalue(request.param)
    return made


@pytest.fixture
async def s3(seaweedfs: SeaweedFS) -> tuple[ObjectStoreBackend, str]:
    """A backend on the S3 server, and its prefix."""
    prefix = f"tests/{secrets.token_hex(4)}"
    return await seaweedfs.backend(prefix), prefix


async def uploads_under(server: SeaweedFS, key: str) -> list[str]:
    """Return the ids of multipart uploads whose key begins so, as S3 itself lists them."""
    client = server.client()
    try:
        listed = await asyncio.to_thread(client.list_multipart_uploads, Bucket=BUCKET, Prefix=key)
    finally:
        client.close()
    return [upload["UploadId"] for upload in listed.get("Uploads", [])]


@pytest.mark.parametrize("size", [PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES, 3 * PART_BYTES + MEBIBYTE + 7])
async def test_bytes_of_several_parts_come_back(factory: BackendFactory, size: int) -> None:
    """Bytes around the bounds of parts come back whole, and in ranges across those bounds."""
    backend = await factory("parts")
    data = os.urandom(size)
    name = await put(backend, data)
    assert await get(backend, name, 0, size) == data
    for offset, length in ((PART_BYTES - 10, 10), (size - 3, 3), (1, size - 1), (size, 0)):
        assert await get(backend, name, offset, length) == data[offset : offset + length]
    assert await backend.stat([name, new_name(oid_of(b""))]) == {name: size}


async def test_one_open_object_is_read_more_than_once(seaweedfs_backend: BackendFactory) -> None:
    """Ranges of an open object may be read in any order, also at once, and a reader may stop in the middle."""
    backend = await seaweedfs_backend("ranges")
    data = os.urandom(2 * PART_BYTES)
    name = await put(backend, data)

    async with backend.open(name) as stored:
        async for _ in stored.chunks(0, stored.size):
            break

        async def part(offset: int, length: int) -> bytes:
            return b"".join([chunk async for chunk in stored.chunks(offset, length)])

        first, second = await asyncio.gather(part(0, stored.size), part(PART_BYTES, 100))
    assert (first, second) == (data, data[PART_BYTES : PART_BYTES + 100])


def _sending() -> list[asyncio.Task[Any]]:
    """Return the tasks of uploads in parts; those of other tests' servers, which share the loop, come and go."""
    return [task for task in asyncio.all_tasks() if PartedUpload.__qualname__ in repr(task.get_coro())]


@pytest.mark.parametrize("end", [GivenUp, asyncio.CancelledError], ids=["fails", "is cancelled"])
async def test_upload_that_ends_amid_its_parts_is_taken_back(
    seaweedfs: SeaweedFS, s3: tuple[ObjectStoreBackend, str], end: type[BaseException]
) -> None:
    """A sender whose parts have arrived leaves neither object nor multipart upload, and no task of it runs on."""
    backend, prefix = s3
    name = new_name(oid_of(b"any"))
    key = key_of(prefix, name)
    begun, fails = asyncio.Event(), asyncio.Event()

    async def send() -> None:
        async with backend.create(name, 100 * MEBIBYTE) as upload:
            for _ in range(17):
                await upload.write(os.urandom(MEBIBYTE))
            assert len(await uploads_under(seaweedfs, key)) == 1
            begun.set()
            await fails.wait()
            raise GivenUp

    task = asyncio.create_task(send())
    await begun.wait()
    assert _sending()
    if end is GivenUp:
        fails.set()
    else:
        task.cancel()
    with pytest.raises(end):
        await task
    assert not _sending()
    assert await uploads_under(seaweedfs, key) == []
    assert await backend.stat([name]) == {}


async def test_discard_removes_what_a_crash_left(seaweedfs: SeaweedFS, s3: tuple[ObjectStoreBackend, str]) -> None:
    """Discard aborts every multipart upload of exactly that key, whoever began it, and removes the object."""
    backend, prefix = s3
    name = await put(backend, b"data")
    key = key_of(prefix, name)
    client = seaweedfs.client()

    def begin(key: str) -> None:
        upload_id = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        client.upload_part(Bucket=BUCKET, Key=key, UploadId=upload_id, PartNumber=1, Body=b"part")

    for each in (key, key, f"{key}-other"):
        await asyncio.to_thread(begin, each)
    client.close()
    assert len(await uploads_under(seaweedfs, key)) == 3
    await backend.delete(name)
    assert len(await uploads_under(seaweedfs, key)) == 1
    assert await backend.stat([name]) == {}
    await backend.delete(name)


async def test_discard_in_the_midst_of_an_upload(seaweedfs: SeaweedFS, s3: tuple[ObjectStoreBackend, str]) -> None:
    """An upload whose parts are discarded while it goes on does not end well, and leaves nothing."""
    backend, prefix = s3
    name = new_name(oid_of(b"any"))

    async def send() -> None:
        async with backend.create(name, 20 * MEBIBYTE) as upload:
            for number in range(20):
                if number == 15:
                    await backend.delete(name)
                await upload.write(os.urandom(MEBIBYTE))
            await upload.finish()

    with pytest.raises(Unavailable, match="refuses what it is asked"):
        await send()
    assert await backend.stat([name]) == {}
    await backend.delete(name)
    assert await uploads_under(seaweedfs, key_of(prefix, name)) == []


@pytest.mark.drill
async def test_discard_drops_blocks_of_azure(azurite: Azurite) -> None:
    """Blocks that were sent and never put together are gone after discard, and so is what was put in place."""
    prefix = secrets.token_hex(4)
    backend = await azurite.backend(prefix)
    name = new_name(oid_of(b"any"))
    async with backend.create(name, 100 * MEBIBYTE) as upload:
        for _ in range(17):
            await upload.write(os.urandom(MEBIBYTE))
    assert await azurite.uncommitted(key_of(prefix, name))
    await backend.delete(name)
    assert not await azurite.uncommitted(key_of(prefix, name))
    name = await put(backend, b"data")
    await backend.delete(name)
    assert [entry async for entry in backend.list_blobs()] == []


async def test_keys_of_others_are_not_listed(seaweedfs: SeaweedFS, s3: tuple[ObjectStoreBackend, str]) -> None:
    """A listing must pass over keys below the prefix that are no blob names, or are at the wrong place."""
    backend, prefix = s3
    names = sorted([await put(backend, str(number).encode()) for number in range(30)])
    client = seaweedfs.client()
    for key in ("notes.txt", "objects/notes.txt", f"objects/00/00/{names[-1]}", f"objects/{names[0]}"):
        await asyncio.to_thread(client.put_object, Bucket=BUCKET, Key=f"{prefix}/{key}", Body=b"x")
    client.close()
    assert [name async for name, _ in backend.list_blobs()] == names


async def test_more_than_was_announced(seaweedfs_backend: BackendFactory) -> None:
    """More bytes than announced are not gathered in memory, and a size that no store takes is refused."""
    backend = await seaweedfs_backend("announced")
    name = new_name(oid_of(b"any"))
    async with backend.create(name, 1) as upload:
        for _ in range(5):
            await upload.write(bytes(MEBIBYTE))
        with pytest.raises(ValueError, match="as announced"):
            await upload.write(b"1")
    with pytest.raises(InvalidArgument, match="size: expected at most"):
        async with backend.create(name, 5 * 1024**4 + 1):
            pass


async def test_wrong_credentials_are_not_told(
    seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store that refuses the credentials is named as the reason; neither error nor log has them."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret")
    backend = await seaweedfs.backend()
    name = new_name(oid_of(b""))
    with pytest.raises(Unavailable, match="does not accept the credentials") as caught:
        await backend.stat([name])
    with pytest.raises(Unavailable):
        await backend.check()
    with pytest.raises(Unavailable):
        await backend.delete(name)
    assert caught.value.__cause__ is None
    log = capsys.readouterr().out
    assert log.count("403") == 3
    for text in (str(caught.value), log):
        assert "a-wrong-secret" not in text
        assert seaweedfs.access_key not in text
        assert "Signature=" not in text


async def test_the_url_alone_says_where_the_bucket_is(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the environment that name other addresses of S3 change nothing, for neither library."""
    for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_BUCKET", "another")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    backend = await seaweedfs.backend(secrets.token_hex(4))
    name = await put(backend, b"data")
    assert await get(backend, name, 0, 4) == b"data"
    await backend.delete(name)


async def test_no_credentials(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service without credentials must not start, and must say where it looks for them."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ValueError, match=r"s3: expected credentials in the environment, ~/.aws, or a role"):
        await open_object_store(seaweedfs.url())


async def test_no_bucket(seaweedfs: SeaweedFS) -> None:
    """A bucket that is not there is no reason to be ready."""
    backend = await open_object_store(seaweedfs.url(bucket="nobodys-bucket"))
    with pytest.raises(Unavailable):
        await backend.check()
