"""The batch request (protocol: Batch). The unit tests of `schemas` and `request_body` have more values of each kind."""

import json

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol.client import Client

ENTRY = {"oid": "0" * 64, "size": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"operation": "verify", "objects": [ENTRY]}, "operation"),
        ({"objects": [ENTRY]}, "operation"),
        ({"operation": "download"}, "objects"),
        ({"operation": "download", "objects": {}}, "objects"),
        ({"operation": "upload", "objects": [ENTRY, "x"]}, "objects"),
        ({"operation": "download", "objects": [ENTRY], "transfers": ["basic", 5]}, "transfers"),
        ([], "body"),
    ],
    ids=json.dumps,
)
def test_json_of_another_shape_is_422(alice: Client, dialect: Dialect, body: object, field: str) -> None:
    """A client learns which field is wrong, and tells JSON of the wrong shape (422) from unparsable JSON (400)."""
    answer = alice.speaking(dialect).post("/objects/batch", body)
    assert answer.status_code == 422
    assert answer.json()["message"].startswith(field)


def test_no_objects_are_answered_with_no_objects(alice: Client) -> None:
    """An upload of no objects is answered with none, because an extra entry would kill git-lfs (client-2)."""
    answer = alice.batch("upload")
    assert answer.status_code == 200
    assert answer.json()["objects"] == []


@pytest.mark.parametrize("operation", ["download", "upload"])
def test_another_hash_algorithm_is_409_for_each_object(alice: Client, operation: str) -> None:
    """An oid of another hash algorithm would name other bytes, so each object is 409 (trap-32)."""
    held, missing = alice.upload(new_blob()), new_blob()
    answer = alice.batch(operation, held.entry, missing.entry, hash_algo="sha512")
    assert answer.status_code == 200
    assert answer.json()["hash_algo"] == "sha256"
    for entry, blob in zip(answer.json()["objects"], (held, missing), strict=True):
        assert entry.keys() == {"oid", "size", "error"}
        assert {"oid": entry["oid"], "size": entry["size"]} == blob.entry
        assert entry["error"]["code"] == 409


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000], ids=range(4))
def test_a_body_that_is_not_json_is_400(alice: Client, dialect: Dialect, body: bytes) -> None:
    """A client must be able to tell unparsable JSON (400) from JSON of the wrong shape (422)."""
    assert alice.speaking(dialect).post("/objects/batch", body).status_code == 400
