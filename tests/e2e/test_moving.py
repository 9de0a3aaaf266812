"""The commands of docs/moving.md, run as they stand there, from one server to another by the real client.

The server to move from is another repository of Towpath here: a client sees no difference.
"""

import os
import secrets
from pathlib import Path

from tests.support.git import Clone, Workspace, run
from tests.support.http import content
from tests.support.snippets import replaced, snippet
from tests.support.stack import TOWPATH, Stack

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


def test_all_objects_of_all_branches_move(alice: Workspace, remote: Path, stack: Stack) -> None:
    """After the walk a new clone has every file from the new server, and its pushes ask for locks."""
    new = _repository(stack)
    alice.git("init", "--quiet", "--bare", remote)
    alice.git("clone", "--quiet", remote, "film")
    film = Clone(alice, alice.home / "film")
    film.git("checkout", "--quiet", "-b", "main")
    film.git("config", "--file", ".lfsconfig", "lfs.url", stack.base_url)
    film.lfs("track", "*.dat")
    film.commit({"cover.dat": content("old cover", 1000)})
    film.commit({"cover.dat": content("cover", 1000)})
    film.git("push", "--quiet", "origin", "HEAD")
    film.git("checkout", "--quiet", "-b", "release")
    film.commit({"poster.dat": content("poster", 1000)})
    film.git("push", "--quiet", "origin", "HEAD")

    _run(alice, alice.home, "fetch", (_REMOTE, str(remote)))
    _run(alice, alice.home / "film-move", "push", (_NEW, new))
    assert "OK" in _run(alice, alice.home, "check", (_REMOTE, str(remote)), (_NEW, new))
    assert len([path for path in (alice.home / "film-check" / "lfs" / "objects").rglob("*") if path.is_file()]) == 3
    film.git("checkout", "--quiet", "main")
    film.git("branch", "--quiet", "--set-upstream-to=origin/main")
    _run(alice, film.path, "switch", (_NEW, new))

    alice.git("clone", "--quiet", "--branch=main", remote, "fresh")
    fresh = Clone(alice, alice.home / "fresh")
    assert (fresh.path / "cover.dat").read_bytes() == content("cover", 1000)
    assert f"Endpoint={new} " in fresh.lfs("env").stdout
    assert fresh.git("config", "--file", ".lfsconfig", "lfs.locksverify").stdout.strip() == "true"
