"""Direct transfer: clients bring and get bytes at a real store, and nothing is held that it has not confirmed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import httpx
import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Reason
from tests.support.direct import DirectStorage, direct_storage, new_repository, some_bytes
from tests.support.garbage import collect
from tests.support.postgres import TestPostgres
from tests.support.seaweedfs import SeaweedFS
from tests.support.storage import failure, oid_of
from tests.support.waiting import STEP_SECONDS, until_answer

PRESENT, MISSING, REMOVED = pb.OBJECT_STATUS_PRESENT, pb.OBJECT_STATUS_MISSING, pb.OBJECT_STATUS_REMOVED
READ, WRITE = pb.INTENT_READ, pb.INTENT_WRITE


class Table:
    """The rows of one table that are about one object."""

    def __init__(self, table: str, data: bytes, execute: Callable[[str], Awaitable[str]]) -> None:
        self._from = f"storage.{table}"
        self._where = f"WHERE name LIKE '{oid_of(data)}.%'"
        self._execute = execute

    async def get(self, what: str) -> str:
        """Select."""
        return (await self._execute(f"SELECT {what} FROM {self._from} {self._where}")).strip()  # noqa: S608 - ours

    async def set(self, what: str) -> None:
        """Update."""
        await self._execute(f"UPDATE {self._from} SET {what} {self._where}")  # noqa: S608 - ours


Tables = Callable[[str, bytes], Table]


@pytest.fixture(scope="module")
async def direct(
    seaweedfs: SeaweedFS, postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DirectStorage]:
    """A service with both directions direct, for all tests of this file; each has a repository of its own."""
    database_url = await postgres.create_database()
    async with direct_storage(seaweedfs, database_url, tmp_path_factory.mktemp("direct")) as running:
        await running.wait_signing(READ, WRITE)
        yield running


@pytest.fixture
def tables(postgres: TestPostgres, direct: DirectStorage) -> Tables:
    """Return a function that finds the rows of an object in that service's database."""
    return lambda table, data: Table(table, data, partial(postgres.execute_at, direct.database_url))


async def test_what_was_brought_is_held_when_it_is_confirmed(direct: DirectStorage) -> None:
    """A direct upload is held only once it is confirmed; then the service and the store serve it, ranges too."""
    repository, data = new_repository(), some_bytes()
    signed = await direct.upload_url(repository, data)
    assert await direct.put(signed, data) == 200
    assert await direct.service.statuses(repository, oid_of(data)) == [MISSING]
    confirmed = await direct.confirm(repository, data)
    assert (confirmed.oid, confirmed.size) == (oid_of(data), len(data))
    assert await direct.service.statuses(repository, oid_of(data)) == [PRESENT]
    assert await direct.service.read(repository, oid_of(data)) == data
    [address] = await direct.sign(repository, (oid_of(data), len(data)), intent=READ)
    assert (await direct.http.get(address.url)).content == data
    part = await direct.http.get(address.url, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, data[10:20])


@pytest.mark.parametrize("damage", ["a wrong byte", "short", "long", "empty", "another object"])
async def test_other_bytes_are_refused(direct: DirectStorage, damage: str) -> None:
    """By the store; nothing is there, and nothing is confirmed."""
    repository, data = new_repository(), some_bytes()
    body = {
        "a wrong byte": data[:500] + bytes([data[500] ^ 1]) + data[501:],
        "short": data[:-1],
        "long": data + b"x",
        "empty": b"",
        "another object": some_bytes(),
    }[damage]
    assert 400 <= await direct.put(await direct.upload_url(repository, data), body) < 500
    assert await direct.stored(data) == []
    assert (await failure(direct.confirm(repository, data))).reason == Reason.OBJECT_NOT_FOUND
    assert await direct.service.statuses(repository, oid_of(data)) == [MISSING]


@pytest.mark.parametrize("left_out", ["x-amz-checksum-sha256", "Content-Type", "Content-Encoding"])
async def test_the_headers_are_part_of_what_is_signed(direct: DirectStorage, left_out: str) -> None:
    """No checksum, no upload; and what others are told of the bytes is not for the client to choose."""
    repository, data = new_repository(), some_bytes()
    signed = await direct.upload_url(repository, data)
    for value in (None, "text/html"):
        headers = {name: text for name, text in signed.headers.items() if name != left_out}
        headers |= {} if value is None else {left_out: value}
        assert (await direct.http.put(signed.url, content=data, headers=headers)).status_code == 403
    assert await direct.stored(data) == []


async def test_an_address_does_not_fetch_other_bytes(direct: DirectStorage) -> None:
    """A header that asks the store for a copy of another object is refused: it is not signed."""
    repository, data, evil = new_repository(), some_bytes(), some_bytes()
    await direct.bring(repository, evil)
    [name] = await direct.stored(evil)
    signing = direct.backend.signing
    assert signing is not None
    signed = await direct.upload_url(repository, data)
    headers = {**signed.headers, **signing.inside.copying_headers(name)}
    assert (await direct.http.put(signed.url, content=data, headers=headers)).status_code == 403
    assert await direct.stored(data) == []


async def test_a_confirmed_object_cannot_be_replaced(direct: DirectStorage) -> None:
    """The address is still good, and takes nothing but the same bytes."""
    repository, data = new_repository(), some_bytes()
    signed = await direct.upload_url(repository, data)
    assert await direct.put(signed, data) == 200
    await direct.confirm(repository, data)
    assert await direct.put(signed, some_bytes()) == 400
    assert await direct.put(signed, data) == 200
    assert await direct.service.read(repository, oid_of(data)) == data


async def test_an_address_is_refused_after_its_end(direct: DirectStorage) -> None:
    """By the store's own clock, for both directions."""
    repository, held, data = new_repository(), some_bytes(), some_bytes()
    await direct.bring(repository, held)
    upload = await direct.upload_url(repository, data, seconds=1)
    [download] = await direct.sign(repository, (oid_of(held), len(held)), intent=READ, seconds=1)

    async def status() -> int:
        return (await direct.http.get(download.url)).status_code

    await until_answer(403, status)
    assert await direct.put(upload, data) == 403
    assert (await failure(direct.confirm(repository, data))).reason == Reason.OBJECT_NOT_FOUND


async def test_another_repository_has_nothing_of_it(direct: DirectStorage) -> None:
    """It can neither confirm what was brought for the first, nor get an address of it."""
    first, second, data = new_repository(), new_repository(), some_bytes()
    assert await direct.put(await direct.upload_url(first, data), data) == 200
    assert (await failure(direct.confirm(second, data))).reason == Reason.OBJECT_NOT_FOUND
    await direct.confirm(first, data)
    assert (await failure(direct.confirm(second, data))).reason == Reason.OBJECT_NOT_FOUND
    [address] = await direct.sign(second, (oid_of(data), len(data)), intent=READ)
    assert not address.url
    assert await direct.service.statuses(second, oid_of(data)) == [MISSING]


async def test_a_second_repository_gets_the_object_by_its_bytes(direct: DirectStorage) -> None:
    """Both read it, before and after the first has let go of it."""
    first, second, data = new_repository(), new_repository(), some_bytes()
    await direct.bring(first, data)
    await direct.bring(second, data)
    assert await direct.service.read(first, oid_of(data)) == data
    await direct.service.delete(first, oid_of(data))
    assert await direct.service.read(second, oid_of(data)) == data


async def test_confirming_again_changes_nothing(direct: DirectStorage) -> None:
    """One after the other and at once."""
    repository, data = new_repository(), some_bytes()
    assert await direct.put(await direct.upload_url(repository, data), data) == 200
    answers = await asyncio.gather(*(direct.confirm(repository, data) for _ in range(5)))
    answers.append(await direct.confirm(repository, data))
    assert {(answer.oid, answer.created_at.ToNanoseconds()) for answer in answers} == {
        (oid_of(data), answers[0].created_at.ToNanoseconds())
    }
    assert len(await direct.stored(data)) == 1


async def test_confirming_in_a_wrong_size_spoils_nothing(direct: DirectStorage) -> None:
    """A client with a wrong size must get an error, but the bytes stay for a client that knows the right size."""
    repository, data = new_repository(), some_bytes()
    assert await direct.put(await direct.upload_url(repository, data), data) == 200
    assert (await failure(direct.confirm(repository, data, size=999))).reason == Reason.OBJECT_NOT_FOUND
    await direct.confirm(repository, data)
    assert (await failure(direct.confirm(repository, data, size=999))).reason == Reason.OBJECT_NOT_FOUND


async def test_bytes_that_the_store_does_not_vouch_for_are_given_up(direct: DirectStorage, tables: Tables) -> None:
    """Whatever came under the name by another way than the address: it is never visible, and is removed."""
    repository, data = new_repository(), some_bytes()
    await direct.upload_url(repository, data)
    name = await tables("uploads", data).get("name")
    async with direct.backend.create(name, 7) as upload:
        await upload.write(b"others'")
        await upload.finish()
    assert (await failure(direct.confirm(repository, data))).reason == Reason.OBJECT_NOT_FOUND
    assert await tables("uploads", data).get("name") == ""
    await until_answer([], lambda: direct.stored(data))


async def test_an_object_that_was_removed_meanwhile_stays_removed(direct: DirectStorage) -> None:
    """No address is signed for it, and one that was is good for nothing."""
    repository, data = new_repository(), some_bytes()
    signed = await direct.upload_url(repository, data)
    await direct.service.write(repository, data)
    await direct.service.delete(repository, oid_of(data), reason="a licence")
    assert await direct.put(signed, data) == 200
    refused = await failure(direct.confirm(repository, data))
    assert (refused.reason, refused.metadata["removal_reason"]) == (Reason.OBJECT_REMOVED, "a licence")
    for intent in (READ, WRITE):
        [address] = await direct.sign(repository, (oid_of(data), len(data)), intent=intent)
        assert not address.url
        [found] = await direct.found_and_signed(repository, (oid_of(data), len(data)), intent=intent)
        assert (found.status, found.HasField("signed")) == (REMOVED, False)


async def test_an_object_that_was_collected_meanwhile_is_held(direct: DirectStorage) -> None:
    """A client that was told to upload an object has it after the upload, whatever was collected meanwhile."""
    repository, data = new_repository(), some_bytes()
    signed = await direct.upload_url(repository, data)
    await direct.service.write(repository, data)
    assert (await collect(direct.service, ["0" * 64], repository_id=repository, apply=True)).summary.garbage_count == 1
    assert await direct.service.statuses(repository, oid_of(data)) == [REMOVED]
    assert await direct.put(signed, data) == 200
    await direct.confirm(repository, data)
    assert await direct.service.read(repository, oid_of(data)) == data


async def test_a_confirmation_brings_garbage_back(direct: DirectStorage) -> None:
    """A client that confirms an object in the bin relies on it, whoever has brought the bytes."""
    repository, data = new_repository(), some_bytes()
    await direct.bring(repository, data)
    assert (await collect(direct.service, ["0" * 64], repository_id=repository, apply=True)).summary.garbage_count == 1
    await direct.confirm(repository, data)
    assert await direct.service.read(repository, oid_of(data)) == data
    await direct.service.delete(repository, oid_of(data))
    assert (await failure(direct.confirm(repository, data))).reason == Reason.OBJECT_REMOVED


async def test_a_repository_that_was_deleted_meanwhile_gets_nothing(direct: DirectStorage) -> None:
    """No address is signed for it, and what was brought is not confirmed."""
    repository, data = new_repository(), some_bytes()
    assert await direct.put(await direct.upload_url(repository, data), data) == 200
    await direct.service.delete_repository(repository)
    assert (await failure(direct.confirm(repository, data))).reason == Reason.REPOSITORY_NOT_FOUND
    for ask in (direct.sign, direct.found_and_signed):
        signing = ask(repository, (oid_of(data), len(data)), intent=WRITE)
        assert (await failure(signing)).reason == Reason.REPOSITORY_NOT_FOUND


async def test_two_uploads_of_one_object(direct: DirectStorage) -> None:
    """Each has an address of its own; whichever arrives, the object is held."""
    data = some_bytes()
    for arrives in ({0}, {1}, {0, 1}):
        repository = new_repository()
        addresses = [await direct.upload_url(repository, data) for _ in range(2)]
        assert addresses[0].url != addresses[1].url
        for number in arrives:
            assert await direct.put(addresses[number], data) == 200
        await direct.confirm(repository, data)
        assert await direct.service.read(repository, oid_of(data)) == data


async def test_only_what_can_be_moved_is_signed(direct: DirectStorage) -> None:
    """In the order asked, repeats included: what is held to be read, what is not to be written, up to 5 GiB."""
    repository, held, missing = new_repository(), some_bytes(), some_bytes()
    await direct.bring(repository, held)
    limit = 5 * 1024**3
    objects = [
        (oid_of(held), len(held)),
        (oid_of(held), len(held) + 1),
        (oid_of(missing), len(missing)),
        (oid_of(b"at the limit"), limit),
        (oid_of(b"above it"), limit + 1),
        (oid_of(b""), 0),
        (oid_of(held), len(held)),
        (oid_of(missing), len(missing)),
    ]
    reading = [bool(signed.url) for signed in await direct.sign(repository, *objects, intent=READ)]
    writing = [bool(signed.url) for signed in await direct.sign(repository, *objects, intent=WRITE)]
    assert reading == [True, False, False, False, False, False, True, False]
    assert writing == [False, False, True, True, False, False, False, True]
    for intent, signed in ((READ, reading), (WRITE, writing)):
        found = await direct.found_and_signed(repository, *objects, intent=intent)
        assert [each.HasField("signed") for each in found] == signed
        assert [each.status for each in found] == [PRESENT] * 2 + [MISSING] * 4 + [PRESENT, MISSING]


async def test_one_call_tells_what_is_held_and_where(direct: DirectStorage) -> None:
    """Its addresses are as good as those of SignObjectUrls, and none is given where none is asked for."""
    repository, data = new_repository(), some_bytes()
    key = (oid_of(data), len(data))
    [missing] = await direct.found_and_signed(repository, key, intent=WRITE)
    assert await direct.put(missing.signed, data) == 200
    await direct.confirm(repository, data)
    [held] = await direct.found_and_signed(repository, key, intent=READ)
    assert (await direct.http.get(held.signed.url)).content == data
    [unsigned] = await direct.found_and_signed(repository, key, intent=READ, seconds=0)
    assert not unsigned.HasField("signed")
    [unsigned] = await direct.found_and_signed(repository, key, intent=pb.INTENT_UNSPECIFIED)
    assert not unsigned.HasField("signed")


async def test_malformed_requests_are_refused(direct: DirectStorage) -> None:
    """An intent and a time are needed."""
    key = pb.SignObjectUrlsRequest.ObjectKey(oid=oid_of(b"any"), size=3)
    for fields in ({"expires_in": 60}, {"intent": READ}, {"intent": READ, "expires_in": -1}):
        request = pb.SignObjectUrlsRequest(repository_id=1, objects=[key], **fields)
        refused = await failure(direct.service.stub.SignObjectUrls(request, timeout=STEP_SECONDS))
        assert refused.reason == Reason.INVALID_FIELD
    asked = direct.found_and_signed(1, (oid_of(b"any"), 3), intent=READ, seconds=-1)
    assert (await failure(asked)).reason == Reason.INVALID_FIELD


async def test_addresses_end_when_they_are_asked_to(direct: DirectStorage) -> None:
    """A client must be told the expiry that the store was told, and no later one than the store allows."""
    repository, held, data = new_repository(), some_bytes(), some_bytes()
    await direct.bring(repository, held)
    [download] = await direct.sign(repository, (oid_of(held), len(held)), intent=READ, seconds=10**9)
    upload = await direct.upload_url(repository, data, seconds=10**9)
    for signed, most in ((download, 3600), (upload, 7 * 24 * 3600)):
        assert httpx.URL(signed.url).params["X-Amz-Expires"] == str(most)


@pytest.mark.parametrize("intent", [READ, WRITE])
async def test_what_has_arrived_is_held_without_a_confirmation(
    direct: DirectStorage, intent: pb.Intent.ValueType
) -> None:
    """A client that never confirms has its objects as soon as anybody asks for them."""
    repository, data, absent = new_repository(), some_bytes(), some_bytes()
    await direct.upload_url(repository, absent)
    assert await direct.put(await direct.upload_url(repository, data), data) == 200
    asked = [(oid_of(brought), len(brought)) for brought in (data, absent)]
    answer = await direct.service.stat(repository, *asked, intent=intent)
    assert [stat.status for stat in answer.objects] == [PRESENT, MISSING]
    assert await direct.service.read(repository, oid_of(data)) == data


async def test_what_has_not_arrived_is_swept_a_day_after_its_end(direct: DirectStorage, tables: Tables) -> None:
    """A request that began in time may last; then the store is asked once more, and the name goes."""
    repository, data, kept = new_repository(), some_bytes(), some_bytes()
    late = some_bytes()
    await direct.upload_url(repository, data)
    for brought in (kept, late):
        assert await direct.put(await direct.upload_url(repository, brought), brought) == 200
    for ended in (data, late):
        await tables("uploads", ended).set("expires_at = now() - interval '25 hours'")
    await tables("uploads", kept).set("expires_at = now() - interval '23 hours'")
    # Whatever wants a sweep.
    await direct.service.delete(repository, await direct.bring(repository, some_bytes()))
    await until_answer("", lambda: tables("uploads", data).get("name"))
    assert (await failure(direct.confirm(repository, data))).reason == Reason.OBJECT_NOT_FOUND
    await direct.confirm(repository, kept)
    assert await direct.service.statuses(repository, oid_of(late)) == [PRESENT]


async def test_what_is_put_again_after_its_removal_is_removed_again(direct: DirectStorage, tables: Tables) -> None:
    """The address outlives the object; so the name is looked at once more when nobody can put bytes there."""
    repository, data = new_repository(), some_bytes()
    signed = await direct.upload_url(repository, data)
    assert await direct.put(signed, data) == 200
    await direct.confirm(repository, data)
    await direct.service.delete(repository, oid_of(data))
    await direct.service.purge(repository, oid_of(data))
    await until_answer([], lambda: direct.stored(data))
    assert await direct.put(signed, data) == 200
    discards = tables("discards", data)
    assert await discards.get("due_at = writable_until AND due_at > now()") == "t"
    await discards.set("due_at = now(), writable_until = now()")
    await direct.service.delete(repository, await direct.bring(repository, some_bytes()))
    await until_answer([], lambda: direct.stored(data))
    await until_answer("", lambda: discards.get("name"))


async def test_bytes_are_counted(direct: DirectStorage) -> None:
    """Those of a download when it is signed, those of an upload when it is confirmed."""
    repository, data = new_repository(), some_bytes()

    async def usage() -> tuple[int, int]:
        answer = await direct.service.usage(repository)
        return answer.bytes_in_today, answer.bytes_out_today

    signed = await direct.upload_url(repository, data)
    assert await direct.put(signed, data) == 200
    assert await usage() == (0, 0)
    await direct.confirm(repository, data)
    assert await usage() == (1000, 0)
    await direct.sign(repository, (oid_of(data), 1000), intent=READ)
    assert await usage() == (1000, 1000)
    await direct.found_and_signed(repository, (oid_of(data), 1000), intent=READ)
    assert await usage() == (1000, 2000)
