"""ListObjects and GetUsage."""

import itertools
from collections.abc import Callable

import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.service.storage.conftest import Sql
from tests.support.storage import RunningStorage, failure, oid_of
from tests.support.waiting import STEP_SECONDS

OID, LARGEST, NEWEST = pb.OBJECT_ORDER_UNSPECIFIED, pb.OBJECT_ORDER_LARGEST, pb.OBJECT_ORDER_NEWEST
ANY, HELD, BIN, DAMAGED = (
    pb.OBJECT_STATE_UNSPECIFIED,
    pb.OBJECT_STATE_HELD,
    pb.OBJECT_STATE_BIN,
    pb.OBJECT_STATE_DAMAGED,
)


async def page(
    storage: RunningStorage,
    *,
    cursor: str = "",
    limit: int = 0,
    order: "pb.ObjectOrder.ValueType" = OID,
    state: "pb.ObjectState.ValueType" = ANY,
) -> pb.ListObjectsResponse:
    """Return a page of repository 1."""
    request = pb.ListObjectsRequest(repository_id=1, cursor=cursor, limit=limit, order=order, state=state)
    return await storage.stub.ListObjects(request, timeout=STEP_SECONDS)


async def all_pages(
    storage: RunningStorage, order: "pb.ObjectOrder.ValueType", state: "pb.ObjectState.ValueType"
) -> list[pb.Object]:
    """Return all objects of a list of repository 1, which has to come in pages of two."""
    answer = await page(storage, order=order, state=state, limit=2)
    listed = list(answer.objects)
    while answer.next_cursor:
        assert len(answer.objects) == 2
        answer = await page(storage, order=order, state=state, limit=2, cursor=answer.next_cursor)
        listed += answer.objects
    return listed


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


async def test_orders_and_states(storage: RunningStorage, sql: Sql) -> None:
    """Each list has the objects of its state, all of them once, in its order, also where sizes and times are equal."""
    oids = [await storage.write(1, bytes(size)) for size in (5, 0, 7, 300, 12, 1)]
    oids += [await storage.write(1, bytes([number] * 9)) for number in range(1, 6)]
    await storage.write(2, b"other")
    held = set(oids)
    for oid in (oids[3], oids[0], oids[7], oids[9], oids[4]):
        await storage.delete(1, oid)
        held.remove(oid)
    await storage.purge(1, oids[0])
    damaged = {oids[2], oids[8], oids[10]}
    for oid in (*damaged, oids[9]):
        await sql(f"UPDATE storage.contents SET is_doubted = true WHERE oid = '{oid}'")  # noqa: S608 - an oid
    # As one statement that adds several objects does.
    await sql("UPDATE storage.objects SET created_at = '2026-03-01 12:00:00.000001Z' WHERE size = 9")
    everything = await all_pages(storage, OID, ANY)
    assert [listed.oid for listed in everything] == sorted(oids)
    assert {listed.oid for listed in everything if listed.is_damaged} == {*damaged, oids[9]}
    members = {ANY: set(oids), HELD: held, BIN: set(oids) - held - {oids[0]}, DAMAGED: damaged}
    keys: dict[pb.ObjectOrder.ValueType, Callable[[pb.Object], tuple[int, str]]] = {
        LARGEST: lambda listed: (listed.size, listed.oid),
        NEWEST: lambda listed: (listed.created_at.ToNanoseconds(), listed.oid),
    }
    for (state, expected), order in itertools.product(members.items(), (OID, LARGEST, NEWEST)):
        listed = await all_pages(storage, order, state)
        assert {entry.oid for entry in listed} == expected
        if order is OID:
            assert listed == [entry for entry in everything if entry.oid in expected]
        elif (order, state) != (NEWEST, BIN):
            assert listed == sorted(listed, key=keys[order], reverse=True)
    assert [entry.oid for entry in await all_pages(storage, NEWEST, BIN)] == [oids[4], oids[9], oids[7], oids[3]]


async def test_a_list_tells_who_brought_an_object_and_when_it_was_used(storage: RunningStorage, sql: Sql) -> None:
    """A field that is not known is not set."""
    brought = await storage.write(1, b"brought", user_id=7)
    unknown = await storage.write(1, b"unknown")
    await storage.announce(1, (brought, 7))
    by_oid = {entry.oid: entry for entry in (await page(storage, order=NEWEST, state=HELD)).objects}
    assert by_oid[brought].added_by == 7
    assert by_oid[brought].used_at.ToNanoseconds() >= by_oid[brought].created_at.ToNanoseconds()
    assert (by_oid[unknown].added_by, by_oid[unknown].HasField("used_at")) == (0, False)
    assert {entry.oid: entry for entry in (await storage.usage(1, largest=2)).largest} == by_oid
    # Bytes that one store has lost are no loss while another one has them.
    lost = "INSERT INTO storage.stores (name, url, is_primary) VALUES ('other', 'file:///nowhere', false) RETURNING id"
    content = f"'{brought}', {await sql(lost)}, '{brought}', true"
    await sql(f"INSERT INTO storage.contents (oid, store_id, name, is_doubted) VALUES ({content})")  # noqa: S608 - an oid
    assert not (await page(storage, state=DAMAGED)).objects
    assert [entry.is_damaged for entry in (await page(storage)).objects] == [False, False]


async def test_pages_by_time_while_objects_come(storage: RunningStorage) -> None:
    """A page goes on where the one before ended, whatever has come since."""
    oids = [await storage.write(1, b"%d" % number) for number in range(3)]
    first = await page(storage, order=NEWEST, state=HELD, limit=2)
    await storage.write(1, b"late")
    rest = await page(storage, order=NEWEST, state=HELD, limit=2, cursor=first.next_cursor)
    assert [entry.oid for entry in [*first.objects, *rest.objects]] == oids[::-1]
    assert rest.next_cursor == ""


@pytest.mark.shared_storage
@pytest.mark.parametrize("field", ["order", "state"])
async def test_unknown_lists(storage: RunningStorage, field: str) -> None:
    """A number that the enum does not have is refused by the name of its field."""
    request = pb.ListObjectsRequest(repository_id=1)
    setattr(request, field, 9)
    error = await failure(storage.stub.ListObjects(request, timeout=STEP_SECONDS))
    assert (error.reason, error.message.split(":")[0]) == ("INVALID_FIELD", field)


@pytest.mark.shared_storage
@pytest.mark.parametrize("cursor", ["x", "0" * 63, "F" * 64, "' OR 1=1 --", "\0"])
async def test_malformed_cursors(storage: RunningStorage, cursor: str) -> None:
    """A cursor that no page gave is INVALID_CURSOR."""
    error = await failure(page(storage, cursor=cursor))
    assert (error.status.name, error.reason) == ("INVALID_ARGUMENT", "INVALID_CURSOR")


async def test_usage(storage: RunningStorage) -> None:
    """Usage counts what is held, was removed, lies in the bin and moved, for each repository asked, in order."""
    oid = await storage.write(1, bytes(100))
    await storage.write(1, bytes(50))
    await storage.write(2, bytes(7))
    await storage.read(1, oid, offset=90)
    await storage.delete(1, oid)
    await storage.delete(1, await storage.write(1, b"purged"))
    await storage.purge(1, oid_of(b"purged"))
    answer = await storage.stub.GetUsage(pb.GetUsageRequest(repository_ids=[2, 1, 3, 1]), timeout=STEP_SECONDS)
    one = pb.RepositoryUsage(
        object_count=1,
        object_bytes=50,
        removed_count=2,
        bin_count=1,
        bin_bytes=100,
        bytes_in_today=156,
        bytes_out_today=10,
        growth_bytes=50,
    )
    two = pb.RepositoryUsage(object_count=1, object_bytes=7, bytes_in_today=7, growth_bytes=7)
    assert list(answer.repositories) == [two, one, pb.RepositoryUsage(), one]
    assert answer.available_bytes > 0
