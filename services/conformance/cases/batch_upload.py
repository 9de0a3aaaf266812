"""Batches for upload: entries, actions and errors (docs/protocol.md, "Batch", rules 1 and 3)."""

from typing import Any

from services.conformance.blobs import Blob, new_blob
from services.conformance.case import case
from services.conformance.client import action_of, offered_download
from services.conformance.outcome import Level, NotApplicable
from services.conformance.site import Site

_LARGE = 5 * 2**30
_NO_OIDS = ["../../towpath-conformance", "/etc/towpath-conformance", "x", "g" * 64]


@case("Batch", "rule 3: upload")
async def a_new_object_has_an_upload_action(site: Site) -> None:
    """An object that is not held has an upload action and no error."""
    answer, entry = await site.first.one("upload", new_blob())
    action_of(entry, "upload")
    answer.expect("error" not in entry, "no error")


@case("Batch", "rule 3: upload")
async def a_held_object_has_no_actions(site: Site) -> None:
    """A held object has no actions at all when an upload is asked for, so that clients take it for present."""
    answer, entry = await site.first.one("upload", await site.held())
    answer.expect("actions" not in entry, "no member actions")
    answer.expect("error" not in entry, "no error")


@case("Actions object", "download, upload, verify")
async def an_upload_has_no_other_action(site: Site) -> None:
    """The actions of an upload are upload, and perhaps verify."""
    answer, entry = await site.first.one("upload", new_blob())
    actions = answer.member(entry, "actions", dict)
    answer.expect({"upload"} <= actions.keys() <= {"upload", "verify"}, "upload, and perhaps verify", list(actions))


@case("Batch response object entry", "actions", Level.SHOULD)
async def no_action_is_null(site: Site) -> None:
    """An action that there is none of is absent and not null, of which git-lfs dies (client-3)."""
    answer, entry = await site.first.one("upload", new_blob())
    actions = answer.member(entry, "actions", dict)
    answer.expect(None not in actions.values(), "no action of null", actions)


@case("Batch", "rule 1: 200 unless the request itself fails")
async def every_object_has_its_entry(site: Site) -> None:
    """A batch of held and new objects has an entry for each, with actions for the new ones alone."""
    held, new = await site.held(), [new_blob() for _ in range(3)]
    asked = [new[0], held, new[1], new[2]]
    answer = await site.first.batch("upload", *(blob.entry for blob in asked))
    answer.expect_status(200)
    entries = answer.objects(answer.body(), "objects")
    oids = sorted(str(entry.get("oid")) for entry in entries)
    answer.expect(oids == sorted(blob.oid for blob in asked), "one entry for each object", f"{len(oids)} entries")
    for entry in entries:
        answer.expect("error" not in entry, "no error for any object")
        if entry["oid"] != held.oid:
            action_of(entry, "upload")


@case("Batch response object entry", "oid, size")
async def oid_and_size_come_back(site: Site) -> None:
    """An entry has the oid and the size as they were asked, and a size may be over 4 GiB."""
    for asked in (new_blob(7).entry, {"oid": new_blob().oid, "size": _LARGE}):
        answer, entry = await site.first.one("upload", asked)
        found = {"oid": answer.member(entry, "oid", str), "size": answer.member(entry, "size", int)}
        answer.expect(found == asked, repr(asked), found)


@case("Batch request object entry", "size")
async def a_size_of_zero_is_a_size(site: Site) -> None:
    """The empty object is like any other."""
    answer, entry = await site.first.one("upload", Blob(b""))
    answer.expect("error" not in entry, "no error for a size of 0", entry.get("error"))


@case("Batch request object entry", "size")
async def a_negative_size_is_refused(site: Site) -> None:
    """An object of a negative size has an error, or the batch is refused."""
    await _expect_refused(site, {"oid": new_blob().oid, "size": -1})


@case("Batch request object entry", "oid", Level.SHOULD)
async def an_oid_that_is_no_hash_is_refused(site: Site) -> None:
    """An oid that is no SHA-256, such as a path, has an error, or the batch is refused (trap-28)."""
    for oid in _NO_OIDS:
        await _expect_refused(site, {"oid": oid, "size": 1})


async def _expect_refused(site: Site, asked: dict[str, Any]) -> None:
    answer = await site.first.batch("upload", asked)
    if answer.status != 200:
        answer.expect_refusal()
        return
    for entry in answer.objects(answer.body(), "objects"):
        answer.expect("error" in entry and not entry.get("actions"), f"an error and no actions for {asked}")


@case("Batch", "rule 1: 200 unless the request itself fails")
async def one_bad_object_fails_alone(site: Site) -> None:
    """A batch with one object that is valid is answered with 200, and only the other has an error (trap-31)."""
    good, bad = new_blob(), {"oid": new_blob().oid, "size": -1}
    answer = await site.first.batch("upload", bad, good.entry)
    answer.expect_status(200)
    entries = answer.objects(answer.body(), "objects")
    found = next((entry for entry in entries if entry.get("oid") == good.oid), None)
    if found is None:
        answer.expect(found, "an entry for the valid object")
        return
    action_of(found, "upload")


@case("Batch", "rule 3: upload")
async def a_batch_changes_nothing(site: Site) -> None:
    """A batch for upload may be repeated, and the object is not held before its bytes came."""
    blob = new_blob()
    for _ in range(2):
        action_of(await site.first.entry("upload", blob), "upload")
    answer = await site.first.batch("download", blob.entry)
    answer.expect(offered_download(answer) is None, "no download action for an object whose bytes never came")


@case("Action object", "expires_in, expires_at", Level.SHOULD)
async def the_verify_action_lives_as_long_as_the_upload_action(site: Site) -> None:
    """The verify action does not expire before the upload action, as it comes after it."""
    answer, entry = await site.first.one("upload", new_blob())
    actions = answer.member(entry, "actions", dict)
    upload, verify = actions.get("upload") or {}, actions.get("verify") or {}
    compared = [name for name in ("expires_in", "expires_at") if name in upload and name in verify]
    if not compared:
        raise NotApplicable("the actions upload and verify do not both have an expiry")
    for name in compared:
        answer.expect(verify[name] >= upload[name], f"{name} of verify not before that of upload", verify[name])
