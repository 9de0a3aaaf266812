"""Media types of requests and answers (docs/protocol.md, "Common request and response conventions")."""

from services.conformance.blobs import new_blob
from services.conformance.case import case
from services.conformance.outcome import Level
from services.conformance.site import Site

_PART = "Common request and response conventions"


@case(_PART, "Accept")
async def batches_have_the_media_type(site: Site) -> None:
    """The answer to a batch has the media type of the dialect."""
    for operation in ("download", "upload"):
        answer = await site.first.batch(operation, new_blob().entry)
        answer.expect_media_type(site.first.dialect.media_type)


@case(_PART, "Accept")
async def lists_of_locks_have_the_media_type(site: Site) -> None:
    """The answers that list locks have the media type of the dialect."""
    site.require_locks()
    for answer in (await site.first.locks(), await site.first.verify_locks()):
        answer.expect_media_type(site.first.dialect.media_type)


@case(_PART, "Accept")
async def created_and_removed_locks_have_the_media_type(site: Site) -> None:
    """The answers to the creation, the conflict and the removal of a lock have the media type of the dialect."""
    path = site.new_path()
    lock = await site.lock(path)
    for answer in (await site.first.lock(path), await site.first.unlock(lock["id"])):
        answer.expect_media_type(site.first.dialect.media_type)
    (await site.first.lock(path)).expect_media_type(site.first.dialect.media_type)


@case(_PART, "Content-Type, also with a charset")
async def a_charset_of_a_batch_is_accepted(site: Site) -> None:
    """A batch may name the charset utf-8 in its Content-Type."""
    body = {"operation": "download", "objects": [(await site.held()).entry]}
    kind = f"{site.first.dialect.media_type}; charset=utf-8"
    (await site.first.post("/objects/batch", body, content_type=kind)).expect_status(200)


@case(_PART, "Content-Type, also with a charset")
async def a_charset_of_a_verification_of_locks_is_accepted(site: Site) -> None:
    """The verification of locks may name the charset utf-8 in its Content-Type."""
    site.require_locks()
    kind = f"{site.first.dialect.media_type}; charset=utf-8"
    (await site.first.post("/locks/verify", {}, content_type=kind)).expect_status(200)


@case("Status codes of batch responses", "406", Level.SHOULD)
async def another_accept_is_no_server_error(site: Site) -> None:
    """A request that accepts only pictures is answered, or refused with 406: both are no error of the server."""
    body = {"operation": "download", "objects": [new_blob().entry]}
    answer = await site.first.post("/objects/batch", body, accept="image/png")
    answer.expect(answer.status < 500, "a status below 500")
