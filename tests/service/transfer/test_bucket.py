"""Buckets as the source and the target of objects."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import closing

import pytest

from services.cli.errors import CommandError
from services.cli.pointers.named import Pointer
from services.transfer.bucket import BucketSink, BucketSource
from services.transfer.errors import Kind, ObjectProblem
from tests.service.transfer.test_folder import listed, move, read
from tests.support.http import content, oid_of
from tests.support.seaweedfs import BUCKET, SeaweedFS

DATAS = [content(f"object {number}", 1000 + number) for number in range(30)] + [content("large", 11_000_000)]
EXPECTED = {oid_of(data): data for data in DATAS}


@pytest.fixture
def prefix() -> str:
    """A prefix that nobody else has."""
    return f"transfer-{secrets.token_hex(4)}"


def fill(server: SeaweedFS, prefix: str, template: str) -> None:
    """Put all objects under keys of a template."""
    with closing(server.client()) as client:
        for oid, data in EXPECTED.items():
            key = template.format(oid[:2], oid[2:4], oid=oid, rest=oid[4:])
            client.put_object(Bucket=BUCKET, Key=f"{prefix}/{key}", Body=data)
        client.put_object(Bucket=BUCKET, Key=f"{prefix}/readme.txt", Body=b"no object")


def keys(server: SeaweedFS, prefix: str) -> dict[str, bytes]:
    """Return what lies below a prefix."""
    with closing(server.client()) as client:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/")
        names = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return {
            name.removeprefix(f"{prefix}/"): client.get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in names
        }


@pytest.mark.parametrize("template", ["lfs/{0}/{1}/{rest}", "{0}/{1}/{oid}", "{oid}"])
async def test_every_layout(seaweedfs: SeaweedFS, prefix: str, template: str) -> None:
    """As Gitea, GitLab and others have it; listed, and read by the same keys."""
    fill(seaweedfs, prefix, template)
    source = await BucketSource.open(seaweedfs.url(prefix))
    pointers = await listed(source)
    assert pointers == sorted(Pointer(oid, len(data)) for oid, data in EXPECTED.items())
    for pointer in pointers:
        assert await read(source, pointer) == EXPECTED[pointer.oid]
    unlisted = await BucketSource.open(seaweedfs.url(prefix))
    await unlisted.announce(pointers)
    assert await read(unlisted, pointers[0]) == EXPECTED[pointers[0].oid]
    with pytest.raises(ObjectProblem) as caught:
        await read(unlisted, Pointer("0" * 64, 1))
    assert caught.value.kind is Kind.MISSING
    with pytest.raises(ObjectProblem) as caught:
        await read(unlisted, pointers[0]._replace(size=1))
    assert caught.value.kind is Kind.WRONG


async def test_a_bucket_to_a_bucket(seaweedfs: SeaweedFS, prefix: str) -> None:
    """Under the keys of git-lfs, large objects in parts; a second run copies nothing."""
    fill(seaweedfs, f"{prefix}-from", "{0}/{1}/{rest}")
    source = await BucketSource.open(seaweedfs.url(f"{prefix}-from"))
    sink = await BucketSink.open(seaweedfs.url(prefix))
    for copied in (len(DATAS), 0):
        mover = await move(source, sink)
        assert (mover.moved.copied_count, mover.moved.problems) == (copied, [])
    assert keys(seaweedfs, prefix) == {f"{oid[:2]}/{oid[2:4]}/{oid}": data for oid, data in EXPECTED.items()}


async def test_an_upload_that_breaks_off_leaves_no_key(seaweedfs: SeaweedFS, prefix: str) -> None:
    """Somebody who lists the bucket never sees a part of an object."""
    sink = await BucketSink.open(seaweedfs.url(prefix))

    async def chunks() -> AsyncGenerator[bytes, None]:
        for _ in range(7):
            yield b"x" * 1_000_000
        raise ObjectProblem(Kind.WRONG, "it broke")

    with pytest.raises(ObjectProblem, match="it broke"):
        await sink.write(Pointer("0" * 64, 20_000_000), chunks())
    assert keys(seaweedfs, prefix) == {}


async def test_places_that_are_none(seaweedfs: SeaweedFS) -> None:
    """No message has a credential."""
    with pytest.raises(CommandError, match="expected no credentials"):
        await BucketSource.open("s3://key:secret@bucket/prefix")
    source = await BucketSource.open(seaweedfs.url(bucket="absent-bucket"))
    with pytest.raises(CommandError, match="the object store"):
        await listed(source)
