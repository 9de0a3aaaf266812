"""The real git-lfs locks, lists, unlocks and checks pushes (the issue's second condition)."""

import json
from typing import Any

import pytest

from tests.support.git import Clone
from tests.support.http import content
from tests.support.stack import Stack


def _locks(clone: Clone, *options: str) -> Any:  # noqa: ANN401 - whatever JSON git-lfs prints
    return json.loads(clone.lfs("locks", "--json", *options).stdout)


def _holder(clone: Clone, path: str) -> str | None:
    found = _locks(clone, f"--path={path}")
    assert len(found) <= 1
    return found[0]["owner"]["name"] if found else None


def _verification(clone: Clone) -> dict[str, bool | None]:
    """Return what the clone has written down about locks: nothing may turn the checks off by itself."""
    lines = clone.git("config", "--get-regexp", "locksverify", check=False).stdout.splitlines()
    return {name: value == "true" for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_lock_is_listed_and_removed(alices: Clone, bobs: Clone) -> None:
    """Lock, locks, locks --verify and unlock do as their manual says for the holder and for another."""
    path = "listed.dat"
    alices.commit({path: content(path, 1000)})
    locked = alices.lfs("lock", path)
    assert f"Locked {path}" in locked.stdout
    assert _holder(alices, path) == _holder(bobs, path) == "alice"
    listed = [line.split() for line in bobs.lfs("locks", f"--path={path}").stdout.splitlines()]
    assert [line[:2] for line in listed] == [[path, "alice"]]
    mark = {line.split()[1]: line[0] for line in alices.lfs("locks", "--verify").stdout.splitlines() if line[0] == "O"}
    assert mark[path] == "O"
    others = [line for line in bobs.lfs("locks", "--verify").stdout.splitlines() if path in line]
    assert len(others) == 1
    assert not others[0].startswith("O")
    assert path in [lock["path"] for lock in _locks(alices, "--verify")["ours"]]
    assert path in [lock["path"] for lock in _locks(bobs, "--verify")["theirs"]]
    assert "Unlocked" in alices.lfs("unlock", path).stdout
    assert _holder(alices, path) is None


def test_locked_path_cannot_be_locked_again(alices: Clone, bobs: Clone) -> None:
    """The second lock fails and says who holds the path (trap-17), for another user and for the holder."""
    path = "twice.dat"
    alices.lfs("lock", path)
    for clone in (bobs, alices):
        second = clone.lfs("lock", path, check=False)
        assert second.returncode != 0
        assert f"Locking {path} failed" in second.stdout + second.stderr
        assert "alice" in second.stdout + second.stderr
    assert _holder(bobs, path) == "alice"


def test_lock_of_another_goes_by_force_only(alices: Clone, bobs: Clone) -> None:
    """Unlock without --force changes nothing (trap-22); with it alice, who may write every ref, removes bob's lock."""
    path = "forced.dat"
    bobs.lfs("lock", path)
    refused = alices.lfs("unlock", path, check=False)
    assert refused.returncode != 0
    assert _holder(alices, path) == "bob"
    alices.lfs("unlock", "--force", path)
    assert _holder(bobs, path) is None


def test_a_grant_for_one_ref_gives_no_force(alices: Clone, bobs: Clone) -> None:
    """Bob may write his own branch alone, and is told who can help (trap-45)."""
    path = "not-forced.dat"
    alices.lfs("lock", path)
    refused = bobs.lfs("unlock", "--force", path, check=False)
    assert refused.returncode != 0
    assert "the lock belongs to alice" in refused.stdout + refused.stderr
    assert _holder(bobs, path) == "alice"


def test_locking_needs_write_access_to_the_ref(alices: Clone, bobs: Clone) -> None:
    """Bob may lock on his own ref, and not on main; listing is his everywhere (protocol: Create lock, List locks)."""
    path = "on-main.dat"
    bobs.git("checkout", "--quiet", "main")
    refused = bobs.lfs("lock", path, check=False)
    assert refused.returncode != 0
    assert _holder(bobs, path) is None
    assert bobs.lfs("locks", "--verify", check=False).returncode != 0
    alices.lfs("lock", path)
    assert _holder(bobs, path) == "alice"
    assert bobs.lfs("unlock", "--force", path, check=False).returncode != 0
    assert _holder(alices, path) == "alice"


def test_push_of_a_file_that_another_has_locked_is_halted(alices: Clone, bobs: Clone, stack: Stack) -> None:
    """Bob's push is halted while alice holds the lock, and goes through when she has given it back."""
    path = "halted.dat"
    bobs.git("config", f"lfs.{stack.base_url}.locksverify", "true")
    alices.lfs("lock", path)
    bobs.commit({path: content("halted", 1000)})
    before = bobs.git("ls-remote", "origin").stdout
    halted = bobs.git("push", "origin", "bob", check=False)
    assert halted.returncode != 0
    assert f"{path} - alice" in halted.stdout + halted.stderr
    assert bobs.git("ls-remote", "origin").stdout == before
    assert _verification(bobs) == {f"lfs.{stack.base_url}.locksverify": True}
    alices.lfs("unlock", path)
    bobs.git("push", "origin", "bob")
    assert bobs.git("ls-remote", "origin").stdout != before


def test_push_of_a_file_that_the_pusher_has_locked_lists_it(alices: Clone, stack: Stack) -> None:
    """Alice's own lock halts nothing and is listed in what her push prints."""
    path = "own.dat"
    alices.git("config", f"lfs.{stack.base_url}.locksverify", "true")
    alices.lfs("lock", path)
    alices.commit({path: content("own", 1000)})
    pushed = alices.git("push", "origin", "main")
    output = pushed.stdout + pushed.stderr
    assert "Consider unlocking your own locked files" in output
    assert f"* {path}" in output
    assert _holder(alices, path) == "alice"


@pytest.mark.parametrize("setting", ["true", None])
def test_failed_push_leaves_lock_checks_as_they_were(setting: str | None, bobs: Clone, stack: Stack) -> None:
    """A push that is refused does not switch lock checks off in the clone (client-8)."""
    name = f"lfs.{stack.base_url}.locksverify"
    if setting:
        bobs.git("config", name, setting)
    before = _verification(bobs)
    bobs.commit({"refused.dat": content(f"refused {setting}", 1000)})
    assert bobs.git("push", "origin", "bob:main", check=False).returncode != 0
    assert _verification(bobs) == before
    bobs.git("config", "lfs.url", f"{stack.origin}/demo/unknown")
    unknown = f"lfs.{stack.origin}/demo/unknown.locksverify"
    if setting:
        bobs.git("config", unknown, setting)
    before = _verification(bobs)
    assert bobs.git("push", "origin", "bob", check=False).returncode != 0
    assert _verification(bobs) == before


def test_the_locks_of_two_branches(alices: Clone, bobs: Clone, stack: Stack) -> None:
    """A path is locked once for all branches, and in a repository with rules once for each branch set apart."""
    path = "apart.dat"
    alices.commit({path: content(path, 1000)})
    bobs.git("config", f"lfs.{stack.base_url}.locksverify", "true")
    alices.lfs("lock", path)
    assert "alice" in (refused := bobs.lfs("lock", path, check=False)).stdout + refused.stderr
    assert refused.returncode != 0
    alices.lfs("unlock", path)
    stack.towpath("repo", "update", "demo/assets", "--lock-space", "refs/heads/bob=per-ref")
    try:
        alices.lfs("lock", path)
        bobs.lfs("lock", path)
        assert [_holder(clone, path) for clone in (alices, bobs)] == ["alice", "bob"]
        for clone in (alices, bobs):
            assert clone.lfs("lock", path, check=False).returncode != 0
            verified = _locks(clone, "--verify")
            assert path in [lock["path"] for lock in verified["ours"]]
            assert path not in [lock["path"] for lock in verified["theirs"]]
        bobs.commit({path: content("of bob", 1000)})
        bobs.git("push", "origin", "bob")
        # The client names no branch when it looks for the lock of a path.
        ambiguous = bobs.lfs("unlock", path, check=False)
        assert "ambiguous" in ambiguous.stdout + ambiguous.stderr
        (lock,) = _locks(bobs, f"--path={path}")
        bobs.lfs("unlock", f"--id={lock['id']}")
        assert _holder(bobs, path) is None
        alices.lfs("unlock", path)
    finally:
        stack.towpath("repo", "update", "demo/assets", "--no-lock-spaces")


STRANGE = [
    "with space.dat",
    "a+b&c=d;e.dat",
    "100%25 %2f %.dat",
    "what?#fragment.dat",
    "quote\"and'single.dat",
    "<angle>|pipe*.dat",
    "back\\slash.dat",
    "new\nline.dat",
    "tab\tand\r.dat",
    "caf\u00e9 composed.dat",
    "cafe\u0301 decomposed.dat",
    "\u4f60\u597d/\U0001f600.dat",
    "deep/" * 40 + "file.dat",
    "-dash.dat",
    "UPPER.DAT",
    "upper.dat",
    "...dat",
    "..hidden/.dat",
]


def test_strange_file_names_are_locked_and_unlocked(alices: Clone) -> None:
    """Any name that a file can have is locked, listed as it is, and unlocked by that name."""
    alices.commit({name: content(name, 100) for name in STRANGE})
    alices.lfs("lock", "--", *STRANGE)
    found = _locks(alices)
    paths = [lock["path"] for lock in found]
    assert sorted(path for path in paths if path in STRANGE) == sorted(STRANGE)
    assert {lock["path"] for lock in _locks(alices, "--verify")["ours"]} >= set(STRANGE)
    for name in STRANGE:
        assert _holder(alices, name) == "alice", repr(name)
    alices.lfs("unlock", "--", *STRANGE)
    assert not {lock["path"] for lock in _locks(alices)} & set(STRANGE)


def test_composed_and_decomposed_names_are_two_locks(alices: Clone, bobs: Clone) -> None:
    """Names that look alike and differ in their bytes are different paths."""
    alices.lfs("lock", "na\u00efve.dat")
    bobs.lfs("lock", "nai\u0308ve.dat")
    assert _holder(alices, "na\u00efve.dat") == "alice"
    assert _holder(alices, "nai\u0308ve.dat") == "bob"


def test_name_that_is_no_utf8_is_locked_and_unlocked(alices: Clone) -> None:
    """A name in another encoding arrives with U+FFFD by both ways, so that unlock finds what lock made."""
    name = b"latin-\xe9.dat"
    alices.lfs("lock", name)
    assert _holder(alices, "latin-\ufffd.dat") == "alice"
    alices.lfs("unlock", name)
    assert _holder(alices, "latin-\ufffd.dat") is None


def test_more_locks_than_a_page(alices: Clone) -> None:
    """The client follows the pages to their end, with and without a limit of its own."""
    names = [f"pages/{n:03}.dat" for n in range(130)]
    alices.lfs("lock", *names)
    assert {lock["path"] for lock in _locks(alices)} >= set(names)
    assert {lock["path"] for lock in _locks(alices, "--verify")["ours"]} >= set(names)
    assert len(_locks(alices, "--limit=7")) == 7
    alices.lfs("unlock", *names)
    assert not {lock["path"] for lock in _locks(alices)} & set(names)
