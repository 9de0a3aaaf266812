"""The upload action (docs/protocol.md, "Basic transfer: upload action")."""

import asyncio
from typing import Any

from services.conformance.blobs import Blob, corrupted, new_blob
from services.conformance.case import case
from services.conformance.client import Action, Client, action_of, offered_download, preparing
from services.conformance.outcome import Finding, Level
from services.conformance.site import Site

_CLIENT = "What kills, loops or deceives the widespread client"
_SIZE = 2000


async def _offered(client: Client, blob: Blob) -> Action:
    with preparing("a batch for the upload of an object"):
        return await client.action("upload", blob)


async def _expect_not_served(client: Client, announced: dict[str, Any], what: str) -> None:
    """Expect that the object, of which only wrong bytes came, cannot be downloaded."""
    action = offered_download(await client.batch("download", announced))
    if action is None:
        return
    answer = await client.get(action)
    answer.expect(not answer.is_success, f"no bytes of an object of which {what} came", f"{len(answer.content)} bytes")


async def _put_and_verify(client: Client, announced: dict[str, Any], content: bytes) -> None:
    """Upload these bytes for an entry, as a client does that is wrong about them."""
    with preparing("a batch for the upload of an object"):
        entry = await client.entry("upload", announced)
        upload = action_of(entry, "upload")
    await client.put(upload, content)
    if entry["actions"].get("verify"):
        # Where bytes do not pass through the server, it learns of them now.
        await client.verify(action_of(entry, "verify"), announced)


@case("Basic transfer: upload action", "Trigger, request, response")
async def put_is_answered_with_200(site: Site) -> None:
    """A PUT of the bytes is answered with 200."""
    blob = new_blob(_SIZE)
    (await site.first.put(await _offered(site.first, blob), blob.content)).expect_status(200)


@case("Basic transfer: upload action", "Trigger, request, response")
async def the_bytes_come_back(site: Site) -> None:
    """After an upload, the object can be downloaded at once, with the same bytes."""
    blob = new_blob(_SIZE)
    (await site.first.store(blob)).expect(True, "")
    answer = await site.first.get(await site.first.action("download", blob))
    answer.expect(answer.content == blob.content, "the bytes that were uploaded", f"{len(answer.content)} others")


@case("Batch request object entry", "size", Level.SHOULD)
async def the_empty_object_is_stored(site: Site) -> None:
    """The object of 0 bytes can be uploaded and downloaded."""
    empty = Blob(b"")
    # It may be held, or be said to be.
    held = offered_download(await site.first.batch("download", empty.entry))
    if held is None or not (await site.first.get(held)).is_success:
        answer = await site.first.store(empty)
        answer.expect(answer.is_success, "a success of the PUT of 0 bytes")
    answer = await site.first.get(await site.first.action("download", empty))
    answer.expect(answer.is_success and not answer.content, "a success with 0 bytes")


@case("Basic transfer: upload action", "Trigger, request, response", Level.SHOULD)
async def any_content_type_is_taken(site: Site) -> None:
    """The Content-Type is of no account, as git-lfs guesses it (client-10)."""
    blob = Blob(b'{"a": "%41"}\r\n' + new_blob(_SIZE).content)
    action = await _offered(site.first, blob)
    answer = await site.first.put(action, blob.content, content_type="text/plain; charset=utf-8")
    answer.expect(answer.is_success, "a success")


@case("Traps of other servers", "4 two uploads of one object hinder each other", Level.SHOULD)
async def a_put_may_be_repeated(site: Site) -> None:
    """A PUT of the same bytes may be repeated (client-19)."""
    blob = new_blob(_SIZE)
    action = await _offered(site.first, blob)
    for _ in range(2):
        answer = await site.first.put(action, blob.content)
        answer.expect(answer.is_success, "a success")


@case("Traps of other servers", "4 two uploads of one object hinder each other", Level.SHOULD)
async def two_uploads_of_one_object_succeed(site: Site) -> None:
    """Two uploads of one object at once both succeed (trap-4)."""
    blob = new_blob(_SIZE)
    actions = [await _offered(site.first, blob) for _ in range(2)]
    for answer in await asyncio.gather(*(site.first.put(action, blob.content) for action in actions)):
        answer.expect(answer.is_success, "a success of both")


@case("Traps of other servers", "1 wrong bytes under a right oid")
async def wrong_bytes_are_never_served(site: Site) -> None:
    """Bytes of another hash than the oid are not stored under it (trap-1)."""
    blob = new_blob(_SIZE)
    await _put_and_verify(site.first, blob.entry, corrupted(blob.content))
    await _expect_not_served(site.first, blob.entry, "wrong bytes")


@case("Basic transfer: upload action", "Content-Length equal to the size")
async def bytes_of_another_size_are_never_served(site: Site) -> None:
    """Fewer or more bytes than the object has are not stored (trap-2, trap-5)."""
    short, long = new_blob(_SIZE), new_blob(_SIZE)
    await _put_and_verify(site.first, short.entry, short.content[:-1])
    await _expect_not_served(site.first, short.entry, "too few bytes")
    await _put_and_verify(site.first, long.entry, long.content + b"x")
    await _expect_not_served(site.first, long.entry, "too many bytes")


@case("Traps of other servers", "5 the size is believed", Level.SHOULD)
async def an_object_of_a_wrong_size_is_never_served(site: Site) -> None:
    """Right bytes that were announced with a wrong size are not stored with that size (trap-5)."""
    blob = new_blob(_SIZE)
    announced = {"oid": blob.oid, "size": blob.size + 1}
    await _put_and_verify(site.first, announced, blob.content)
    await _expect_not_served(site.first, announced, "one byte less than announced")


@case(_CLIENT, "1 422 on PUT or verify is taken for success", Level.SHOULD)
async def a_refused_upload_is_no_422(site: Site) -> None:
    """Wrong bytes are refused with another status than 422, which git-lfs takes for a success (client-1)."""
    blob = new_blob(_SIZE)
    answer = await site.first.put(await _offered(site.first, blob), corrupted(blob.content))
    answer.expect(answer.status >= 400 and answer.status not in (401, 422), "an error other than 401 and 422")


@case("Traps of other servers", "3 a left-over file blocks later uploads", Level.SHOULD)
async def a_refused_upload_may_be_repeated(site: Site) -> None:
    """After wrong bytes, the right ones are accepted (trap-3)."""
    blob = new_blob(_SIZE)
    await _put_and_verify(site.first, blob.entry, corrupted(blob.content))
    try:
        answer = await site.first.store(blob)
    except Finding as finding:
        raise Finding("an upload of the right bytes after wrong ones", str(finding), finding.exchange) from finding
    answer.expect(answer.is_success, "a success of the right bytes")


@case("Traps of other servers", "1 wrong bytes under a right oid", Level.SHOULD)
async def wrong_bytes_never_replace_right_ones(site: Site) -> None:
    """A PUT of wrong bytes with an older action leaves the object as it is (trap-1)."""
    blob = new_blob(_SIZE)
    action = await _offered(site.first, blob)
    await site.first.store(blob)
    await site.first.put(action, corrupted(blob.content))
    answer = await site.first.batch("download", blob.entry)
    download = offered_download(answer)
    answer.expect(download, "a download action of the object that was there")
    if download is not None:
        answer = await site.first.get(download)
        answer.expect(answer.content == blob.content, "the right bytes", f"{len(answer.content)} others")
