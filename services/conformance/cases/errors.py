"""Bodies of errors (docs/protocol.md, "Error body")."""

from services.conformance.answer import Answer
from services.conformance.case import case
from services.conformance.outcome import Level, NotApplicable
from services.conformance.site import Site


async def _refused_batch(site: Site) -> Answer:
    answer = await site.first.post("/objects/batch", b"{")
    if answer.status < 400:
        raise NotApplicable("a body that is not JSON is no error here")
    return answer


async def _refused_unlock(site: Site) -> Answer:
    site.require_locks()
    answer = await site.first.unlock("towpath-conformance-0")
    if answer.status < 400:
        raise NotApplicable("the removal of an unknown lock is no error")
    return answer


@case("Error body", "message")
async def a_refused_batch_has_a_message(site: Site) -> None:
    """The body of a refused batch is JSON with a message."""
    answer = await _refused_batch(site)
    answer.expect_message()


@case("Error body", "no `objects` on a batch; `lock` on a conflict")
async def a_refused_batch_has_no_objects(site: Site) -> None:
    """The body of a refused batch has no member objects."""
    answer = await _refused_batch(site)
    answer.expect("objects" not in answer.body(), "no member objects")


@case("Common request and response conventions", "Accept")
async def a_refused_batch_has_the_media_type(site: Site) -> None:
    """The body of a refused batch has the media type of the dialect."""
    answer = await _refused_batch(site)
    answer.expect_media_type(site.first.dialect.media_type)


@case("Error body", "message")
async def a_refused_removal_of_a_lock_has_a_message(site: Site) -> None:
    """The body of an error about locks is JSON with a message."""
    answer = await _refused_unlock(site)
    answer.expect_message()


@case("Error body", "request_id")
async def a_request_id_is_a_string(site: Site) -> None:
    """The members request_id and documentation_url of an error are strings, or absent."""
    body = (answer := await _refused_batch(site)).body()
    for name in ("request_id", "documentation_url"):
        if name in body:
            answer.member(body, name, str)


@case("Error body", "request_id", Level.SHOULD)
async def every_error_has_a_request_id_of_its_own(site: Site) -> None:
    """Two errors have two request ids, if they have any, so that one can be found in a log."""
    answers = [await _refused_batch(site) for _ in range(2)]
    ids = [answer.body().get("request_id") for answer in answers]
    if None in ids:
        raise NotApplicable("errors have no request_id, which is optional")
    answers[1].expect(ids[0] != ids[1], "another request_id than before", ids[1])
