"""ListObjects and GetUsage."""

import asyncio

import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.support.storage import RunningStorage, failure
from tests.support.waiting import STEP_SECONDS


async def page(storage: RunningStorage, *, cursor: str = "", limit: int = 0) -> pb.ListObjectsResponse:
    """Return a page of repository 1."""
    request = pb.ListObjectsRequest(repository_id=1, cursor=cursor, limit=limit)
    return await storage.stub.ListObjects(request, timeout=STEP_SECONDS)


async def test_pages(storage: RunningStorage) -> None:
    """All objects come once, by oid, page by page, removed ones included; the last page has no cursor."""
    oids = sorted(await asyncio.gather(*(storage.write(1, b"%d" % number) for number in range(7))))
    await storage.write(2, b"other")
    await storage.delete(1, oids[3], reason="a licence")
    listed: list[pb.Object] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        answer = await page(storage, cursor=cursor, limit=2)
        listed += answer.objects
        cursor, pages = answer.next_cursor, pages + 1
    assert [each.oid for each in listed] == oids
    assert pages == 4
    assert [each.oid for each in listed if each.HasField("removed_at")] == [oids[3]]
    assert listed[3].removal_reason == "a licence"


async def test_pages_that_just_fit(storage: RunningStorage) -> None:
    """A page that ends with the last object has no cursor, and a repository without objects one empty page."""
    assert await page(storage) == pb.ListObjectsResponse()
    for number in range(2):
        await storage.write(1, b"%d" % number)
    for limit in (2, 0, 2**31 - 1):
        assert (await page(storage, limit=limit)).next_cursor == ""


async def test_pages_while_objects_come_and_go(storage: RunningStorage) -> None:
    """The object that a cursor names may go; the next page goes on behind it."""
    oids = sorted([await storage.write(1, b"%d" % number) for number in range(4)])
    first = await page(storage, limit=2)
    await storage.delete(1, oids[1])
    await storage.purge(1, oids[1])
    await storage.restore(1, oids[1], bytes_required=False)
    assert await storage.statuses(1, oids[1]) == [pb.OBJECT_STATUS_MISSING]
    rest = await page(storage, cursor=first.next_cursor, limit=2)
    assert [each.oid for each in [*first.objects, *rest.objects]] == oids


@pytest.mark.parametrize("cursor", ["x", "0" * 63, "F" * 64, "' OR 1=1 --", "\0"])
async def test_malformed_cursors(storage: RunningStorage, cursor: str) -> None:
    """A cursor that no page gave is INVALID_CURSOR."""
    error = await failure(page(storage, cursor=cursor))
    assert (error.status.name, error.reason) == ("INVALID_ARGUMENT", "INVALID_CURSOR")


async def test_usage(storage: RunningStorage) -> None:
    """Usage counts what is held, what was removed and what moved, for each repository asked, in order."""
    oid = await storage.write(1, bytes(100))
    await storage.write(1, bytes(50))
    await storage.write(2, bytes(7))
    await storage.read(1, oid, offset=90)
    await storage.delete(1, oid)
    answer = await storage.stub.GetUsage(pb.GetUsageRequest(repository_ids=[2, 1, 3, 1]), timeout=STEP_SECONDS)
    one = pb.RepositoryUsage(
        object_count=1,
        object_bytes=50,
        removed_count=1,
        bin_count=1,
        bin_bytes=100,
        bytes_in_today=150,
        bytes_out_today=10,
        growth_bytes=50,
    )
    two = pb.RepositoryUsage(object_count=1, object_bytes=7, bytes_in_today=7, growth_bytes=7)
    assert list(answer.repositories) == [two, one, pb.RepositoryUsage(), one]
    assert answer.available_bytes > 0
