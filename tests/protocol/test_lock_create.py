"""Create lock (protocol: Create lock; Lock object; Locking errors)."""

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository


def new_path() -> str:
    """Return a path that nobody has locked."""
    return f"create/{new_blob().oid}"


def test_an_owner_in_the_body_is_ignored(alice: Client) -> None:
    """The credentials decide the owner, because an owner in the body would let users lock as others."""
    answer = alice.lock(new_path(), owner={"name": "bob"}, id="1", locked_at="2000-01-01T00:00:00Z")
    assert answer.json().keys() == {"lock"}
    lock = answer.json()["lock"]
    assert lock.keys() == {"id", "path", "locked_at", "owner"}
    assert lock["owner"] == {"name": "alice"}
    assert lock["locked_at"] > "2020"


def test_the_same_path_of_two_repositories_is_two_locks(
    alice: Client, public: Client, new_repository: NewRepository
) -> None:
    """The same path in two repositories is two locks, so that no project blocks another (trap-19)."""
    path = new_path()
    ids = [client.lock(path).json()["lock"]["id"] for client in (alice, public, new_repository())]
    assert len(set(ids)) == 3


@pytest.mark.parametrize("endpoint", ["known", "unknown"])
def test_without_push_access_it_is_403(bob: Client, carol: Client, endpoint: str) -> None:
    """A client takes 404 for a server without locking and stops checking locks, so the answer is 403."""
    path = new_path()
    if endpoint == "unknown":
        assert bob.at(f"{bob.base_url}-unknown").lock(path).status_code == 403
    else:
        assert bob.lock(path).status_code == 403
        assert carol.lock(path).status_code == 403
        assert bob.locks(path=path).json() == {"locks": []}


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 16_000], ids=range(3))
def test_a_body_that_is_not_json_is_400(alice: Client, dialect: Dialect, body: bytes) -> None:
    """A client must be able to tell unparsable JSON (400) from JSON of the wrong shape (422)."""
    assert alice.speaking(dialect).post("/locks", body).status_code == 400


@pytest.mark.parametrize("body", [[], {}, {"path": None}, {"path": 5}])
def test_a_path_that_is_missing_or_no_string_is_422(alice: Client, body: object) -> None:
    """A lock without a path would protect nothing, so the path is required (docs/protocol.md, "Create lock")."""
    assert alice.post("/locks", body).status_code == 422
