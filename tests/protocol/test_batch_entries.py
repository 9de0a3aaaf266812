"""The entries of a batch, asked and answered (protocol: Batch request object entry, Batch response object entry)."""

import json

import pytest

from services.conformance.blobs import Blob, new_blob
from services.conformance.dialects import Dialect
from tests.protocol.client import Client
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
    """The client hangs on a missing entry and rejects a changed size, so each entry is echoed (client-2, client-15)."""
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
    """The git-lfs client hangs on a missing entry, so an object asked twice is answered twice (client-2)."""
    held, missing = alice.upload(new_blob()), new_blob()
    asked = [held.entry, missing.entry, held.entry, missing.entry]
    entries = alice.batch(operation, *asked).json()["objects"]
    assert [{"oid": entry["oid"], "size": entry["size"]} for entry in entries] == asked
    assert [set(entry) for entry in entries[:2]] == [set(entry) for entry in entries[2:]]


@pytest.mark.parametrize("oid", BAD_OIDS, ids=range(len(BAD_OIDS)))
@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_bad_oid_is_422_for_that_object(alice: Client, dialect: Dialect, operation: str, oid: str) -> None:
    """An entry whose oid is not 64 lower-case hex digits must not fail the other entries (trap-28)."""
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
    """An oid such as `../../x` must not become part of a path or a URL, where it would reach other files (trap-28)."""
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
    """An entry with a bad oid is answered with oid and size, because clients require both."""
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
    """A size out of range fails only its own entry, so that the other objects are still transferred."""
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
    """An entry with a bad size must not fail the other entries (docs/protocol.md, "Batch request object entry")."""
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
    """Every entry needs a size, because the server checks the uploaded bytes against it."""
    bad, _ = alice.batch(operation, {"oid": OID}, new_blob().entry).json()["objects"]
    assert bad["error"]["code"] == 422
    assert type(bad["size"]) is int


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1])
def test_a_size_is_an_exact_integer(alice: Client, size: int) -> None:
    """A size comes back exactly, because 32-bit or floating-point numbers lose large ones (client-14, trap-7)."""
    entry = alice.batch("download", {"oid": OID, "size": size}).json()["objects"][0]
    assert entry["size"] == size
    assert entry["error"]["code"] == 404


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 2**32, 2**32 + 1])
def test_large_objects_are_offered_for_upload(alice: Client, size: int) -> None:
    """A 32-bit size anywhere would break objects of more than 2 or 4 GiB (trap-7)."""
    entry = alice.batch("upload", {"oid": OID, "size": size}).json()["objects"][0]
    assert entry["size"] == size
    assert set(entry["actions"]) == {"upload", "verify"}


def test_objects_of_a_whole_batch_fail_one_by_one(alice: Client) -> None:
    """A batch whose objects all fail is still 200, so that the client learns each object's error (trap-31)."""
    answer = alice.batch("download", {"oid": "x", "size": 1}, {"oid": OID, "size": -1}, new_blob().entry)
    assert answer.status_code == 200
    assert [entry["error"]["code"] for entry in answer.json()["objects"]] == [422, 422, 404]
    assert alice.batch("download", new_blob().entry).status_code == 200


def test_an_error_is_a_code_and_a_message(alice: Client, dialect: Dialect) -> None:
    """Clients read an object's error as an integer code and a message for the user."""
    (entry,) = alice.speaking(dialect).batch("download", new_blob().entry).json()["objects"]
    assert entry.keys() == {"oid", "size", "error"}
    assert entry["error"].keys() == {"code", "message"}
    assert entry["error"]["code"] == 404
    assert isinstance(entry["error"]["message"], str)
    assert entry["error"]["message"]


def test_a_lone_surrogate_in_an_oid_is_no_server_error(alice: Client) -> None:
    """JSON can spell an oid that UTF-8 cannot, and such an oid must not cause a server error."""
    body = b'{"operation": "download", "objects": [{"oid": "\\ud800", "size": 1}]}'
    assert alice.post("/objects/batch", body).status_code in (200, 400, 422)


def test_the_largest_integers_of_json_are_no_server_error(alice: Client) -> None:
    """JSON has no largest integer but parsers do, and a huge size must not cause a server error."""
    body = f'{{"operation": "download", "objects": [{{"oid": "{OID}", "size": 1{"0" * 5000}}}]}}'.encode()
    assert alice.post("/objects/batch", body).status_code in (200, 400, 422)


def test_an_entry_for_an_object_of_zero_bytes_is_like_any_other(alice: Client) -> None:
    """An empty file is an object too, so size 0 has the same actions as any other size."""
    entry = alice.batch("upload", {"oid": new_blob().oid, "size": 0}).json()["objects"][0]
    assert set(entry["actions"]) == {"upload", "verify"}
    assert alice.holds(alice.upload(Blob(b"")))
