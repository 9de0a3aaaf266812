"""Batches for upload (protocol: Batch, rule 3)."""

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol.client import Client
from tests.support.stack import Stack
from tests.support.storage import stored_path

BAD_ENTRIES: list[dict[str, object]] = [
    {"oid": "x", "size": 1},
    {"oid": "a" * 64, "size": -1},
    {"oid": "a" * 64},
    {"oid": "a" * 64, "size": 2**63 - 1},
]


@pytest.mark.parametrize("count", [1, len(BAD_ENTRIES)])
def test_where_no_object_is_valid_the_request_is_422(alice: Client, dialect: Dialect, count: int) -> None:
    """A batch without any valid upload is refused as a whole, because there is nothing to hand out."""
    answer = alice.speaking(dialect).batch("upload", *BAD_ENTRIES[:count])
    assert answer.status_code == 422
    assert "objects" not in answer.json()


def test_an_object_that_is_held_is_valid(alice: Client) -> None:
    """A held object counts as valid, so that an invalid entry beside it does not fail the whole batch."""
    held = alice.upload(new_blob())
    answer = alice.batch("upload", BAD_ENTRIES[0], held.entry)
    assert answer.status_code == 200
    bad, present = answer.json()["objects"]
    assert bad["error"]["code"] == 422
    assert "actions" not in present
    assert "error" not in present


def test_a_size_other_than_the_held_one_is_422(alice: Client) -> None:
    """A size other than the held one must never begin a new upload (protocol: Per-object error codes, 422)."""
    held, new = alice.upload(new_blob()), new_blob()
    wrong = {"oid": held.oid, "size": held.size + 2**32}
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


def test_zero_bytes_for_another_oid_are_refused(alice: Client) -> None:
    """An empty body must not be stored under the oid of other bytes, so its PUT is refused with 400."""
    pretended = {"oid": new_blob().oid, "size": 0}
    action = alice.batch("upload", pretended).json()["objects"][0]["actions"]["upload"]
    assert alice.put(action, b"").status_code == 400
    assert alice.batch("download", pretended).json()["objects"][0]["error"]["code"] == 404
