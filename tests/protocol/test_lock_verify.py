"""List locks for verification (protocol: List locks for verification; Locking errors)."""

from typing import Any

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol.administration import Administration
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack

REF = {"name": "refs/heads/bob"}


@pytest.fixture(scope="package")
def there(new_repository: NewRepository) -> Client:
    """Alice at a repository in which she and bob hold locks, turn by turn."""
    return new_repository("contract/verify")


@pytest.fixture(scope="package")
def bob_there(bob: Client, there: Client, operator: Administration) -> Client:
    """Bob at that repository, who may write on refs/heads/bob."""
    operator.grant("bob", "contract/verify", "write", [REF["name"]])
    return bob.at(there.base_url)


@pytest.fixture(scope="package")
def locks(there: Client, bob_there: Client) -> list[dict[str, Any]]:
    """Alice's three locks and bob's two, oldest first."""
    answers = [(bob_there if number % 2 else there).lock(f"file{number}", ref=REF) for number in range(5)]
    assert [answer.status_code for answer in answers] == [201] * 5
    return [answer.json()["lock"] for answer in answers]


def of(locks: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the locks of an owner."""
    return [lock for lock in locks if lock["owner"]["name"] == name]


@pytest.mark.parametrize(
    "fields",
    [
        {"ref": None, "cursor": "", "limit": 0},
        {"ref": {"name": "refs/tags/v1"}},
        {"path": "file1", "id": "1", "refspec": "refs/heads/main", "x": [1]},
        {"limit": -1},
        {"limit": 10**30},
    ],
)
def test_no_field_hides_a_lock(there: Client, locks: list[dict[str, Any]], fields: dict[str, object]) -> None:
    """Every field is optional, and none hides a lock, because a lock protects its path on every ref."""
    assert there.verify_locks(**fields).json() == {"ours": of(locks, "alice"), "theirs": of(locks, "bob")}


@pytest.mark.parametrize("cursor", ["abc", "-1", "0", "1.5", "9" * 20, "\x00"])
def test_a_cursor_that_no_page_gave_is_422(there: Client, cursor: str) -> None:
    """A bad cursor must not look like the end of the list, so it is 422 (protocol: verification, cursor)."""
    answer = there.verify_locks(cursor=cursor)
    assert answer.status_code == 422
    assert "cursor" in answer.json()["message"]


@pytest.mark.parametrize("fields", [{"cursor": 5}, {"cursor": []}, {"limit": "5"}, {"limit": 1.5}, {"limit": True}])
def test_a_field_of_the_wrong_type_is_422(there: Client, fields: dict[str, object]) -> None:
    """A cursor or limit of the wrong type is refused by name, because ignoring it would repeat pages."""
    answer = there.verify_locks(**fields)
    assert answer.status_code == 422
    assert next(iter(fields)) in answer.json()["message"]


def test_a_body_that_is_not_json_is_400(there: Client) -> None:
    """A client must be able to tell unparsable JSON (400) from JSON of the wrong shape (422)."""
    assert there.post("/locks/verify", b"{").status_code == 400


def test_json_of_another_shape_is_422(there: Client) -> None:
    """A client must be able to tell JSON of the wrong shape (422) from unparsable JSON (400)."""
    assert there.post("/locks/verify", b"[]").status_code == 422


@pytest.mark.parametrize("fields", [{}, {"ref": None}, {"ref": {}}, {"ref": {"name": ""}}])
def test_without_a_ref_push_access_to_any_is_enough(
    there: Client, bob_there: Client, locks: list[dict[str, Any]], dialect: Dialect, fields: dict[str, object]
) -> None:
    """An editor that sends `{}` must show all locks to its user, even if that user may write only some refs."""
    answer = bob_there.speaking(dialect).verify_locks(**fields)
    assert answer.status_code == 200
    assert answer.json() == {"ours": of(locks, "bob"), "theirs": of(locks, "alice")}
    assert bob_there.lock("refless", **fields).status_code == 403
    assert bob_there.unlock(of(locks, "bob")[0]["id"], **fields).status_code == 403
    assert bob_there.batch("upload", new_blob().entry, **fields).status_code == 403
    assert there.verify_locks().json() == {"ours": of(locks, "alice"), "theirs": of(locks, "bob")}


def test_without_push_access_it_is_403(bob: Client, bob_there: Client, carol: Client, dialect: Dialect) -> None:
    """Verification precedes a push, so a user who may not push to the ref gets 403."""
    for client in (carol, carol.at(bob_there.base_url)):
        assert client.speaking(dialect).verify_locks().status_code == 403
        assert client.speaking(dialect).verify_locks(ref=REF).status_code == 403
    for client in (bob, bob_there):
        assert client.speaking(dialect).verify_locks(ref={"name": "refs/heads/main"}).status_code == 403


@pytest.mark.parametrize(
    "name", ["no/such", "demo", "demo/assets/x", "demo/%2e%2e/x", "demo/%2e", "a" * 300, "%00", "demo/assets=x"]
)
def test_locking_is_implemented_so_that_it_is_never_404(bob: Client, stack: Stack, name: str) -> None:
    """The client switches lock checks off for good after a 404, so an unknown repository is 403 (client-8)."""
    assert bob.at(f"{stack.origin}/{name}").verify_locks().status_code == 403
