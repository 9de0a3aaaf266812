"""The batch request and the frame of its answer (docs/protocol.md, "Batch")."""

from services.conformance.blobs import new_blob
from services.conformance.case import case
from services.conformance.outcome import Level, NotApplicable
from services.conformance.site import Site

_OFFERED = ["lfs-standalone-file", "ssh", "basic"]


@case("Batch", "request: operation")
async def both_operations_are_answered(site: Site) -> None:
    """A batch for download and one for upload are answered with 200."""
    (await site.first.batch("download", (await site.held()).entry)).expect_status(200)
    (await site.first.batch("upload", new_blob().entry)).expect_status(200)


@case("Batch", "request: operation")
async def another_operation_is_refused(site: Site) -> None:
    """An operation other than download and upload is refused."""
    answer = await site.first.batch("verify", new_blob().entry)
    answer.expect_refusal()


@case("Batch", "request: transfers")
async def without_transfers_basic_is_chosen(site: Site) -> None:
    """A batch without transfers is answered for basic."""
    answer = await site.first.batch("upload", new_blob().entry)
    answer.expect_status(200)
    transfer = answer.body().get("transfer", "basic")
    answer.expect(transfer == "basic", "no transfer, or basic", transfer)


@case("Batch", "request: transfers")
async def the_chosen_transfer_was_offered(site: Site) -> None:
    """The transfer of the answer is one of those offered, in whatever order they are, and one for HTTP."""
    for offered in (_OFFERED, _OFFERED[::-1]):
        answer = await site.first.batch("upload", new_blob().entry, transfers=offered)
        answer.expect_status(200)
        transfer = answer.body().get("transfer", "basic")
        answer.expect(transfer == "basic", f"basic of {offered}", transfer)


@case("Ref object", "missing or null")
async def a_ref_of_null_is_no_ref(site: Site) -> None:
    """A ref of null is answered like a missing one."""
    held = await site.held()
    for fields in ({}, {"ref": None}):
        (await site.first.batch("download", held.entry, **fields)).expect_status(200)


@case("Ref object", "name", Level.SHOULD)
async def odd_refs_are_no_error(site: Site) -> None:
    """The refs that git-lfs sends are no error: an object without a name, and HEAD."""
    held = await site.held()
    for ref in ({}, {"name": "HEAD"}):
        (await site.first.batch("download", held.entry, ref=ref)).expect_status(200)


@case("Batch", "request: objects")
async def without_the_member_objects_a_batch_is_refused(site: Site) -> None:
    """A batch without the member objects is refused."""
    (await site.first.post("/objects/batch", {"operation": "download"})).expect_refusal()


@case("Batch", "request: objects", Level.SHOULD)
async def no_objects_are_answered_with_none(site: Site) -> None:
    """A batch of no objects is answered with no objects, or refused."""
    answer = await site.first.batch("download")
    if 400 <= answer.status < 500:
        raise NotApplicable("the server refuses a batch of no objects")
    answer.expect_status(200)
    objects = answer.member(answer.body(), "objects", list)
    answer.expect(not objects, "no entry", objects)


@case("Batch", "response: transfer, objects, hash_algo")
async def the_hash_algorithm_is_sha256(site: Site) -> None:
    """The hash algorithm of the answer is sha256, or absent."""
    answer = await site.first.batch("upload", new_blob().entry, hash_algo="sha256")
    answer.expect_status(200)
    hash_algo = answer.body().get("hash_algo", "sha256")
    answer.expect(hash_algo == "sha256", "no hash_algo, or sha256", hash_algo)


@case("Batch", "request: hash_algo")
async def another_hash_algorithm_is_refused(site: Site) -> None:
    """Objects of an unknown hash algorithm get no action: each has an error, or the batch is refused."""
    blob = new_blob()
    answer = await site.first.batch("upload", blob.entry, hash_algo="sha512-towpath-conformance")
    if answer.status != 200:
        answer.expect_refusal()
        return
    for entry in answer.objects(answer.body(), "objects"):
        answer.expect("error" in entry and not entry.get("actions"), "an error for the object, and no actions")


@case("Batch", "rule 1: 200 unless the request itself fails")
async def a_body_that_is_not_json_is_refused(site: Site) -> None:
    """A body that is not JSON is refused, and is no error of the server."""
    for body in (b"{", b"", b"\xff"):
        (await site.first.post("/objects/batch", body)).expect_refusal()


@case("Batch", "rule 1: 200 unless the request itself fails", Level.SHOULD)
async def odd_json_is_no_server_error(site: Site) -> None:
    """JSON of another shape is refused, and is no error of the server."""
    odd = [b"[]", b'"x"', b"5", b"null", b'{"operation":5,"objects":{}}', b'{"operation":"upload","objects":[5]}']
    for body in odd:
        (await site.first.post("/objects/batch", body)).expect_refusal()


@case("Batch", "request: operation", Level.SHOULD)
async def unknown_members_are_ignored(site: Site) -> None:
    """Members that the interface does not name are ignored, as later clients send more."""
    entry = {**new_blob().entry, "x": {"y": [None]}}
    (await site.first.batch("upload", entry, x_later=[1], operations=None)).expect_status(200)
