"""List locks (protocol: List locks; Locking errors)."""

from typing import Any

import httpx
import pytest

from services.conformance.dialects import Dialect
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack


@pytest.fixture(scope="package")
def there(new_repository: NewRepository) -> Client:
    """Alice at a repository in which five paths are locked."""
    client = new_repository("contract/list")
    for name in ("a", "a/b", "A", "b c", "ab"):
        assert client.lock(name).status_code == 201
    return client


@pytest.fixture(scope="package")
def locks(there: Client) -> list[dict[str, Any]]:
    """These five locks, as they are listed."""
    return list(there.locks().json()["locks"])


def pages(client: Client, query: str) -> list[list[dict[str, Any]]]:
    """Follow next_cursor to the end."""
    found: list[list[dict[str, Any]]] = []
    cursor = ""
    while True:
        body = client.locks(f"{query}&cursor={cursor}").json()
        found.append(body["locks"])
        assert len(found) < 100, "client section 5: a cursor that never ends is an endless loop"
        if "next_cursor" not in body:
            return found
        assert isinstance(body["next_cursor"], str)
        assert body["next_cursor"]
        cursor = body["next_cursor"]


def test_all_locks_are_listed(there: Client, dialect: Dialect) -> None:
    """Users learn from the list which paths are locked and by whom, so it has all locks."""
    answer = there.speaking(dialect).locks()
    assert answer.status_code == 200
    assert answer.json().keys() == {"locks"}
    locks = answer.json()["locks"]
    assert {lock["path"] for lock in locks} == {"a", "a/b", "A", "b c", "ab"}
    assert all(lock.keys() == {"id", "path", "locked_at", "owner"} for lock in locks)
    assert all(lock["owner"] == {"name": "alice"} for lock in locks)


@pytest.mark.parametrize("path", ["/a", "..", "\x00", "x" * 5000, "'; DROP TABLE"])
def test_a_path_that_no_lock_can_have_is_an_empty_list(there: Client, path: str) -> None:
    """A path that nobody could lock is no error, so the answer is an empty list and not 404 or 422 (trap-20)."""
    answer = there.locks(path=path)
    assert answer.status_code == 200
    assert answer.json() == {"locks": []}


@pytest.mark.parametrize("lock_id", ["x", "99999999999999999999", "\u0661", "../1", "\x00"])
def test_an_id_that_is_none_is_an_empty_list(there: Client, lock_id: str) -> None:
    """A text that is no lock id matches nothing, so the answer is an empty list (docs/protocol.md, "List locks")."""
    assert there.locks(id=lock_id).json() == {"locks": []}


def test_the_id_of_another_repository_matches_nothing(alice: Client, locks: list[dict[str, Any]]) -> None:
    """A lock id of another repository must not show that repository's lock (trap-19)."""
    assert alice.locks(id=locks[0]["id"]).json() == {"locks": []}


def test_empty_values_are_absent(there: Client, locks: list[dict[str, Any]]) -> None:
    """A client may send parameters that it does not use, so an empty value counts as absent."""
    assert there.locks("path=&id=&cursor=&limit=&refspec=").json() == {"locks": locks}
    assert there.locks("path&id&cursor&limit&refspec").json() == {"locks": locks}


def test_unknown_parameters_are_ignored(there: Client, locks: list[dict[str, Any]]) -> None:
    """Later clients send more parameters, and a list must not fail because of them."""
    assert there.locks("x=1&Path=a&ref=refs/heads/x").json() == {"locks": locks}


def test_a_filter_holds_on_every_page(there: Client, locks: list[dict[str, Any]]) -> None:
    """The page with the last matching lock has no cursor, because the next page would be empty."""
    body = there.locks(path="a", limit=1).json()
    assert body == {"locks": [lock for lock in locks if lock["path"] == "a"]}


def test_a_client_that_knows_the_list_gets_304(new_repository: NewRepository, dialect: Dialect) -> None:
    """An editor that polls reads the list only after a change, and a tag is good for one repository."""
    alice = new_repository().speaking(dialect)

    def poll(tag: str, client: Client = alice) -> httpx.Response:
        headers = [*client.headers(body=False), ("If-None-Match", tag)]
        return client.send("GET", f"{client.base_url}/locks?limit=10", headers=headers)

    tags = [alice.locks().headers["etag"]]
    lock = alice.lock("a").json()["lock"]
    tags.append(alice.locks().headers["etag"])
    assert alice.verify_locks().headers["etag"] == tags[-1]
    answer = poll(f'"x", W/{tags[-1]}')
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tags[-1])
    assert poll(tags[0]).json() == {"locks": [lock]}
    alice.unlock(lock["id"])
    changed = poll(tags[-1])
    assert changed.json() == {"locks": []}
    tags.append(changed.headers["etag"])
    assert len(set(tags)) == 3
    assert poll(tags[-1], new_repository().speaking(dialect)).status_code == 200
    assert poll("*").status_code == 200


def test_a_folder_and_an_owner_filter(new_repository: NewRepository, dialect: Dialect) -> None:
    """Editors show one folder or a user's own locks, and both lists have pages."""
    alice = new_repository().speaking(dialect)
    for path in ("Content/Maps/b", "Content/Maps/a", "Content/Maps2/c"):
        alice.lock(path)
    first = alice.locks(path_prefix="Content/Maps/", limit=1).json()
    assert [lock["path"] for lock in first["locks"]] == ["Content/Maps/a"]
    rest = alice.locks(path_prefix="Content/Maps/", limit=1, cursor=first["next_cursor"]).json()
    assert [lock["path"] for lock in rest["locks"]] == ["Content/Maps/b"]
    assert rest.keys() == {"locks"}
    assert len(alice.locks(owner="alice").json()["locks"]) == 3
    assert alice.locks(owner="bob").json() == {"locks": []}


@pytest.mark.parametrize("limit", ["abc", "1.5", "\x00"])
def test_a_limit_that_is_no_number_is_422(there: Client, limit: str) -> None:
    """A client that sends a limit that is no integer learns which parameter is wrong."""
    answer = there.locks(limit=limit)
    assert answer.status_code == 422
    assert "limit" in answer.json()["message"]


@pytest.mark.parametrize("cursor", ["abc", "-1", "0", "1.5", "9" * 20, "\u0661", "\x00", "x" * 5000])
def test_a_cursor_that_no_page_gave_is_422(there: Client, cursor: str) -> None:
    """A bad cursor must not look like the end of the list, so it is 422 (docs/protocol.md, "List locks")."""
    answer = there.locks(cursor=cursor)
    assert answer.status_code == 422
    assert "cursor" in answer.json()["message"]


def test_a_cursor_of_another_repository_shows_nothing_of_it(there: Client, new_repository: NewRepository) -> None:
    """A cursor of another repository must not leak that repository's locks (trap-19)."""
    other = new_repository()
    mine = [other.lock(f"mine/{number}").json()["lock"] for number in range(2)]
    cursor = there.locks(limit=1).json()["next_cursor"]
    assert there.locks(limit=1).json()["locks"][0] not in mine
    answer = other.locks(cursor=cursor)
    assert answer.status_code == 200
    assert [lock for lock in answer.json()["locks"] if lock not in mine] == []


def test_who_may_read_lists(bob: Client, alice: Client, dialect: Dialect) -> None:
    """Read access is enough to list locks, so that a reader learns who locked a file."""
    lock = alice.lock("list/for-bob").json()["lock"]
    assert bob.speaking(dialect).locks(id=lock["id"]).json() == {"locks": [lock]}
    assert alice.unlock(lock["id"]).status_code == 200


def test_without_pull_access_it_is_403(carol: Client, bob: Client, stack: Stack, dialect: Dialect) -> None:
    """A client takes 404 for a server without locking, so an unknown repository is 403 too."""
    assert carol.speaking(dialect).locks().status_code == 403
    assert bob.speaking(dialect).at(f"{stack.origin}/no/such").locks().status_code == 403
