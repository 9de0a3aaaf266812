"""Removed objects and the real git-lfs: what a fetch and a push say, and how an object comes back."""

from pathlib import Path

import pytest

from tests.support.git import Clone, Workspace
from tests.support.http import content, oid_of
from tests.support.stack import Stack

REPOSITORY = "demo/assets"


@pytest.fixture
def removed(alices: Clone, stack: Stack) -> bytes:
    """The bytes of an object that was pushed and then removed; another one beside it was not."""
    data = content("to be removed", 50_000)
    alices.commit({"removed.dat": data, "kept.dat": content("to be kept", 50_000)})
    alices.git("push", "origin", "main")
    stack.towpath("object", "remove", REPOSITORY, oid_of(data), "--reason", "the licence ended")
    return data


def test_a_fetch_tells_the_reason_until_the_object_comes_back(
    removed: bytes, bob: Workspace, remote: Path, stack: Stack
) -> None:
    """A clone gets all but the removed object, and is told why; after `undelete` it gets equal bytes."""
    bob.git("config", "--global", "filter.lfs.smudge", "git-lfs smudge --skip -- %f")
    bob.git("config", "--global", "filter.lfs.process", "git-lfs filter-process --skip")
    clone = bob.clone(remote, lfs_url=stack.base_url)
    assert clone.lfs("pull", "--include=kept.dat", check=False).returncode == 0
    failed = clone.lfs("pull", check=False)
    assert failed.returncode != 0
    assert "the object was removed: the licence ended" in failed.stderr
    stack.towpath("object", "undelete", REPOSITORY, oid_of(removed))
    clone.lfs("pull")
    assert (clone.path / "removed.dat").read_bytes() == removed
    assert "Git LFS fsck OK" in clone.fsck()


def test_a_push_of_a_whole_history_says_what_to_do(removed: bytes, alices: Clone, tmp_path: Path, stack: Stack) -> None:
    """The push to a new remote names both ways out, and both work."""
    alices.git("init", "--quiet", "--bare", tmp_path / "new.git")
    alices.git("remote", "add", "new", tmp_path / "new.git")
    alices.commit({"later.dat": content("later", 50_000)})
    refused = alices.git("push", "new", "main", check=False)
    assert refused.returncode != 0
    assert "the object was removed: the licence ended" in refused.stderr
    assert "git push --no-verify" in refused.stderr
    alices.git("push", "--no-verify", "new", "main")
    alices.commit({"last.dat": content("last", 50_000)})
    stack.towpath("object", "undelete", REPOSITORY, oid_of(removed))
    alices.git("push", "new", "main")
    held = {entry["oid"] for entry in stack.towpath("object", "list", REPOSITORY)}
    assert {oid_of(content(name, 50_000)) for name in ("later", "last", "to be removed")} <= held
