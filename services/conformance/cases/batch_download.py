"""Batches for download: entries, actions and errors (docs/protocol.md, "Batch", rules 1 and 2)."""

from typing import Any

from services.conformance.answer import Answer
from services.conformance.blobs import new_blob
from services.conformance.case import case
from services.conformance.client import action_of
from services.conformance.outcome import NotApplicable
from services.conformance.site import Site


@case("Batch", "rule 2: download")
async def a_held_object_has_a_download_action(site: Site) -> None:
    """A held object has a download action and no error."""
    answer, entry = await site.first.one("download", await site.held())
    action_of(entry, "download")
    answer.expect("error" not in entry, "no error")


@case("Batch", "rule 2: download")
async def an_unknown_object_has_an_error(site: Site) -> None:
    """An object that is not held has an error, and no action."""
    answer, entry = await site.first.one("download", new_blob())
    answer.expect(entry.get("error") and not entry.get("actions"), "an error and no actions")


async def _error(site: Site) -> tuple[Answer, dict[str, Any]]:
    """Return the error of an object that is not held, and the answer that has it."""
    answer, entry = await site.first.one("download", new_blob())
    if "error" not in entry:
        raise NotApplicable("an object that is not held has no error here")
    return answer, answer.member(entry, "error", dict)


@case("Per-object error codes", "404")
async def the_error_of_an_unknown_object_is_404(site: Site) -> None:
    """The error of an object that is not held has the code 404."""
    answer, error = await _error(site)
    answer.expect(error.get("code") == 404, "the code 404", error.get("code"))


@case("Object error", "code, message")
async def an_error_is_a_code_and_a_message(site: Site) -> None:
    """The error of an object is an integer and a text."""
    answer, error = await _error(site)
    answer.member(error, "code", int)
    answer.text(error, "message")


@case("Batch", "rule 1: 200 unless the request itself fails")
async def objects_fail_one_by_one(site: Site) -> None:
    """A batch of held and unknown objects has an entry for each, and each its own action or error."""
    held, unknown = await site.held(), [new_blob() for _ in range(3)]
    asked = [unknown[0], held, unknown[1], unknown[2]]
    answer = await site.first.batch("download", *(blob.entry for blob in asked))
    answer.expect_status(200)
    entries = answer.objects(answer.body(), "objects")
    oids = sorted(str(entry.get("oid")) for entry in entries)
    answer.expect(oids == sorted(blob.oid for blob in asked), "one entry for each object", f"{len(oids)} entries")
    for entry in entries:
        is_held = entry["oid"] == held.oid
        expected = "actions for the held object" if is_held else "an error for each unknown object"
        answer.expect(entry.get("actions") if is_held else entry.get("error"), expected)


@case("Batch response object entry", "oid, size")
async def oid_and_size_come_back(site: Site) -> None:
    """An entry has the oid and the size as they were asked."""
    held = await site.held()
    answer, entry = await site.first.one("download", held)
    found = {"oid": answer.member(entry, "oid", str), "size": answer.member(entry, "size", int)}
    answer.expect(found == held.entry, repr(held.entry), found)


@case("Actions object", "download, upload, verify")
async def a_download_has_no_other_action(site: Site) -> None:
    """The only action of a download is the download."""
    answer, entry = await site.first.one("download", await site.held())
    actions = answer.member(entry, "actions", dict)
    answer.expect(set(actions) == {"download"}, "the action download alone", ", ".join(actions))
