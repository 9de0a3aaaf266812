"""The real git-lfs while its repository is archived, renamed, removed and restored."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import content
from tests.support.stack import Stack, running_stack
from tests.support.waiting import blocking_until

_versions = itertools.count()


@pytest.fixture(scope="module")
def site() -> Iterator[Stack]:
    """A `towpath up` whose repository goes through all this."""
    with running_stack() as stack:
        yield stack


def _push(clone: Clone) -> tuple[bool, str]:
    """Push a file that is new, and return whether that succeeded, and what git-lfs said."""
    clone.commit({"art.dat": content(f"version {next(_versions)}", 5_000)})
    pushed = clone.git("push", "origin", "main", check=False)
    return pushed.returncode == 0, pushed.stderr + pushed.stdout


def _refusal(clone: Clone, what: str) -> str:
    """Push until facades know that the repository has changed, and return what git-lfs says."""
    said = ""

    def is_refused() -> bool:
        nonlocal said
        is_pushed, said = _push(clone)
        return not is_pushed

    blocking_until(is_refused, what)
    return said


def test_a_client_through_the_life_of_its_repository(site: Stack, tmp_path: Path) -> None:
    """It pushes by the earlier name, reads what is archived, learns why it may not write, and finds all again."""
    remote = tmp_path / "remote.git"
    alice = Workspace(tmp_path / "alice", "alice", site.tokens["alice"], origin=site.origin)
    clone = shared_repository(alice, remote, lfs_url=site.base_url)
    assert _push(clone)[0]

    site.towpath("repo", "rename", "demo/assets", "demo/moved")
    assert _push(clone)[0]

    site.towpath("repo", "archive", "demo/moved")
    assert "archived" in _refusal(clone, "a push is refused")
    reader = alice.clone(remote, "reader", lfs_url=site.base_url)
    assert (reader.path / "art.dat").stat().st_size == 5_000
    assert "archived" in clone.lfs("lock", "art.dat", check=False).stderr
    site.towpath("repo", "unarchive", "demo/moved")

    site.towpath("repo", "remove", "demo/moved", "--force")
    _refusal(clone, "a push finds no repository")
    site.towpath("repo", "undelete", "demo/moved")
    blocking_until(lambda: _push(clone)[0], "the repository is back")
    again = alice.clone(remote, "again", lfs_url=f"{site.origin}/demo/moved")
    assert (again.path / "art.dat").read_bytes() == (clone.path / "art.dat").read_bytes()
