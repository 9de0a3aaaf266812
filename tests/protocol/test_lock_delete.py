"""Delete lock (protocol: Delete lock; Locking errors)."""

from typing import Any

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import GENERIC, Dialect
from tests.protocol import raw
from tests.protocol.administration import Administration
from tests.protocol.answers import check
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack

REF = {"name": "refs/heads/bob"}


def new_lock(client: Client) -> dict[str, Any]:
    """Lock a new path."""
    answer = client.lock(f"delete/{new_blob().oid}", ref=REF)
    assert answer.status_code == 201
    return dict(answer.json()["lock"])


def test_a_grant_for_some_refs_gives_no_force(alice: Client, bob: Client, dialect: Dialect) -> None:
    """A user who may write one ref removes no lock of others by force, because the client chooses the ref."""
    lock = new_lock(alice)
    answer = bob.speaking(dialect).unlock(lock["id"], force=True, ref=REF)
    assert answer.status_code == 403
    message = answer.json()["message"]
    assert message == "the lock belongs to alice; only who may write every ref can remove it by force"
    assert alice.locks(id=lock["id"]).json() == {"locks": [lock]}
    own = new_lock(bob)
    assert bob.unlock(own["id"], force=True, ref=REF).json() == {"lock": own}


def test_force_needs_push_access(alice: Client, bob: Client, carol: Client) -> None:
    """Force needs push access, because otherwise any reader could remove the locks of writers."""
    lock = new_lock(alice)
    for client in (bob, carol):
        assert client.unlock(lock["id"], force=True).status_code == 403
        assert client.unlock(lock["id"], force=True, ref={"name": "refs/heads/main"}).status_code == 403
    assert alice.locks(id=lock["id"]).json() == {"locks": [lock]}


def test_a_repository_may_keep_force_for_its_admins(
    carol: Client, operator: Administration, new_repository: NewRepository
) -> None:
    """A repository may reserve force for its admins, but its other users can still remove their own locks."""
    alice = new_repository("contract/admins-force", admins_force=True)
    operator.grant("carol", "contract/admins-force", "write")
    carol = carol.at(alice.base_url)
    hers, his = new_lock(alice), new_lock(carol)
    assert carol.unlock(hers["id"], force=True).status_code == 403
    assert alice.unlock(his["id"], force=True).status_code == 403
    assert alice.unlock(hers["id"], force=True).json() == {"lock": hers}
    operator.grant("alice", "contract/admins-force", "admin")
    assert alice.unlock(his["id"], force=True).json() == {"lock": his}


@pytest.mark.parametrize("force", ["true", 1])
def test_a_force_that_is_no_boolean_is_422(alice: Client, bob: Client, force: object) -> None:
    """A force that is no boolean is refused, because a guess could remove another user's lock."""
    lock = new_lock(alice)
    answer = bob.unlock(lock["id"], force=force, ref=REF)
    assert answer.status_code == 422
    assert "force" in answer.json()["message"]
    assert alice.locks(id=lock["id"]).json() == {"locks": [lock]}


def test_the_body_may_be_empty(alice: Client, stack: Stack) -> None:
    """Every field of an unlock is optional, so a client may send an empty body (docs/protocol.md, "Delete lock")."""
    lock = new_lock(alice)
    assert alice.post(f"/locks/{lock['id']}/unlock", b"").json() == {"lock": lock}
    lock = new_lock(alice)
    target = f"/demo/assets/locks/{lock['id']}/unlock"
    answer = check(raw.exchange(stack.origin, "POST", target, alice.headers(body=False)), GENERIC)
    assert answer.json() == {"lock": lock}


def test_unknown_fields_are_ignored(alice: Client) -> None:
    """Later clients send more fields, and an unlock must not fail because of them."""
    lock = new_lock(alice)
    assert alice.unlock(lock["id"], force=None, path="x", id="0", lock={}).json() == {"lock": lock}


def test_a_body_that_is_not_json_is_400(alice: Client) -> None:
    """A client must be able to tell unparsable JSON (400) from JSON of the wrong shape (422)."""
    lock = new_lock(alice)
    assert alice.post(f"/locks/{lock['id']}/unlock", b"{").status_code == 400
    assert alice.locks(id=lock["id"]).json() == {"locks": [lock]}


def test_json_of_another_shape_is_422(alice: Client) -> None:
    """A client must be able to tell JSON of the wrong shape (422) from unparsable JSON (400)."""
    assert alice.post("/locks/1/unlock", b"[]").status_code == 422


@pytest.mark.parametrize("lock_id", ["x", "verify", "99999999999999999999", "a" * 5000, "%31%20", "%00", "%FF", "a=b"])
def test_an_id_that_is_none_is_404(alice: Client, lock_id: str) -> None:
    """An id that no lock can have is an unknown id and not an error of the server."""
    assert alice.unlock(lock_id, force=True).status_code == 404


@pytest.mark.parametrize("lock_id", ["%2e%2e", "..", "a/b", "a%2fb", "..%2f..%2fother%2flocks%2f1", "%2f", ""])
def test_an_id_that_is_a_path_leads_nowhere(alice: Client, stack: Stack, lock_id: str) -> None:
    """A lock id with `/`, `..` or `%2f` must not reach another repository, so it is 404 or 403."""
    target = f"/demo/assets/locks/{lock_id}/unlock"
    answer = check(raw.exchange(stack.origin, "POST", target, alice.headers(body=True), b'{"force": true}'), GENERIC)
    assert answer.status_code in (403, 404)


def test_the_lock_of_another_repository_is_404(alice: Client, public: Client, new_repository: NewRepository) -> None:
    """A lock id of another repository is 404, because users must not remove locks beyond their access (trap-19)."""
    lock = new_lock(alice)
    for other in (public, new_repository()):
        assert other.unlock(lock["id"]).status_code == 404
        assert other.unlock(lock["id"], force=True).status_code == 404
    assert alice.locks(id=lock["id"]).json() == {"locks": [lock]}


def test_without_access_or_repository_it_is_403(bob: Client, carol: Client, stack: Stack, dialect: Dialect) -> None:
    """An unknown repository is 403 on locks, because a client takes 404 for a server without locking."""
    assert bob.speaking(dialect).unlock("1").status_code == 403
    assert carol.speaking(dialect).unlock("1").status_code == 403
    assert bob.speaking(dialect).at(f"{stack.origin}/no/such").unlock("1").status_code == 403
