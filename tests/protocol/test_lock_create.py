"""Create lock (protocol: Create lock; Lock object; Locking errors)."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from services.conformance.strict_json import TIMESTAMP
from tests.protocol.answers import ERROR_KEYS, LOCK_ID
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository


def new_path() -> str:
    """Return a path that nobody has locked."""
    return f"create/{new_blob().oid}"


def test_a_free_path_is_locked_for_the_caller(alice: Client, dialect: Dialect) -> None:
    """Clients show a lock's owner and unlock it by its id, so a new lock has every field."""
    path, before = new_path(), time.time()
    answer = alice.speaking(dialect).lock(path)
    assert answer.status_code == 201
    assert answer.json().keys() == {"lock"}, "client-20: no message in a success"
    lock = answer.json()["lock"]
    assert lock.keys() == {"id", "path", "locked_at", "owner"}
    assert lock["path"] == path
    assert lock["owner"] == {"name": "alice"}
    assert isinstance(lock["id"], str)
    assert LOCK_ID.fullmatch(lock["id"]), "client-22: clients put it into a URL as it is"
    assert TIMESTAMP.fullmatch(lock["locked_at"])
    moments = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) for moment in (before - 1, time.time() + 1)]
    assert moments[0] <= lock["locked_at"] <= moments[1]
    assert alice.locks(path=path).json() == {"locks": [lock]}


def test_the_owner_is_who_sent_the_credentials(alice: Client, bob: Client) -> None:
    """The credentials decide the owner, because an owner in the body would let users lock as others."""
    lock = alice.lock(new_path(), owner={"name": "bob"}, id="1", locked_at="2000-01-01T00:00:00Z").json()["lock"]
    assert lock["owner"] == {"name": "alice"}
    assert lock["locked_at"] > "2020"
    lock = bob.lock(new_path(), ref={"name": "refs/heads/bob"}).json()["lock"]
    assert lock["owner"] == {"name": "bob"}


def test_a_locked_path_is_409_with_the_standing_lock(alice: Client, bob: Client, dialect: Dialect) -> None:
    """A user who meets a locked path must learn its holder, so the 409 carries the standing lock (trap-17)."""
    path = new_path()
    lock = alice.lock(path).json()["lock"]
    for client in (alice, bob):
        answer = client.speaking(dialect).lock(path, ref={"name": "refs/heads/bob"})
        assert answer.status_code == 409
        body = answer.json()
        assert {"lock", "message", "request_id"} <= body.keys() <= {"lock"} | ERROR_KEYS
        assert body["lock"] == lock
        assert "alice" in body["message"]
    assert alice.locks(path=path).json() == {"locks": [lock]}


def test_of_many_creators_exactly_one_gets_the_lock(alice: Client, bob: Client) -> None:
    """Two clients must never both get a lock, because both would then edit the same file (trap-14)."""
    for _ in range(3):
        path = new_path()
        with ThreadPoolExecutor(20) as pool:
            lock_as = partial(Client.lock, path=path, ref={"name": "refs/heads/bob"})
            answers = list(pool.map(lock_as, [alice, bob] * 10))
        assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
        (lock,) = (answer.json()["lock"] for answer in answers if answer.status_code == 201)
        assert all(answer.json()["lock"] == lock for answer in answers)
        assert alice.locks(path=path).json() == {"locks": [lock]}


def test_a_path_may_be_locked_again_after_its_lock_is_deleted(alice: Client, bob: Client) -> None:
    """A new lock on the same path has another id, so that the old id cannot remove it."""
    path = new_path()
    first = alice.lock(path).json()["lock"]
    assert alice.unlock(first["id"]).status_code == 200
    second = bob.lock(path, ref={"name": "refs/heads/bob"})
    assert second.status_code == 201
    assert second.json()["lock"]["id"] != first["id"]
    assert second.json()["lock"]["owner"] == {"name": "bob"}


@pytest.mark.parametrize("ref", [None, {}, {"name": "refs/heads/other"}, {"name": "HEAD"}])
def test_a_lock_is_of_a_path_whatever_the_ref(alice: Client, ref: object) -> None:
    """A lock belongs to a path, because the ref decides permission and nothing else (protocol: Ref object)."""
    path = new_path()
    lock = alice.lock(path, ref={"name": "refs/heads/main"}).json()["lock"]
    answer = alice.lock(path, ref=ref)
    assert answer.status_code == 409
    assert answer.json()["lock"] == lock


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


@pytest.mark.parametrize("body", [b"", b"{", b"nul", b"\xff", b"[" * 16_000])
def test_a_body_that_is_not_json_is_400(alice: Client, dialect: Dialect, body: bytes) -> None:
    """A client must be able to tell unparsable JSON (400) from JSON of the wrong shape (422)."""
    assert alice.speaking(dialect).post("/locks", body).status_code == 400


@pytest.mark.parametrize("body", [[], "x", 5, None, {}, {"path": None}, {"path": 5}, {"path": ["a"]}, {"path": {}}])
def test_a_path_that_is_missing_or_no_string_is_422(alice: Client, body: object) -> None:
    """A lock without a path would protect nothing, so the path is required (docs/protocol.md, "Create lock")."""
    assert alice.post("/locks", body).status_code == 422
