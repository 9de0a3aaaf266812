"""Requests that editors and their plugins send, in their order, and what the plugins read of the answers.

The sequences are our own, made by the public sources of the plugins; see docs/locks.md.
"""

from typing import Any

import httpx
import pytest

from services.conformance.dialects import GIT_LFS
from services.conformance.strict_json import TIMESTAMP
from tests.protocol.administration import Administration
from tests.protocol.answers import parse
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack

ON_BOB = {"ref": {"name": "refs/heads/bob"}}
MAPS = ["Content/Maps/Main Menu.umap", "Content/Maps/Boss.umap", "Content/Hero/Hero.uasset"]


@pytest.fixture
def repository(new_repository: NewRepository, operator: Administration, stack: Stack) -> Client:
    """Alice at a repository of the test's own, in which Bob may write his branch."""
    alice = new_repository()
    operator.grant("bob", alice.base_url.removeprefix(f"{stack.origin}/"), "write", ["refs/heads/bob"])
    return alice.speaking(GIT_LFS)


def colleague(editor: Client, bob: Client) -> Client:
    """Return Bob at the repository of the editor."""
    return bob.at(editor.base_url).speaking(GIT_LFS)


class Friendshipper:
    """The Unreal client that locks many files in one call, by a library that names neither dialect."""

    def __init__(self, editor: Client) -> None:
        self._editor = editor

    def call(self, operation: str, paths: list[str], *, force: bool = False) -> tuple[list[str], dict[str, str]]:
        """Return the paths that are now locked or unlocked, and the reason for each that is not.

        For any status but success the client shows an error, and after 404 it runs `git lfs lock` for each path.
        """
        editor = self._editor
        answer = editor.http.post(
            f"{editor.base_url}/locks/batch/{operation}",
            json={"paths": paths, "force": force},
            headers={"Accept": "*/*", "Authorization": editor.authorization or ""},
        )
        assert answer.status_code == 200, answer.text
        batch = parse(answer.content)["batch"]
        return batch["paths"], {failure["path"]: failure["reason"] for failure in batch["failures"]}


def test_friendshipper_checks_out_and_in(repository: Client, bob: Client) -> None:
    """One call locks all files that can be locked, and gives the editor the reason for each of the others."""
    bobs, editor = colleague(repository, bob), Friendshipper(repository)
    assert bobs.lock(MAPS[1], **ON_BOB).status_code == 201
    locked, failures = editor.call("lock", MAPS)
    assert locked == [MAPS[0], MAPS[2]]
    assert list(failures) == [MAPS[1]]
    assert "bob" in failures[MAPS[1]]
    # A second check-out of what the user has already is no failure.
    assert editor.call("lock", [MAPS[0]]) == ([MAPS[0]], {})
    unlocked, failures = editor.call("unlock", MAPS)
    assert (unlocked, list(failures)) == ([MAPS[0], MAPS[2]], [MAPS[1]])
    assert editor.call("unlock", [MAPS[1]], force=True) == ([MAPS[1]], {})
    assert repository.locks().json() == {"locks": []}


class Lockstep:
    """The Unreal plugin that speaks the interface itself, reads one page, and never names a ref or a limit."""

    def __init__(self, editor: Client) -> None:
        self._editor = editor

    def status(self) -> dict[str, dict[str, Any]]:
        """Return the locks by their paths, each with whether it is the user's own, as the plugin keeps them."""
        answer = self._editor.post("/locks/verify", b"{}")
        assert answer.status_code == 200
        sides = answer.json()
        return {lock["path"]: {**lock, "own": side == "ours"} for side in ("ours", "theirs") for lock in sides[side]}

    def check_out(self, path: str) -> httpx.Response:
        """Lock a file."""
        return self._editor.lock(path)

    def check_in(self, path: str) -> httpx.Response:
        """Give the lock of a file back, by the id in the status."""
        lock = self.status()[path]
        assert lock["own"]
        return self._editor.unlock(lock["id"], force=False)


def test_lockstep_checks_out_and_in(repository: Client, bob: Client) -> None:
    """The status names the owner of each lock, a refused check-out does too, and a check-in goes by the id."""
    bobs, editor = colleague(repository, bob), Lockstep(repository)
    assert editor.status() == {}
    assert bobs.lock(MAPS[1], **ON_BOB).status_code == 201
    locked = editor.check_out(MAPS[0])
    assert locked.status_code == 201
    lock = locked.json()["lock"]
    assert (lock["path"], lock["owner"]) == (MAPS[0], {"name": "alice"})
    assert TIMESTAMP.fullmatch(lock["locked_at"])
    refused = editor.check_out(MAPS[1])
    assert refused.status_code == 409
    assert (refused.json()["lock"]["path"], refused.json()["lock"]["owner"]) == (MAPS[1], {"name": "bob"})
    assert {path: found["own"] for path, found in editor.status().items()} == {MAPS[0]: True, MAPS[1]: False}
    assert editor.check_in(MAPS[0]).json()["lock"] == lock
    assert list(editor.status()) == [MAPS[1]]
    # What somebody else has locked is given back by force only, and the plugin shows the message.
    kept = repository.unlock(refused.json()["lock"]["id"], force=False)
    assert (kept.status_code, "bob" in kept.json()["message"]) == (403, True)


def test_a_plugin_that_reads_one_page_sees_as_many_locks_as_the_setting_says(repository: Client) -> None:
    """An operator lets a plugin that reads one page see up to 1,000 locks, by TOWPATH_LOCK_PAGE_DEFAULT."""
    paths = [f"Content/{number:04}.uasset" for number in range(1000)]
    assert repository.post("/locks/batch/lock", {"paths": paths, "atomic": True}).status_code == 201
    status = Lockstep(repository).status()
    assert list(status) == paths
    assert all(lock["own"] for lock in status.values())


class Poller:
    """An editor that asks for all locks each second, and keeps them until the answer is not 304."""

    def __init__(self, editor: Client) -> None:
        self._editor = editor
        self._tag = ""
        self.locks: dict[str, str] = {}
        """The owners of the locked paths, as the editor shows them."""

    def poll(self) -> int:
        """Ask, and return the status of the first page; read the other pages after a change."""
        headers = [*self._editor.headers(body=False), *([("If-None-Match", self._tag)] if self._tag else [])]
        url = f"{self._editor.base_url}/locks?limit=2"
        answer = self._editor.send("GET", url, headers=headers)
        if answer.status_code == 304:
            assert answer.headers["etag"] == self._tag
            return 304
        self._tag, found = answer.headers["etag"], list(answer.json()["locks"])
        while cursor := answer.json().get("next_cursor"):
            answer = self._editor.locks(limit=2, cursor=cursor)
            found += answer.json()["locks"]
        self.locks = {lock["path"]: lock["owner"]["name"] for lock in found}
        return answer.status_code


def test_an_editor_that_polls_shows_each_change_with_the_next_poll(repository: Client, bob: Client) -> None:
    """An editor that polls reads no lock between changes, and gets every change with its next request."""
    bobs, editor = colleague(repository, bob), Poller(repository)
    assert [editor.poll(), editor.poll()] == [200, 304]
    made = repository.lock("a").json()["lock"]
    assert [editor.poll(), editor.poll(), editor.locks] == [200, 304, {"a": "alice"}]
    assert bobs.post("/locks/batch/lock", {"paths": ["b", "c", "d"], **ON_BOB}).status_code == 200
    assert [editor.poll(), editor.poll()] == [200, 304]
    assert editor.locks == {"a": "alice", "b": "bob", "c": "bob", "d": "bob"}
    # What changes nothing is no news.
    assert bobs.lock("a", **ON_BOB).status_code == 409
    assert editor.poll() == 304
    repository.unlock(made["id"])
    bobs.lock("a", **ON_BOB)
    assert [editor.poll(), editor.poll()] == [200, 304]
    assert editor.locks == dict.fromkeys("abcd", "bob")
