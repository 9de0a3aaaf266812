"""Batches for upload (protocol: Batch, rule 3)."""

import pytest

from services.conformance.blobs import Blob, new_blob
from services.conformance.dialects import Dialect
from tests.protocol.client import Client
from tests.support.stack import Stack
from tests.support.storage import stored_path

BAD_ENTRIES: list[dict[str, object]] = [
    {"oid": "x", "size": 1},
    {"oid": "A" * 64, "size": 1},
    {"oid": "a" * 64, "size": -1},
    {"oid": "a" * 64, "size": "1"},
    {"oid": "a" * 64},
    {"oid": "a" * 64, "size": 2**63 - 1},
]


def test_an_object_that_is_not_held_has_upload_and_verify_actions(alice: Client, dialect: Dialect) -> None:
    """A client uploads and verifies only by actions, so an object that is not held has both."""
    blob = new_blob()
    entry = alice.speaking(dialect).entry("upload", blob)
    assert entry.keys() == {"oid", "size", "authenticated", "actions"}
    assert {"oid": entry["oid"], "size": entry["size"]} == blob.entry
    assert entry["authenticated"] is True
    assert entry["actions"].keys() == {"upload", "verify"}


def test_an_object_that_is_held_has_no_actions_at_all(alice: Client, dialect: Dialect) -> None:
    """A held object has no `actions`: a null action kills the client, and an upload would be a waste (client-3)."""
    alice = alice.speaking(dialect)
    blob = alice.upload(new_blob())
    entry = alice.entry("upload", blob)
    assert {"oid", "size"} <= entry.keys() <= {"oid", "size", "authenticated"}
    assert {"oid": entry["oid"], "size": entry["size"]} == blob.entry


def test_the_verify_action_lives_at_least_as_long_as_the_upload_action(alice: Client) -> None:
    """Client section 1.5: the verify action's expiry is looked at after the PUT."""
    actions = alice.entry("upload", new_blob())["actions"]
    assert actions["verify"]["expires_in"] >= actions["upload"]["expires_in"]
    assert actions["verify"]["expires_at"] >= actions["upload"]["expires_at"]


@pytest.mark.parametrize("entry", BAD_ENTRIES, ids=range(len(BAD_ENTRIES)))
def test_where_no_object_is_valid_the_request_is_422(alice: Client, dialect: Dialect, entry: dict[str, object]) -> None:
    """A batch without any valid upload is refused as a whole, because there is nothing to hand out."""
    answer = alice.speaking(dialect).batch("upload", entry)
    assert answer.status_code == 422
    assert "objects" not in answer.json()


def test_where_all_of_many_objects_are_invalid_the_request_is_422(alice: Client) -> None:
    """A batch of many invalid objects is refused as a whole, because it has nothing to upload either."""
    assert alice.batch("upload", *BAD_ENTRIES).status_code == 422


@pytest.mark.parametrize("entry", BAD_ENTRIES, ids=range(len(BAD_ENTRIES)))
def test_where_one_object_is_valid_the_others_fail_one_by_one(alice: Client, entry: dict[str, object]) -> None:
    """An invalid entry must not keep the valid objects of its batch from being uploaded (trap-31)."""
    good = new_blob()
    answer = alice.batch("upload", entry, good.entry)
    assert answer.status_code == 200
    bad, valid = answer.json()["objects"]
    assert bad["oid"] == entry["oid"]
    assert bad["error"]["code"] == 422
    assert "actions" not in bad
    assert valid["actions"].keys() == {"upload", "verify"}


def test_an_object_that_is_held_is_valid(alice: Client) -> None:
    """A held object counts as valid, so that an invalid entry beside it does not fail the whole batch."""
    held = alice.upload(new_blob())
    answer = alice.batch("upload", BAD_ENTRIES[0], held.entry)
    assert answer.status_code == 200
    bad, present = answer.json()["objects"]
    assert bad["error"]["code"] == 422
    assert "actions" not in present
    assert "error" not in present


@pytest.mark.parametrize("difference", [-1, 1, 2**32])
def test_a_size_other_than_the_held_one_is_422(alice: Client, difference: int) -> None:
    """A size other than the held one must never begin a new upload (protocol: Per-object error codes, 422)."""
    held, new = alice.upload(new_blob()), new_blob()
    wrong = {"oid": held.oid, "size": held.size + difference}
    answer = alice.batch("upload", wrong, new.entry)
    assert answer.status_code == 200
    bad, valid = answer.json()["objects"]
    assert {"oid": bad["oid"], "size": bad["size"]} == wrong
    assert bad["error"]["code"] == 422
    assert "actions" not in bad
    assert "actions" in valid
    assert alice.batch("upload", wrong).status_code == 422


def test_an_object_whose_bytes_are_lost_is_offered_for_upload_again(alice: Client, stack: Stack) -> None:
    """A file that a reader finds lost must not block the push that would bring it back (trap-36)."""
    blob = alice.upload(new_blob())
    action = alice.action("download", blob)
    path = stored_path(stack.data / "storage", blob.oid)
    path.unlink()
    answer = alice.get(action)
    assert answer.status_code == 502
    assert "a push from a clone that has them heals it" in answer.json()["message"]
    error = alice.entry("download", blob)["error"]
    assert error["code"] == 502
    assert "a push from a clone that has them heals it" in error["message"]
    alice.upload(blob)
    assert alice.get(alice.action("download", blob)).content == blob.content


def test_the_empty_object_is_uploaded_like_any_other(alice: Client, dialect: Dialect) -> None:
    """An empty file is an object too: its 0 bytes are accepted under their oid and come back."""
    alice = alice.speaking(dialect)
    empty = Blob(b"")
    entry = alice.entry("upload", empty)
    if "actions" in entry:
        assert alice.put(entry["actions"]["upload"], b"").status_code == 200
        assert alice.verify(entry["actions"]["verify"], empty.entry).status_code == 200
    answer = alice.get(alice.action("download", empty))
    assert answer.status_code == 200
    assert answer.content == b""
    assert answer.headers["content-length"] == "0"


def test_zero_bytes_for_another_oid_are_refused(alice: Client) -> None:
    """An empty body must not be stored under the oid of other bytes, so its PUT is refused with 400."""
    pretended = {"oid": new_blob().oid, "size": 0}
    action = alice.batch("upload", pretended).json()["objects"][0]["actions"]["upload"]
    assert alice.put(action, b"").status_code == 400
    assert alice.batch("download", pretended).json()["objects"][0]["error"]["code"] == 404
