"""The verify action (protocol: Basic transfer: verify action)."""

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol.client import Client


def test_an_object_other_than_that_of_the_address_is_404(alice: Client) -> None:
    """An action is good for one object, whatever else is held (docs/protocol.md, "Basic transfer: verify action")."""
    stored, other = alice.upload(new_blob()), new_blob()
    assert alice.verify(alice.action("verify", other), stored.entry).status_code == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 4_000])
def test_a_body_that_is_not_json_is_400(alice: Client, dialect: Dialect, body: bytes) -> None:
    """A client must be able to tell unparsable JSON (400) from an object that is not held (404)."""
    alice = alice.speaking(dialect)
    assert alice.verify(alice.action("verify", new_blob()), body).status_code == 400


@pytest.mark.parametrize("body", [[], {}, {"size": 5}])
def test_json_of_another_shape_is_400(alice: Client, body: object) -> None:
    """The git-lfs client takes 422 on verify for success, so INVALID_ARGUMENT is 400 here (client-1)."""
    assert alice.verify(alice.action("verify", new_blob()), body).status_code == 400


@pytest.mark.parametrize(
    ("size", "status"), [(None, 400), ("64", 400), (1.5, 400), (True, 400), ([], 400), (-1, 404), (2**63, 404)]
)
def test_a_size_of_another_type_is_400_and_no_size_at_all_404(alice: Client, size: object, status: int) -> None:
    """The git-lfs client takes 422 for success, so a bad type is 400 and an impossible size 404 (client-1)."""
    blob = new_blob()
    actions = alice.entry("upload", blob)["actions"]
    assert alice.put(actions["upload"], blob.content).status_code == 200
    assert alice.verify(actions["verify"], {"oid": blob.oid, "size": size}).status_code == status


@pytest.mark.parametrize(
    ("oid", "status"), [(None, 400), (5, 400), ("", 404), ("x", 404), ("A" * 64, 404), ("../x", 404)]
)
def test_an_oid_of_another_type_is_400_and_no_oid_at_all_404(alice: Client, oid: object, status: int) -> None:
    """The client takes 422 for success, so a bad type is 400 and a text that is no oid 404 (client-1, trap-28)."""
    assert alice.verify(alice.action("verify", new_blob()), {"oid": oid, "size": 64}).status_code == status


def test_unknown_fields_are_ignored(alice: Client) -> None:
    """Later clients send more fields, and a verify must not fail because of them."""
    blob = new_blob()
    actions = alice.entry("upload", blob)["actions"]
    assert alice.put(actions["upload"], blob.content).status_code == 200
    assert alice.verify(actions["verify"], {**blob.entry, "x": None, "transfer": "basic"}).status_code == 200


def test_verify_tells_the_truth_after_a_refused_upload(alice: Client) -> None:
    """A verify after a refused upload is 404, because 200 promises that the server has the object (trap-1)."""
    blob = new_blob()
    actions = alice.entry("upload", blob)["actions"]
    assert alice.put(actions["upload"], blob.content + b"x").status_code == 400
    assert alice.verify(actions["verify"], blob.entry).status_code == 404
