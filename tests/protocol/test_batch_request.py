"""The batch request and the frame of its answer (protocol: Batch)."""

import itertools
import json

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol.client import Client

ENTRY = {"oid": "0" * 64, "size": 1}


def test_the_answer_has_transfer_objects_and_hash_algo(alice: Client, dialect: Dialect) -> None:
    """Clients read the transfer, the objects and the hash algorithm from every answer to a batch."""
    answer = alice.speaking(dialect).batch("download", new_blob().entry)
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"transfer", "objects", "hash_algo"}
    assert body["transfer"] == "basic"
    assert body["hash_algo"] == "sha256"
    assert len(body["objects"]) == 1


@pytest.mark.parametrize(
    "operation", ["verify", "UPLOAD", "", "download ", 5, True, ["upload"], {"name": "upload"}, None]
)
def test_any_other_operation_is_422(alice: Client, operation: object) -> None:
    """A client that sends an unknown operation learns which field is wrong (docs/protocol.md, "Batch")."""
    answer = alice.post("/objects/batch", {"operation": operation, "objects": [ENTRY]})
    assert answer.status_code == 422
    assert "operation" in answer.json()["message"]


def test_a_missing_operation_is_422(alice: Client) -> None:
    """A client that leaves out the operation learns so, because no default is safe for it."""
    answer = alice.post("/objects/batch", {"objects": [ENTRY]})
    assert answer.status_code == 422
    assert "operation" in answer.json()["message"]


@pytest.mark.parametrize("fields", [{}, {"transfers": None}, {"transfers": []}], ids=["absent", "null", "empty"])
def test_without_transfers_basic_is_chosen(alice: Client, dialect: Dialect, fields: dict[str, object]) -> None:
    """Older clients send no transfers, and basic is the default that they understand."""
    answer = alice.speaking(dialect).batch("download", ENTRY, **fields)
    assert answer.status_code == 200
    assert answer.json()["transfer"] == "basic"


@pytest.mark.parametrize(
    "transfers", [["basic"], *map(list, itertools.permutations(["basic", "ssh", "lfs-standalone-file"])), ["basic"] * 2]
)
def test_basic_is_chosen_wherever_it_stands(alice: Client, transfers: list[str]) -> None:
    """The client lists its transfers in random order, so basic is chosen wherever it stands (client-12)."""
    answer = alice.batch("download", ENTRY, transfers=transfers)
    assert answer.status_code == 200
    assert answer.json()["transfer"] == "basic"


@pytest.mark.parametrize("transfers", [["tus"], ["x", "ssh"], ["BASIC"], ["basic "], [""]])
def test_without_a_common_transfer_it_is_422(alice: Client, transfers: list[str]) -> None:
    """A client cannot use a transfer that it did not offer, so a batch without basic is 422."""
    assert alice.batch("download", ENTRY, transfers=transfers).status_code == 422


@pytest.mark.parametrize("transfers", ["basic", 5, {"basic": True}, ["basic", 5], [None]])
def test_transfers_that_are_no_list_of_strings_are_422(alice: Client, transfers: object) -> None:
    """JSON of the wrong shape is the client's mistake, so it is 422.

    protocol: Batch request body, transfers is an array of strings.
    """
    assert alice.batch("download", ENTRY, transfers=transfers).status_code == 422


@pytest.mark.parametrize("operation", ["download", "upload"])
def test_no_objects_are_answered_with_no_objects(alice: Client, dialect: Dialect, operation: str) -> None:
    """A client may send an empty `objects`, and an extra entry in the answer would kill it (client-2)."""
    answer = alice.speaking(dialect).batch(operation)
    assert answer.status_code == 200
    assert answer.json()["objects"] == []


@pytest.mark.parametrize(
    "objects", [None, "x", 5, {}, ENTRY, [5], [None], ["0" * 64], [[]], [ENTRY, "x"]], ids=json.dumps
)
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_objects_that_are_no_list_of_objects_are_422(alice: Client, operation: str, objects: object) -> None:
    """A client must learn which field has the wrong shape (protocol: Batch request body, objects)."""
    answer = alice.post("/objects/batch", {"operation": operation, "objects": objects})
    assert answer.status_code == 422
    assert "objects" in answer.json()["message"]


def test_missing_objects_are_422(alice: Client) -> None:
    """A client that leaves out `objects` learns so instead of receiving an empty answer (docs/protocol.md, "Batch")."""
    answer = alice.post("/objects/batch", {"operation": "download"})
    assert answer.status_code == 422
    assert "objects" in answer.json()["message"]


@pytest.mark.parametrize("fields", [{}, {"hash_algo": "sha256"}, {"hash_algo": None}], ids=["absent", "sha256", "null"])
def test_objects_are_named_by_sha256(alice: Client, dialect: Dialect, fields: dict[str, object]) -> None:
    """Older clients send no hash algorithm, and SHA-256 is the default that they mean."""
    blob = alice.upload(new_blob())
    answer = alice.speaking(dialect).batch("download", blob.entry, **fields)
    assert answer.status_code == 200
    assert answer.json()["hash_algo"] == "sha256"
    assert "download" in answer.json()["objects"][0]["actions"]


@pytest.mark.parametrize("hash_algo", ["sha512", "sha1", "SHA256", "", 5, ["sha256"]])
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_another_hash_algorithm_is_409_for_each_object(alice: Client, operation: str, hash_algo: object) -> None:
    """An oid of another hash algorithm would name other bytes, so each object is 409 (trap-32)."""
    held, missing = alice.upload(new_blob()), new_blob()
    answer = alice.batch(operation, held.entry, missing.entry, hash_algo=hash_algo)
    assert answer.status_code == 200
    assert answer.json()["hash_algo"] == "sha256"
    for entry, blob in zip(answer.json()["objects"], (held, missing), strict=True):
        assert entry.keys() == {"oid", "size", "error"}
        assert {"oid": entry["oid"], "size": entry["size"]} == blob.entry
        assert entry["error"]["code"] == 409


def test_unknown_fields_are_ignored(alice: Client, dialect: Dialect) -> None:
    """Later clients send more fields, and a server that refused them would lock those clients out."""
    alice = alice.speaking(dialect)
    blob = alice.upload(new_blob())
    answer = alice.batch(
        "download",
        {**blob.entry, "authenticated": True, "actions": None, "x": {"y": [1.5, None]}},
        ref={"name": "refs/heads/main", "x": 1},
        x=None,
        operations=["upload"],
    )
    assert answer.status_code == 200
    assert "download" in answer.json()["objects"][0]["actions"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"nul",
        b"{}{}",
        b'{"operation": "download", "objects": []',
        b"{'operation': 'download'}",
        b'{"operation": "download", "objects": [{"oid": "x", "size": NaN}]}',
        b'{"operation": "download", "objects": [{"oid": "x", "size": 01}]}',
        b'{"operation": "download", "objects": [], "x": "\xff"}',
        b"\xff\xfe{\x00}\x00",
        b"[" * 100_000,
        b'{"a":' * 40_000,
    ],
    ids=range(13),
)
def test_a_body_that_is_not_json_is_400(alice: Client, dialect: Dialect, body: bytes) -> None:
    """A client must be able to tell unparsable JSON (400) from JSON of the wrong shape (422)."""
    assert alice.speaking(dialect).post("/objects/batch", body).status_code == 400


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"5", b"null", b"true", b"{}"])
def test_json_of_another_shape_is_422(alice: Client, dialect: Dialect, body: bytes) -> None:
    """A client must be able to tell JSON of the wrong shape (422) from unparsable JSON (400)."""
    assert alice.speaking(dialect).post("/objects/batch", body).status_code == 422
