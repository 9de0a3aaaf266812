"""`towpath repo import` from a real Gitea, where one is on the path: from the server, and from its folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.git import Clone, Workspace
from tests.support.gitea import Gitea, running_gitea
from tests.support.http import content, oid_of
from tests.support.transfer import Target

pytestmark = pytest.mark.drill

FILES = {f"old/{number}.dat": content(f"gitea {number}", 100 + number) for number in range(150)}
FILES |= {"large.dat": content("large", 3_000_000)}


@pytest.fixture
def gitea(tmp_path: Path) -> Iterator[Gitea]:
    """A forge with a private repository of carol's that dave may write."""
    with running_gitea(tmp_path / "gitea") as running:
        for user in ("carol", "dave"):
            running.add_user(user)
        running.ask("carol", "POST", "user/repos", name="film", private=True, default_branch="main")
        running.ask("carol", "PUT", "repos/carol/film/collaborators/dave", permission="write")
        yield running


def _clone(folder: Path, gitea: Gitea, user: str) -> Clone:
    work = Workspace(folder, user, gitea.passwords[user], origin=gitea.origin)
    work.git("clone", "--quiet", f"{gitea.origin}/carol/film.git", "film")
    return Clone(work, work.home / "film")


def test_a_move_from_gitea(gitea: Gitea, target: Target, tmp_path: Path) -> None:
    """All objects with equal hashes, locks of both owners; a second run copies nothing, also from the folder."""
    carols = _clone(tmp_path / "carol", gitea, "carol")
    carols.lfs("install")
    carols.lfs("track", "*.dat")
    carols.git("checkout", "--quiet", "-b", "main")
    carols.commit(FILES)
    carols.git("push", "--quiet", "origin", "main")
    carols.lfs("lock", "large.dat", "old/1.dat")
    _clone(tmp_path / "dave", gitea, "dave").lfs("lock", "old/2.dat")
    url = f"{gitea.origin}/carol/film.git"
    asked = ("--git", url, "--map-owner", "carol=alice", "--map-owner", "dave=bob")
    environment = carols.workspace.environment

    report = target.run("import", "--from", url, *asked, environment=environment)
    assert report["from"] == f"{url}/info/lfs"
    assert report["copied_count"] == len(FILES)
    assert target.objects() == {oid_of(data): len(data) for data in FILES.values()}
    owners = {path: owner for path, (owner, _) in target.locks().items()}
    assert owners == {"large.dat": "alice", "old/1.dat": "alice", "old/2.dat": "bob"}
    again = target.run("import", "--from", url, *asked, environment=environment)
    assert (again["copied_count"], again["held_count"]) == (0, len(FILES))
    assert again["locks"]["kept_count"] == 3

    other = Target(target.stack, f"{target.name}-folder")
    target.stack.towpath("repo", "add", other.name)
    by_folder = other.run("import", "--from", gitea.data / "lfs", "--git", url, environment=environment)
    assert (by_folder["copied_count"], by_folder["problems"]) == (len(FILES), [])
    assert other.objects() == target.objects()

    carols.git("config", "--file", ".lfsconfig", "lfs.url", target.url)
    carols.git("add", ".lfsconfig")
    carols.git("commit", "--quiet", "--message=Large files are on Towpath")
    carols.git("push", "--quiet", "--no-verify", "origin", "main")
    alice = Workspace(tmp_path / "alice", "alice", target.stack.tokens["alice"], origin=target.stack.origin)
    alice.git("clone", "--quiet", "--branch=main", gitea.data / "repositories/carol/film.git", "fresh")
    fresh = Clone(alice, alice.home / "fresh")
    assert all((fresh.path / name).read_bytes() == data for name, data in FILES.items())
    assert "Git LFS fsck OK" in fresh.fsck()
