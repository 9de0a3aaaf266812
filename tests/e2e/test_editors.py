"""Command lines of git-lfs that plugins of Unreal and Unity run, and what the plugins read of the output.

The command lines are those of the public sources of the plugins; see docs/locks.md.
"""

import json
from pathlib import Path

import pytest

from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import content
from tests.support.stack import Stack

ASSETS = [f"Content/Maps/Level 1/Part {number:03}.uasset" for number in range(60)]
# UEGitPlugin names at most so many files in one command.
PORTION = 50


@pytest.fixture
def alices(alice: Workspace, remote: Path, stack: Stack) -> Clone:
    """Alice's clone of a repository of the test's own, whose assets are lockable."""
    clone = shared_repository(alice, remote, lfs_url=stack.base_url)
    clone.lfs("track", "--lockable", "*.uasset", "*.unity")
    clone.commit({name: content(name, 100) for name in [*ASSETS, "Assets/My Scene.unity"]})
    clone.git("push", "--quiet", "origin", "HEAD")
    return clone


@pytest.fixture(autouse=True)
def _no_lock_is_left(alices: Clone) -> None:
    """Remove what earlier tests have left, because all share one list of locks."""
    for lock in json.loads(alices.lfs("locks", "--json").stdout):
        alices.lfs("unlock", "--force", f"--id={lock['id']}")


def _is_writable(clone: Clone, name: str) -> bool:
    return bool((clone.path / name).stat().st_mode & 0o200)


def _as_unreal_reads(clone: Clone, *options: str) -> dict[str, str]:
    """Return the owners by the paths, as UEGitPlugin reads each line: fields between tabs, without the spaces after."""
    found = {}
    for line in clone.lfs("locks", *options).stdout.splitlines():
        path, owner, number = line.split("\t")
        assert number.startswith("ID:")
        found[path.rstrip()] = owner.rstrip()
    return found


def _as_unity_reads(clone: Clone, *options: str) -> dict[str, tuple[str, int]]:
    """Return owner and id by the paths, as github-for-unity reads each line; an id is a number of 32 bits there."""
    found = {}
    for line in clone.lfs("locks", *options).stdout.splitlines():
        path, _, rest = line.partition("\t")
        owner, _, number = rest.rpartition("ID:")
        assert int(number) < 2**31
        found[path.strip()] = owner.strip(), int(number)
    return found


def test_unreal_checks_out_submits_and_checks_in(alices: Clone, bobs: Clone) -> None:
    """Files are locked fifty at a time, listed for everybody, pushed, and given back after the push."""
    assert not any(_is_writable(alices, name) for name in ASSETS)
    for first in range(0, len(ASSETS), PORTION):
        alices.lfs("lock", *ASSETS[first : first + PORTION])
    assert all(_is_writable(alices, name) for name in ASSETS)
    assert _as_unreal_reads(alices) == _as_unreal_reads(bobs) == dict.fromkeys(ASSETS, "alice")
    # When the server cannot be reached, the plugin shows what the last list had, and the user's own locks.
    assert _as_unreal_reads(bobs, "--cached") == dict.fromkeys(ASSETS, "alice")
    assert _as_unreal_reads(alices, "--local").keys() == set(ASSETS)
    assert _as_unreal_reads(bobs, "--local") == {}
    alices.commit({name: content(f"{name} changed", 100) for name in ASSETS[:3]}, "Submit")
    alices.git("push", "-u", "origin", "HEAD")
    alices.lfs("unlock", *ASSETS[:3])
    assert not any(_is_writable(alices, name) for name in ASSETS[:3])
    assert _as_unreal_reads(bobs) == dict.fromkeys(ASSETS[3:], "alice")


def test_unreal_is_told_who_has_a_file(alices: Clone, bobs: Clone) -> None:
    """A check-out of files of which one is locked fails, names its owner, and locks the others."""
    bobs.lfs("lock", ASSETS[1])
    refused = alices.lfs("lock", *ASSETS[:3], check=False)
    assert refused.returncode != 0
    assert "bob" in refused.stdout + refused.stderr
    assert _as_unreal_reads(alices) == {ASSETS[0]: "alice", ASSETS[1]: "bob", ASSETS[2]: "alice"}


def test_unity_locks_lists_and_takes_over(alices: Clone, bobs: Clone) -> None:
    """The lists say owner and id, the user's own locks are known without the server, and --force removes another's."""
    scene = "Assets/My Scene.unity"
    bobs.lfs("lock", scene)
    [(owner, number)] = _as_unity_reads(alices).values()
    assert owner == "bob"
    assert _as_unity_reads(alices, "--local") == {}
    assert _as_unity_reads(bobs, "--local") == {scene: ("bob", number)}
    assert alices.lfs("unlock", scene, check=False).returncode != 0
    alices.lfs("unlock", "--force", scene)
    assert _as_unity_reads(alices) == {}
    alices.lfs("lock", scene)
    [(owner, later)] = _as_unity_reads(bobs).values()
    assert (owner, later > number) == ("alice", True)
    alices.lfs("unlock", scene)


def test_tools_that_read_json(alices: Clone, bobs: Clone) -> None:
    """Friendshipper and others read owner, id and time of each lock, and remove another's lock by its id."""
    alices.lfs("lock", ASSETS[0])
    bobs.lfs("lock", ASSETS[1])
    sides = json.loads(alices.lfs("locks", "--verify", "--json").stdout)
    assert [lock["path"] for lock in sides["ours"]] == [ASSETS[0]]
    [theirs] = sides["theirs"]
    assert (theirs["path"], theirs["owner"]) == (ASSETS[1], {"name": "bob"})
    assert theirs["locked_at"]
    assert json.loads(alices.lfs("locks", "--json", f"--id={theirs['id']}").stdout) == [theirs]
    assert alices.lfs("unlock", f"--id={theirs['id']}", check=False).returncode != 0
    alices.lfs("unlock", "--force", f"--id={theirs['id']}")
    assert [lock["path"] for lock in json.loads(bobs.lfs("locks", "--json").stdout)] == [ASSETS[0]]
