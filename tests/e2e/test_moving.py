"""The commands of docs/moving.md, run as they stand there, from one server to another by the real client.

The server to move from is another repository of Towpath here: a client sees no difference.
"""

import os
import secrets
import shlex
from pathlib import Path

import pytest

from tests.support.git import Clone, Workspace, run
from tests.support.http import content
from tests.support.snippets import replaced, snippet
from tests.support.stack import TOWPATH, Stack

_PYTHON = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
_OLD_ORIGIN = "https://old.studio.example"
_OLD, _NAME = f"{_OLD_ORIGIN}/studio/film", "studio/film"
_REMOTE, _NEW = "https://git.studio.example/studio/film.git", "https://lfs.studio.example/studio/film"


def _run(workspace: Workspace, folder: Path, name: str, *changes: tuple[str, str]) -> str:
    text = replaced(snippet("moving.md", name), *changes)
    return run("sh", "-eu", "-c", text, cwd=folder, environment=workspace.environment).stdout


def _repository(stack: Stack) -> str:
    """Make a repository that alice may write to, and return its address."""
    name = f"studio/moved-{secrets.token_hex(4)}"
    for command in (["repo", "add", name], ["grant", "alice", name, "--role", "write"]):
        run(*TOWPATH, *command, "--data", str(stack.data), cwd=Path.cwd(), environment=dict(os.environ))
    return f"{stack.origin}/{name}"


@pytest.fixture
def old(stack: Stack) -> str:
    """The address of the old server's repository."""
    return _repository(stack)


@pytest.fixture
def film(alice: Workspace, remote: Path, old: str) -> Clone:
    """A clone of a git repository with two branches, whose three large files are on the old server."""
    alice.git("init", "--quiet", "--bare", remote)
    alice.git("clone", "--quiet", remote, "film")
    clone = Clone(alice, alice.home / "film")
    clone.git("checkout", "--quiet", "-b", "main")
    clone.git("config", "--file", ".lfsconfig", "lfs.url", old)
    clone.lfs("track", "*.dat")
    clone.commit({"cover.dat": content("old cover", 1000)})
    clone.commit({"cover.dat": content("cover", 1000)})
    clone.git("push", "--quiet", "origin", "HEAD")
    clone.git("checkout", "--quiet", "-b", "release")
    clone.commit({"poster.dat": content("poster", 1000)})
    clone.git("push", "--quiet", "origin", "HEAD")
    clone.git("checkout", "--quiet", "main")
    clone.git("branch", "--quiet", "--set-upstream-to=origin/main")
    return clone


def _switch_over(film: Clone, remote: Path, new: str) -> None:
    """Check that Towpath has all, switch over, and see what a new clone gets."""
    alice = film.workspace
    assert "OK" in _run(alice, alice.home, "check", (_REMOTE, str(remote)), (_NEW, new))
    assert len(_files(alice.home / "film-check" / "lfs" / "objects")) == 3
    _run(alice, film.path, "switch", (_NEW, new))
    alice.git("clone", "--quiet", "--branch=main", remote, "fresh")
    fresh = Clone(alice, alice.home / "fresh")
    assert (fresh.path / "cover.dat").read_bytes() == content("cover", 1000)
    assert f"Endpoint={new} " in fresh.lfs("env").stdout
    assert fresh.git("config", "--file", ".lfsconfig", "lfs.locksverify").stdout.strip() == "true"


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_all_objects_of_all_branches_move(film: Clone, remote: Path, old: str, stack: Stack) -> None:
    """After an import a new clone has every file from the new server, and its pushes ask for locks; and so back."""
    new = _repository(stack)
    name = new.removeprefix(f"{stack.origin}/")
    alice = film.workspace
    film.lfs("lock", "cover.dat")
    # As on the computer of an operator, which has no helper yet.
    (alice.home / "credentials").write_text("")
    places = ((_OLD, old), (_REMOTE, str(remote)), ("towpath repo", _towpath("repo")), (_NAME, name))
    environment = {**alice.environment, "PASSWORD": stack.tokens["alice"], "TOWPATH_DATA": str(stack.data)}
    credentials = replaced(
        snippet("moving.md", "credentials"), (f"{_OLD_ORIGIN}\\n", f"{stack.origin}\\n"), ("carol", "alice")
    )
    _shell(credentials, alice.home, environment)
    _shell(replaced(snippet("moving.md", "import"), *places), alice.home, environment)
    owners = replaced(
        snippet("moving.md", "owners"), *places, ("Carol Example=carol", "alice=alice"), ("archive", "bob")
    )
    assert "locks kept count      1" in _shell(owners, alice.home, environment)
    assert [lock["path"] for lock in stack.towpath("lock", "list", name)] == ["cover.dat"]

    target = alice.home / "export"
    export = replaced(snippet("moving.md", "export"), places[2], places[3], ("/srv/export", str(target)))
    _shell(export, alice.home, environment)
    assert len(_files(target / "objects")) == 3
    other = _repository(stack).removeprefix(f"{stack.origin}/")
    folder = replaced(
        snippet("moving.md", "folder"),
        places[2],
        (_NAME, other),
        ("/srv/film/.git/lfs/objects", str(target / "objects")),
        ("locks.json", str(target / "locks.json")),
    )
    _shell(folder, alice.home, environment)
    assert len(stack.towpath("object", "list", other)) == 3
    assert [lock["owner"] for lock in stack.towpath("lock", "list", other)] == ["alice"]
    film.lfs("unlock", "cover.dat")
    _switch_over(film, remote, new)


def test_a_move_through_a_clone(film: Clone, remote: Path, stack: Stack) -> None:
    """The same without an administrator, by git-lfs alone."""
    new = _repository(stack)
    alice = film.workspace
    _run(alice, alice.home, "fetch", (_REMOTE, str(remote)))
    _run(alice, alice.home / "film-move", "push", (_NEW, new))
    _switch_over(film, remote, new)


def _towpath(command: str) -> str:
    return f"{shlex.join(TOWPATH)} {command}"


def _shell(text: str, folder: Path, environment: dict[str, str]) -> str:
    return run("sh", "-eu", "-c", text, cwd=folder, environment=environment | _PYTHON).stdout
