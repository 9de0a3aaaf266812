"""Batches for download (protocol: Batch, rule 2; Actions object; Action object)."""

import time

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from services.conformance.strict_json import TIMESTAMP
from tests.protocol.administration import Administration
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack


@pytest.mark.parametrize("name", ["download", "upload", "verify"])
def test_an_action_has_an_address_headers_and_an_expiry(
    alice: Client, stack: Stack, dialect: Dialect, name: str
) -> None:
    """An action has the members and forms that git-lfs reads, and an expiry that it keeps (client-14, client-23)."""
    alice = alice.speaking(dialect)
    blob = new_blob()
    if name == "download":
        alice.upload(blob)
    before = int(time.time())
    action = alice.action(name, blob)
    after = int(time.time())
    assert action.keys() == {"href", "header", "expires_in", "expires_at"}
    assert action["href"] == f"{stack.base_url}/objects/{blob.oid}"
    assert all(isinstance(value, str) for value in action["header"].values())
    assert action["header"].keys() == {"X-Towpath-Token"}
    assert type(action["expires_in"]) is int
    assert 60 <= action["expires_in"] <= 2147483647
    assert TIMESTAMP.fullmatch(action["expires_at"])
    moments = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t + action["expires_in"])) for t in (before, after)]
    assert moments[0] <= action["expires_at"] <= moments[1]


def test_a_size_other_than_the_held_one_is_422(alice: Client, dialect: Dialect) -> None:
    """An entry with another size is not the held object (protocol: Per-object error codes, 422)."""
    blob = alice.upload(new_blob())
    asked = {"oid": blob.oid, "size": blob.size + 2**32}
    (entry,) = alice.speaking(dialect).batch("download", asked).json()["objects"]
    assert entry.keys() == {"oid", "size", "error"}
    assert {"oid": entry["oid"], "size": entry["size"]} == asked
    assert entry["error"]["code"] == 422


@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_removed_object_is_410_with_the_reason(
    alice: Client, operator: Administration, dialect: Dialect, operation: str
) -> None:
    """A removed object is 410 with the reason, so that users know that it is gone on purpose."""
    blob = alice.upload(new_blob())
    operator.remove_object("demo/assets", blob.oid, "licence withdrawn")
    answer = alice.speaking(dialect).batch(operation, blob.entry)
    assert answer.status_code == 200, "a removed object is a valid one"
    (entry,) = answer.json()["objects"]
    assert entry.keys() == {"oid", "size", "error"}
    assert entry["error"]["code"] == 410
    assert "licence withdrawn" in entry["error"]["message"]


def test_a_removed_object_comes_back_from_the_bin(alice: Client, operator: Administration) -> None:
    """An owner who removed an object by mistake can restore it, and nobody needs to upload it again."""
    blob = alice.upload(new_blob())
    operator.remove_object("demo/assets", blob.oid, "a mistake")
    operator.restore_object("demo/assets", blob.oid)
    assert alice.get(alice.action("download", blob)).content == blob.content


def test_a_purged_object_that_is_restored_may_be_uploaded_again(alice: Client, operator: Administration) -> None:
    """Without its bytes, a restored object is missing, and its bytes are accepted again."""
    blob = alice.upload(new_blob())
    operator.remove_object("demo/assets", blob.oid, "a mistake")
    operator.purge_object("demo/assets", blob.oid)
    operator.restore_object("demo/assets", blob.oid)
    assert alice.entry("download", blob)["error"]["code"] == 404
    assert alice.holds(alice.upload(blob))


def test_an_object_of_another_repository_is_not_there(alice: Client, new_repository: NewRepository) -> None:
    """A client must not learn what other repositories hold: it gets an object only after sending its bytes."""
    other = new_repository()
    blob = alice.upload(new_blob())
    assert other.entry("download", blob)["error"]["code"] == 404
    assert set(other.entry("upload", blob)["actions"]) == {"upload", "verify"}
    other.upload(blob)
    assert other.get(other.action("download", blob)).content == blob.content
