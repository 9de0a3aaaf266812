"""The commands of docs/locks.md for git and curl, run as they stand there, by a user with the real client."""

import json
from pathlib import Path

import pytest

from tests.support.git import Clone, Workspace, run
from tests.support.http import content
from tests.support.snippets import replaced, snippet
from tests.support.stack import Stack

_BASE = "https://lfs.studio.example/studio/film"
MAP, HERO = "Content/Maps/Harbour.umap", "Content/Hero.uasset"


@pytest.fixture
def clone(alice: Workspace, remote: Path, stack: Stack) -> Clone:
    """A clone of a repository that was set up as the page says, with nothing in its own configuration."""
    alice.git("init", "--quiet", "--bare", remote)
    alice.git("clone", "--quiet", remote, "film")
    made = Clone(alice, alice.home / "film")
    files = {
        ".lfsconfig": replaced(snippet("locks.md", "lfsconfig"), (_BASE, stack.base_url)).encode(),
        ".gitattributes": snippet("locks.md", "gitattributes").encode(),
        MAP: content("map", 1000),
        HERO: content("hero", 1000),
    }
    made.commit(files)
    made.git("push", "--quiet", "origin", "HEAD:main")
    return made


def _read_only(clone: Clone, name: str) -> bool:
    return not (clone.path / name).stat().st_mode & 0o222


def _run(clone: Clone, stack: Stack, name: str) -> str:
    """Run a block of the page in the clone, and return what it prints."""
    text = snippet("locks.md", name)
    if _BASE in text:
        text = replaced(text, (_BASE, stack.base_url))
    environment = {**clone.workspace.environment, "TOKEN": stack.tokens[clone.workspace.user]}
    return run("sh", "-eu", "-c", text, cwd=clone.path, environment=environment).stdout


def _documents(text: str) -> list[dict[str, list[dict[str, str]]]]:
    """Return the JSON documents that several commands have printed, one after the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
    return found


def test_every_day(clone: Clone, stack: Stack) -> None:
    """A file is locked, edited, pushed and given back, and is read-only before and after."""
    clone.git("checkout", "--quiet", "-B", "main", "origin/main")
    said = _run(clone, stack, "daily")
    assert f"Locked {MAP}" in said
    assert f"Unlocked {MAP}" in said
    assert _read_only(clone, MAP)
    assert clone.git("ls-remote", "origin", "main").stdout.split()[0] == clone.git("rev-parse", "HEAD").stdout.strip()


def test_lists(clone: Clone, stack: Stack) -> None:
    """Each list has the lock, and the filters find it by folder and by owner."""
    clone.lfs("lock", MAP)
    assert _run(clone, stack, "lists").count(MAP) == 5
    by_folder, by_owner, by_both = (
        [lock["path"] for lock in page["locks"]] for page in _documents(_run(clone, stack, "filters"))
    )
    assert (MAP in by_folder, HERO in by_folder) == (True, False)
    assert MAP not in by_owner
    assert MAP in by_both
    clone.lfs("unlock", MAP)


def test_many_at_once(clone: Clone, stack: Stack) -> None:
    """One request locks all paths, and one gives them back."""
    locked, unlocked = _documents(_run(clone, stack, "many"))
    assert [lock["path"] for lock in locked["locks"]] == [MAP, HERO]
    assert unlocked == locked


def test_lfsconfig_turns_the_lock_check_on_for_every_clone(clone: Clone, bob: Workspace, remote: Path) -> None:
    """The push of a clone that was configured in no other way is refused, until its user turns the check off."""
    bob.git("clone", "--quiet", "--branch=main", remote, "film")
    bobs = Clone(bob, bob.home / "film")
    bobs.git("checkout", "--quiet", "-b", "bob")
    clone.lfs("lock", MAP)
    (bobs.path / MAP).chmod(0o644)
    bobs.commit({MAP: content("changed", 1000)})
    refused = bobs.git("push", "origin", "bob", check=False)
    assert refused.returncode != 0
    assert f"{MAP} - alice" in refused.stdout + refused.stderr
    bobs.git("config", "lfs.locksverify", "false")
    bobs.git("push", "origin", "bob")
    clone.lfs("unlock", MAP)


@pytest.mark.parametrize("key", ["locksverify", "setlockablereadonly"])
def test_other_keys_of_lfsconfig_are_ignored(key: str, clone: Clone, stack: Stack) -> None:
    """As the page says: git-lfs warns of a key that it does not read there."""
    section = f"lfs.{stack.base_url}" if key == "locksverify" else "lfs"
    clone.git("config", "--file", ".lfsconfig", f"{section}.{key}", "false")
    said = clone.lfs("env").stderr
    assert "unsafe" in said
    assert f"{section}.{key}" in said
