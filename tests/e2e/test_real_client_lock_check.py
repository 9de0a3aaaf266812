"""Messages of the real git-lfs about the lock check before a push with bad credentials (trap-44)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import content
from tests.support.stack import Stack, running_stack

_ADVICE = "locksverify false"


@pytest.fixture(scope="module")
def strict() -> Iterator[Stack]:
    """A `towpath up` of its own, since what its clients owe would slow those of other tests."""
    with running_stack() as running:
        yield running


def _pusher(folder: Path, strict: Stack, helper: str) -> Clone:
    """Return a clone with something to push, whose user has the credentials that a helper gives."""
    alice = Workspace(folder / "alice", "alice", strict.tokens["alice"], origin=strict.origin)
    shared_repository(alice, folder / "remote.git", lfs_url=strict.base_url)
    mallory = Workspace(folder / "mallory", "mallory", None, origin=strict.origin)
    mallory.git("config", "--global", "credential.helper", helper)
    clone = mallory.clone(folder / "remote.git", lfs_url=strict.base_url)
    clone.commit({"a.dat": content("checked", 1_000)})
    return clone


@pytest.mark.parametrize("checks", [None, pytest.param("true", marks=pytest.mark.drill)])
def test_a_push_with_bad_credentials_says_what_is_wrong(checks: str | None, strict: Stack, tmp_path: Path) -> None:
    """A user whose helper repeats a wrong token is not told to switch the lock check off, and it stays on."""
    clone = _pusher(tmp_path, strict, "!f() { echo username=mallory; echo password=no-such-token; }; f")
    setting = f"lfs.{strict.base_url}.locksverify"
    if checks is not None:
        clone.git("config", setting, checks)
    for _ in range(2):
        pushed = clone.git("push", "origin", "main", check=False)
        said = pushed.stdout + pushed.stderr
        assert pushed.returncode != 0
        assert "the credentials are not valid" in said
        assert _ADVICE not in said
    assert clone.git("config", "--get", setting, check=False).stdout.strip() == (checks or "")


def test_an_address_that_lacks_the_repository(strict: Stack, tmp_path: Path) -> None:
    """A user who corrects it is still kept from pushing over the lock of another."""
    alice, bob = (
        Workspace(tmp_path / user, user, strict.tokens[user], origin=strict.origin) for user in ("alice", "bob")
    )
    first = shared_repository(alice, tmp_path / "remote.git", lfs_url=strict.base_url)
    first.commit({"locked.dat": content("locked", 1_000)})
    first.git("push", "origin", "main")
    first.lfs("lock", "locked.dat")
    clone = bob.clone(tmp_path / "remote.git", lfs_url=strict.base_url)
    clone.git("switch", "--create", "bob")
    clone.commit({"locked.dat": content("changed", 1_000)})
    clone.git("config", "lfs.locksverify", "true")
    clone.git("config", "lfs.url", strict.origin)
    pushed = clone.git("push", "origin", "bob", check=False)
    assert pushed.returncode != 0
    assert "lacks the repository" in pushed.stderr
    clone.git("config", "lfs.url", strict.base_url)
    pushed = clone.git("push", "origin", "bob", check=False)
    assert pushed.returncode != 0
    assert "alice" in pushed.stdout + pushed.stderr
