"""The entries of a batch, asked and answered (protocol: Batch request object entry, Batch response object entry)."""

import pytest

from services.conformance.blobs import Blob, new_blob
from services.conformance.dialects import Dialect
from tests.protocol.client import Client
from tests.support.stack import Stack

OID = "0123456789abcdef" * 4
# One of each kind, and the oid and size of its answer. More values are in tests/unit/facade/objects/test_batch.py.
BAD_ENTRIES: list[tuple[dict[str, object], str, int]] = [
    ({"oid": "../../etc/passwd", "size": 1}, "../../etc/passwd", 1),
    ({"oid": 5, "size": 1}, "", 1),
    ({"size": 1}, "", 1),
    ({"oid": OID, "size": -1}, OID, -1),
    ({"oid": OID, "size": 2**63}, OID, 2**63),
    ({"oid": OID, "size": 5.0}, OID, 0),
    ({"oid": OID}, OID, 0),
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
    """Each entry is echoed, because git-lfs hangs on a missing one and rejects a changed size (client-2, client-15)."""
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


@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_bad_entry_is_422_for_that_object(alice: Client, dialect: Dialect, operation: str) -> None:
    """A bad entry fails alone, and its answer has an oid and a size because clients require both (trap-28, trap-31)."""
    good = new_blob()
    answer = alice.speaking(dialect).batch(operation, *(entry for entry, _, _ in BAD_ENTRIES), good.entry)
    assert answer.status_code == 200
    *bad, other = answer.json()["objects"]
    for entry, (_, oid, size) in zip(bad, BAD_ENTRIES, strict=True):
        assert entry.keys() == {"oid", "size", "error"}
        assert (entry["oid"], entry["size"]) == (oid, size), "echoed unchanged: the client refuses another spelling"
        assert type(entry["size"]) is int
        assert entry["error"].keys() == {"code", "message"}
        assert entry["error"]["code"] == 422
    assert other["oid"] == good.oid
    assert ("actions" in other) is (operation == "upload")


def test_a_bad_oid_never_becomes_a_path(alice: Client, stack: Stack) -> None:
    """An oid such as `../../x` becomes no part of a path or a URL, where it would reach other files (trap-28)."""
    before = sorted((stack.data.parent).rglob("*passwd*"))
    answer = alice.batch("upload", {"oid": "../../etc/passwd", "size": 1}, new_blob().entry)
    hrefs = [action["href"] for entry in answer.json()["objects"] for action in entry.get("actions", {}).values()]
    assert len(hrefs) == 2
    assert not [href for href in hrefs if ".." in href or "passwd" in href]
    assert sorted((stack.data.parent).rglob("*passwd*")) == before


def test_a_size_is_an_exact_integer(alice: Client) -> None:
    """A size comes back exactly, because 32-bit or floating-point numbers lose large ones (client-14, trap-7)."""
    sizes = [0, 2**32, 2**53 + 1, 2**63 - 1]
    entries = alice.batch("download", *({"oid": OID, "size": size} for size in sizes)).json()["objects"]
    assert [entry["size"] for entry in entries] == sizes
    assert [entry["error"]["code"] for entry in entries] == [404] * len(sizes)


def test_large_objects_are_offered_for_upload(alice: Client) -> None:
    """Objects of more than 2 or 4 GiB have upload actions, which a size of 32 bits anywhere would break (trap-7)."""
    asked = [{"oid": new_blob().oid, "size": size} for size in (2**31 - 1, 2**31, 2**32, 2**32 + 1)]
    entries = alice.batch("upload", *asked).json()["objects"]
    assert [{"oid": entry["oid"], "size": entry["size"]} for entry in entries] == asked
    assert all(entry["actions"].keys() == {"upload", "verify"} for entry in entries)


def test_objects_of_a_whole_batch_fail_one_by_one(alice: Client) -> None:
    """A batch whose objects all fail is still 200, so that the client learns each object's error (trap-31)."""
    answer = alice.batch("download", {"oid": "x", "size": 1}, {"oid": OID, "size": -1}, new_blob().entry)
    assert answer.status_code == 200
    assert [entry["error"]["code"] for entry in answer.json()["objects"]] == [422, 422, 404]
    assert alice.batch("download", new_blob().entry).status_code == 200


def test_a_lone_surrogate_in_an_oid_is_no_server_error(alice: Client) -> None:
    """JSON can spell an oid that UTF-8 cannot, and such an oid must not cause a server error."""
    body = b'{"operation": "download", "objects": [{"oid": "\\ud800", "size": 1}]}'
    assert alice.post("/objects/batch", body).status_code in (200, 400, 422)


def test_the_largest_integers_of_json_are_no_server_error(alice: Client) -> None:
    """JSON has no largest integer but parsers do, and a huge size must not cause a server error."""
    body = f'{{"operation": "download", "objects": [{{"oid": "{OID}", "size": 1{"0" * 5000}}}]}}'.encode()
    assert alice.post("/objects/batch", body).status_code in (200, 400, 422)
