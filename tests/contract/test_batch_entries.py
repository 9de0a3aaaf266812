"""The entries of a batch, asked and answered (protocol: Batch request object entry, Batch response object entry)."""

import json

import pytest

from tests.contract.blobs import Blob, new_blob
from tests.contract.client import Client
from tests.contract.dialects import Dialect
from tests.support.stack import Stack

OID = "0123456789abcdef" * 4
BAD_OIDS = [
    "",
    OID[:-1],
    OID + "0",
    OID[:-1] + "g",
    OID.upper(),
    " " + OID[1:],
    OID + "\n",
    OID[:-1] + "\u0660",
    "sha256:" + OID,
    "../../etc/passwd",
    "../" * 21 + "a",
    "a/b",
    OID[:63] + "/",
    OID[:63] + "\x00",
    "x" * 10_240,
]


@pytest.fixture(scope="module")
def held(alice: Client) -> list[Blob]:
    """Fifty objects that are held."""
    blobs = [new_blob() for _ in range(50)]
    entries = alice.batch("upload", *(blob.entry for blob in blobs)).json()["objects"]
    for entry, blob in zip(entries, blobs, strict=True):
        assert alice.put(entry["actions"]["upload"], blob.content).status_code == 200
    return blobs


@pytest.mark.parametrize("operation", ["download", "upload"])
def test_there_is_one_entry_for_each_asked_in_order(
    alice: Client, held: list[Blob], dialect: Dialect, operation: str
) -> None:
    """protocol: Batch response, objects; client-2, client-15, case 14: 100 entries half held, half not."""
    missing = [new_blob() for _ in range(50)]
    asked = [blob.entry for pair in zip(held, missing, strict=True) for blob in pair]
    answer = alice.speaking(dialect).batch(operation, *asked)
    assert answer.status_code == 200
    entries = answer.json()["objects"]
    assert [{"oid": entry["oid"], "size": entry["size"]} for entry in entries] == asked
    kinds = [tuple(entry.get("actions", {})) or entry.get("error", {}).get("code") for entry in entries]
    expected = [("download",), 404] if operation == "download" else [None, ("upload", "verify")]
    assert kinds == expected * 50


@pytest.mark.parametrize("operation", ["download", "upload"])
def test_an_object_asked_twice_is_answered_twice(alice: Client, operation: str) -> None:
    """git-lfs hangs on a missing entry, so repeats are answered too: n in, n out (case 16; client-2)."""
    held, missing = alice.upload(new_blob()), new_blob()
    asked = [held.entry, missing.entry, held.entry, missing.entry]
    entries = alice.batch(operation, *asked).json()["objects"]
    assert [{"oid": entry["oid"], "size": entry["size"]} for entry in entries] == asked
    assert [set(entry) for entry in entries[:2]] == [set(entry) for entry in entries[2:]]


@pytest.mark.parametrize("oid", BAD_OIDS, ids=range(len(BAD_OIDS)))
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_bad_oid_is_422_for_that_object(alice: Client, dialect: Dialect, operation: str, oid: str) -> None:
    """An entry whose oid is not 64 lower-case hex digits must not fail the other entries.

    protocol: Per-object error codes, 422; client cases 21, 25 and 26; trap 28.
    """
    good = new_blob()
    answer = alice.speaking(dialect).batch(operation, {"oid": oid, "size": 1}, good.entry)
    assert answer.status_code == 200
    bad, other = answer.json()["objects"]
    assert bad.keys() == {"oid", "size", "error"}
    assert bad["oid"] == oid, "echoed unchanged: the client refuses another spelling"
    assert bad["size"] == 1
    assert bad["error"]["code"] == 422
    assert other["oid"] == good.oid
    assert ("actions" in other) is (operation == "upload")


@pytest.mark.parametrize("oid", BAD_OIDS, ids=range(len(BAD_OIDS)))
def test_a_bad_oid_never_becomes_a_path(alice: Client, stack: Stack, oid: str) -> None:
    """Trap 28: an oid such as `../../x` becomes part of a path or of a URL; client case 26."""
    before = sorted((stack.data.parent).rglob("*passwd*"))
    answer = alice.batch("upload", {"oid": oid, "size": 1}, new_blob().entry)
    hrefs = [action["href"] for entry in answer.json()["objects"] for action in entry.get("actions", {}).values()]
    assert len(hrefs) == 2
    assert not [href for href in hrefs if ".." in href or (oid and oid in href)]
    assert sorted((stack.data.parent).rglob("*passwd*")) == before


@pytest.mark.parametrize(
    "entry", [{}, {"size": 1}, *({"oid": oid, "size": 1} for oid in (5, None, True, [1], {"a": 1}))], ids=json.dumps
)
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_an_oid_that_is_missing_or_no_string_is_422_for_that_object(
    alice: Client, operation: str, entry: dict[str, object]
) -> None:
    """protocol: Batch request object entry, oid; Batch response object entry, oid and size are required."""
    good = new_blob()
    answer = alice.batch(operation, entry, good.entry)
    assert answer.status_code == 200
    bad, other = answer.json()["objects"]
    assert bad.keys() == {"oid", "size", "error"}
    assert isinstance(bad["oid"], str)
    assert bad["size"] == entry.get("size", 0)
    assert bad["error"]["code"] == 422
    assert other["oid"] == good.oid


@pytest.mark.parametrize("size", [-1, -125, -(2**63), 2**63, 10**30])
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_size_out_of_range_is_422_for_that_object(alice: Client, operation: str, size: int) -> None:
    """protocol: Limits, object size at least 0; Per-object error codes, 422; client cases 22 and 24."""
    good = new_blob()
    answer = alice.batch(operation, {"oid": OID, "size": size}, good.entry)
    assert answer.status_code == 200
    bad, other = answer.json()["objects"]
    assert bad["oid"] == OID
    assert bad["size"] == size
    assert bad["error"]["code"] == 422
    assert "actions" not in bad
    assert other["oid"] == good.oid


@pytest.mark.parametrize("size", ["1.5", "5.0", '"5"', "true", "null", "1e30", "{}", "[]", "1" + "0" * 400])
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_size_that_is_no_integer_is_422_for_that_object(alice: Client, operation: str, size: str) -> None:
    """An entry with a bad size must not fail the other entries.

    protocol: Batch request object entry, size is an integer; client case 24.
    """
    good = new_blob()
    objects = f'[{{"oid": "{OID}", "size": {size}}}, {json.dumps(good.entry)}]'
    answer = alice.post("/objects/batch", f'{{"operation": "{operation}", "objects": {objects}}}'.encode())
    assert answer.status_code == 200
    bad, other = answer.json()["objects"]
    assert bad["oid"] == OID
    assert type(bad["size"]) is int, "the protocol has an integer there"
    assert bad["error"]["code"] == 422
    assert "actions" not in bad
    assert other["oid"] == good.oid


@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_missing_size_is_422_for_that_object(alice: Client, operation: str) -> None:
    """protocol: Batch request object entry, size is required; client case 28."""
    bad, _ = alice.batch(operation, {"oid": OID}, new_blob().entry).json()["objects"]
    assert bad["error"]["code"] == 422
    assert type(bad["size"]) is int


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1])
def test_a_size_is_an_exact_integer(alice: Client, size: int) -> None:
    """protocol: Batch request object entry, size; client-14 and case 24; trap-7: no 32-bit size anywhere."""
    entry = alice.batch("download", {"oid": OID, "size": size}).json()["objects"][0]
    assert entry["size"] == size
    assert entry["error"]["code"] == 404


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 2**32, 2**32 + 1])
def test_large_objects_are_offered_for_upload(alice: Client, size: int) -> None:
    """trap-7: objects over 2 GiB or 4 GiB break."""
    entry = alice.batch("upload", {"oid": OID, "size": size}).json()["objects"][0]
    assert entry["size"] == size
    assert set(entry["actions"]) == {"upload", "verify"}


def test_objects_of_a_whole_batch_fail_one_by_one(alice: Client) -> None:
    """trap-31: a whole batch fails with 404 or 422 because each of its objects has an error of its own."""
    answer = alice.batch("download", {"oid": "x", "size": 1}, {"oid": OID, "size": -1}, new_blob().entry)
    assert answer.status_code == 200
    assert [entry["error"]["code"] for entry in answer.json()["objects"]] == [422, 422, 404]
    assert alice.batch("download", new_blob().entry).status_code == 200


def test_an_error_is_a_code_and_a_message(alice: Client, dialect: Dialect) -> None:
    """protocol: Object error: code is an integer, message a string."""
    (entry,) = alice.speaking(dialect).batch("download", new_blob().entry).json()["objects"]
    assert entry.keys() == {"oid", "size", "error"}
    assert entry["error"].keys() == {"code", "message"}
    assert entry["error"]["code"] == 404
    assert isinstance(entry["error"]["message"], str)
    assert entry["error"]["message"]


def test_a_lone_surrogate_in_an_oid_is_no_server_error(alice: Client) -> None:
    """Client case 21: an oid that is no hex; JSON can spell strings that UTF-8 cannot."""
    body = b'{"operation": "download", "objects": [{"oid": "\\ud800", "size": 1}]}'
    assert alice.post("/objects/batch", body).status_code in (200, 400, 422)


def test_the_largest_integers_of_json_are_no_server_error(alice: Client) -> None:
    """Client case 24: 2^63 and beyond; JSON has no largest integer, parsers do."""
    body = f'{{"operation": "download", "objects": [{{"oid": "{OID}", "size": 1{"0" * 5000}}}]}}'.encode()
    assert alice.post("/objects/batch", body).status_code in (200, 400, 422)


def test_an_entry_for_an_object_of_zero_bytes_is_like_any_other(alice: Client) -> None:
    """protocol: Batch request object entry, size at least 0; client case 23."""
    entry = alice.batch("upload", {"oid": new_blob().oid, "size": 0}).json()["objects"][0]
    assert set(entry["actions"]) == {"upload", "verify"}
    assert alice.holds(alice.upload(Blob(b"")))
