"""Permissions by ref (docs/protocol.md, "Ref object", "Batch" rule 4 and "Authentication" 5).

User A of the access examples is alice, user B is bob, and the ref that B may write is refs/heads/bob.
"""

import json

import httpx
import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol.administration import Administration
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository

BOBS_REF = {"name": "refs/heads/bob"}
NO_REF: list[dict[str, object]] = [{}, {"ref": None}, {"ref": {}}, {"ref": {"name": ""}}, {"ref": {"name": None}}]
OTHER_REFS = ["HEAD", "refs/heads/bob2", "refs/heads/bob\n", "refs/heads/naïve/✓", "\x00", "x" * 5000]
VERBS = ["upload", "lock", "verify", "unlock"]


def write(client: Client, verb: str, **fields: object) -> httpx.Response:
    """Do something that needs write access; an allowed `unlock` is 404, because its lock is not there."""
    match verb:
        case "upload":
            return client.batch("upload", new_blob().entry, **fields)
        case "lock":
            return client.lock(f"ref/{new_blob().oid}", **fields)
        case "verify":
            return client.verify_locks(**fields)
    return client.unlock("0", **fields)


ALLOWED = {"upload": 200, "lock": 201, "verify": 200, "unlock": 404}
# What bob, who may write one ref, gets where none is named: to see the locks, any ref that one may write is enough.
WITHOUT_REF = {"upload": 403, "lock": 403, "verify": 200, "unlock": 403}


def test_a_download_without_ref_succeeds_for_both(alice: Client, bob: Client, dialect: Dialect) -> None:
    """A download needs no ref, so both users of the first access example succeed without it."""
    blob = alice.upload(new_blob())
    for client in (alice, bob):
        client = client.speaking(dialect)
        assert client.get(client.action("download", blob)).content == blob.content


def test_an_upload_without_ref_succeeds_only_for_a(alice: Client, bob: Client, dialect: Dialect) -> None:
    """A user who may write a single ref must name it, so B's upload without `ref` is 403."""
    blob = new_blob()
    refused = bob.speaking(dialect).batch("upload", blob.entry)
    assert refused.status_code == 403
    assert "objects" not in refused.json()
    assert alice.speaking(dialect).batch("upload", blob.entry).status_code == 200


def test_an_upload_with_the_ref_that_b_may_write_succeeds_for_both(
    alice: Client, bob: Client, dialect: Dialect
) -> None:
    """A ref in the request lets B upload, because B may write that ref and no other (docs/protocol.md, "Batch")."""
    for client in (alice, bob):
        client, blob = client.speaking(dialect), new_blob()
        answer = client.batch("upload", blob.entry, ref=BOBS_REF)
        assert answer.status_code == 200
        action = answer.json()["objects"][0]["actions"]["upload"]
        assert client.put(action, blob.content).status_code == 200
        assert client.holds(blob)


@pytest.mark.parametrize("fields", NO_REF, ids=json.dumps)
@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_ref_null_or_without_a_name_is_no_ref(
    alice: Client, bob: Client, verb: str, fields: dict[str, object]
) -> None:
    """A missing ref, null and a ref without a name are no error, and give no right (client-11, trap-26)."""
    assert write(alice, verb, **fields).status_code == ALLOWED[verb]
    assert write(bob, verb, **fields).status_code == WITHOUT_REF[verb]
    assert bob.batch("download", new_blob().entry, **fields).status_code == 200


@pytest.mark.parametrize("name", OTHER_REFS, ids=range(len(OTHER_REFS)))
@pytest.mark.parametrize("verb", VERBS)
def test_any_other_string_is_a_ref_that_gives_nothing(alice: Client, bob: Client, verb: str, name: str) -> None:
    """A client may send `HEAD` or any other string, so a ref that matches nothing is no error."""
    assert write(alice, verb, ref={"name": name}).status_code == ALLOWED[verb]
    assert write(bob, verb, ref={"name": name}).status_code == 403
    assert bob.batch("download", new_blob().entry, ref={"name": name}).status_code == 200


@pytest.mark.parametrize("verb", VERBS)
def test_the_ref_decides_every_write(bob: Client, dialect: Dialect, verb: str) -> None:
    """Upload, lock, unlock and verify all check the ref, which some servers ignore (trap-26)."""
    bob = bob.speaking(dialect)
    assert write(bob, verb, ref=BOBS_REF).status_code == ALLOWED[verb]
    assert write(bob, verb, ref={"name": "refs/heads/main"}).status_code == 403
    assert write(bob, verb).status_code == WITHOUT_REF[verb]


@pytest.mark.parametrize("ref", ["refs/heads/bob", 5, [], [BOBS_REF], True, {"name": 5}, {"name": ["refs/heads/bob"]}])
@pytest.mark.parametrize("verb", VERBS)
def test_a_ref_of_the_wrong_shape_is_422(alice: Client, verb: str, ref: object) -> None:
    """JSON of the wrong shape is the client's mistake, so it is 422 (protocol: Ref object, name is a string)."""
    assert write(alice, verb, ref=ref).status_code == 422


def test_a_pattern_covers_the_refs_that_it_matches(
    carol: Client, operator: Administration, new_repository: NewRepository
) -> None:
    """A grant for `refs/heads/rel/*` must give no other ref, and the case of letters counts."""
    repository = new_repository("contract/patterns")
    operator.grant("carol", "contract/patterns", "write", ["refs/heads/rel/*", "refs/tags/v?"])
    carol = carol.at(repository.base_url)
    for name in ("refs/heads/rel/1", "refs/heads/rel/1/2", "refs/tags/v1"):
        assert write(carol, "upload", ref={"name": name}).status_code == 200, name
        assert write(carol, "lock", ref={"name": name}).status_code == 201, name
    for name in (
        "refs/heads/rel",
        "refs/heads/release/1",
        "refs/heads/REL/1",
        "refs/tags/v10",
        "refs/heads/rel/../main",
        "refs/heads/rel/1\n",
    ):
        assert write(carol, "upload", ref={"name": name}).status_code == 403, name
        assert write(carol, "lock", ref={"name": name}).status_code == 403, name
    assert carol.batch("download", new_blob().entry).status_code == 200
    assert carol.locks().status_code == 200


def test_refspec_never_limits_reading(bob: Client) -> None:
    """A ref or refspec only decides permission, so reading is never limited (protocol: List locks, refspec)."""
    for refspec in ("refs/heads/bob", "refs/heads/main", "HEAD", "", "x" * 3000, "\x00"):
        assert bob.locks(refspec=refspec).status_code == 200
