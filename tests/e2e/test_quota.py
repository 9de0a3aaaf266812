"""Quotas and the real git-lfs: the user reads how much is used, and pushes the rest after there is room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.git import Clone, Workspace
from tests.support.http import content, oid_of
from tests.support.stack import Stack

REPOSITORY = "demo/assets"


@pytest.fixture
def limited(stack: Stack) -> Iterator[None]:
    """A quota that has room for 250 kB more."""
    [usage] = stack.towpath("usage", REPOSITORY)["repositories"]
    stack.towpath("repo", "update", REPOSITORY, "--quota", f"{(usage['object_bytes'] + 250_000) / 1000}kB")
    yield
    stack.towpath("repo", "update", REPOSITORY, "--quota", "none")


@pytest.mark.usefixtures("limited")
def test_a_push_over_the_quota_says_how_much_is_used(alices: Clone, bob: Workspace, remote: Path, stack: Stack) -> None:
    """Two of three files fit; the text is on the screen, and the same push goes on with a larger quota."""
    files = {f"{number}.dat": content(f"quota {number}", 100_000) for number in range(3)}
    alices.commit(files)
    refused = alices.git("push", "origin", "main", check=False)
    assert refused.returncode != 0
    assert " used" in refused.stderr
    [usage] = stack.towpath("usage", REPOSITORY)["repositories"]
    held = {entry["oid"] for entry in stack.towpath("object", "list", REPOSITORY)}
    assert len(held & {oid_of(data) for data in files.values()}) == 2
    assert usage["object_bytes"] <= usage["quota_bytes"]
    assert alices.lfs("lock", "0.dat").returncode == 0
    stack.towpath("repo", "update", REPOSITORY, "--quota", "1GB")
    alices.git("push", "origin", "main")
    clone = bob.clone(remote, lfs_url=stack.base_url)
    assert "Git LFS fsck OK" in clone.fsck()
