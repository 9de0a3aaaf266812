"""The verify action, which is optional (docs/protocol.md, "Basic transfer: verify action")."""

from services.conformance.blobs import new_blob
from services.conformance.case import case
from services.conformance.client import action_of, bare, preparing
from services.conformance.outcome import Level
from services.conformance.site import Site

_CLIENT = "What kills, loops or deceives the widespread client"


@case("Basic transfer: verify action", "Response")
async def a_stored_object_is_verified(site: Site) -> None:
    """The verify action of an object that was uploaded is answered with 200, with or without a charset."""
    blob = new_blob()
    entry = await site.first.entry("upload", blob)
    verify = action_of(entry, "verify")
    with preparing("the upload of an object"):
        answer = await site.first.put(action_of(entry, "upload"), blob.content)
        answer.expect(answer.is_success, "a success of the PUT")
    for charset in ("", "; charset=utf-8"):
        (await site.first.verify(verify, blob.entry, charset=charset)).expect_status(200)


@case("Basic transfer: verify action", "Response")
async def an_object_that_is_not_stored_is_not_verified(site: Site) -> None:
    """The verify action of an object whose bytes never came is no success."""
    blob = new_blob()
    answer = await site.first.verify(await site.first.action("verify", blob), blob.entry)
    answer.expect(not answer.is_success, "an error")


@case(_CLIENT, "1 422 on PUT or verify is taken for success", Level.SHOULD)
async def a_refused_verification_is_no_422(site: Site) -> None:
    """An object that is not stored has another status than 422, which git-lfs takes for a success (client-1)."""
    blob = new_blob()
    answer = await site.first.verify(await site.first.action("verify", blob), blob.entry)
    answer.expect(answer.status not in (401, 422), "a status other than 401 and 422")


@case("Basic transfer: verify action", "Request body: oid, size", Level.SHOULD)
async def an_object_of_another_size_is_not_verified(site: Site) -> None:
    """An object is not verified with another size than it has."""
    blob = new_blob()
    entry = await site.first.entry("upload", blob)
    verify = action_of(entry, "verify")
    with preparing("the upload of an object"):
        answer = await site.first.put(action_of(entry, "upload"), blob.content)
        answer.expect(answer.is_success, "a success of the PUT")
    answer = await site.first.verify(verify, {"oid": blob.oid, "size": blob.size + 1})
    answer.expect(not answer.is_success, "an error")


@case("Traps of other servers", "27 a request that kills the process", Level.SHOULD)
async def a_verification_without_headers_harms_nothing(site: Site) -> None:
    """A verification without headers of an object that is not there leaves the server alive (trap-27)."""
    blob = new_blob()
    action = await site.first.action("verify", blob)
    await site.first.perform(bare(action), "POST", b"{}")
    await site.first.entry("upload", blob)
