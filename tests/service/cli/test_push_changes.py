"""The paths that a push changes, by a real git in a bare repository."""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

import pytest

from services.cli.errors import CommandError
from services.cli.push_hooks.changes import Space, in_batches, landed_paths, pushed_paths
from services.cli.push_hooks.git import Git, RefUpdate, read_updates
from tests.support.programs import needed
from tests.support.waiting import STEP_SECONDS

NONE = "0" * 40
MAIN = "refs/heads/main"
FEATURE = "refs/heads/feature"


class Server:
    """A bare repository that has the objects of a push before its refs move, and a clone in which they are made."""

    def __init__(self, folder: Path) -> None:
        needed("git")
        self._clone = folder / "clone"
        self._bare = folder / "bare.git"
        kept = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
        people = {f"GIT_{who}_{what}": "a@b.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self._environment = {**kept, **people}
        self._run("init", "--quiet", "--bare", "--initial-branch=main", str(self._bare), cwd=folder)
        self._run("init", "--quiet", "--initial-branch=main", str(self._clone), cwd=folder)

    def _run(self, *arguments: str, cwd: Path, data: bytes | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd,
            env=self._environment,
            input=data,
            capture_output=True,
            check=True,
            timeout=STEP_SECONDS,
        )
        return done.stdout.decode().strip()

    def git(self, *arguments: str, data: bytes | None = None) -> str:
        """Run git in the clone."""
        return self._run(*arguments, cwd=self._clone, data=data)

    def commit(self, files: Mapping[str, str | None]) -> str:
        """Commit files, of which those without content are removed, and return the commit."""
        for name, content in files.items():
            path = self._clone / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=Change")
        return self.head

    def merge(self, other: str, files: Mapping[str, str | None] | None = None, *options: str) -> str:
        """Merge a branch, with changes of its own, and return the commit."""
        self.git("merge", "--quiet", "--no-commit", "--no-ff", *options, other)
        return self.commit(files or {})

    @property
    def head(self) -> str:
        """The commit that is checked out."""
        return self.git("rev-parse", "HEAD")

    def ref(self, name: str) -> str:
        """Return the id that a ref of the bare repository has; zeros for none."""
        return self._run("for-each-ref", "--format=%(objectname)", name, cwd=self._bare) or NONE

    def accept(self, ref: str, new: str | None = None) -> None:
        """Push what is checked out."""
        self.git("push", "--quiet", "--force", str(self._bare), f"{new or self.head}:{ref}")

    def update(self, ref: str, new: str | None = None) -> RefUpdate:
        """Bring the objects of a push, and return its update before the ref moves."""
        new = new or self.head
        self.git("push", "--quiet", "--force", str(self._bare), f"{new}:refs/incoming/one")
        self._run("update-ref", "-d", "refs/incoming/one", cwd=self._bare)
        return RefUpdate(self.ref(ref), new, ref)

    def hook(self) -> Git:
        """Return the git of a hook."""
        return Git({**self._environment, "GIT_DIR": str(self._bare)})

    async def pushed(self, ref: str, new: str | None = None, *, space: Space | None = None) -> list[str]:
        """Return the paths that a push changes."""
        update = self.update(ref, new)
        return sorted({path.decode() async for path in pushed_paths(self.hook(), update, space=space)})

    async def deleted(self, *refs: str) -> list[str]:
        """Return the paths that the deletion of refs changes."""
        updates = [RefUpdate(self.ref(ref), NONE, ref) for ref in refs]
        found = [pushed_paths(self.hook(), update, updates=updates) for update in updates]
        return sorted({path.decode() for paths in found async for path in paths})

    async def landed(self, ref: str) -> list[str]:
        """Push, and return the paths that have landed."""
        old = self.ref(ref)
        self.accept(ref)
        return sorted([path.decode() async for path in landed_paths(self.hook(), RefUpdate(old, self.head, ref))])


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """A server whose main has the files a, b and c/d, and whose branch `feature` is there too."""
    server = Server(tmp_path)
    server.commit({"a": "1", "b": "1", "c/d": "1"})
    server.accept(MAIN)
    server.accept(FEATURE)
    server.git("checkout", "--quiet", "-b", "feature")
    return server


async def test_commits(server: Server) -> None:
    """Each of several commits counts, also where a later one takes its change back."""
    server.commit({"a": "2"})
    server.commit({"a": "1", "new": "1"})
    assert set(await server.pushed(FEATURE)) == {"a", "new"}


async def test_deletions_and_renames(server: Server) -> None:
    """A rename is told by both paths."""
    server.commit({"a": None, "b": None, "moved/b": "1"})
    assert await server.pushed(FEATURE) == ["a", "b", "moved/b"]


async def test_odd_names(server: Server) -> None:
    """Neither quotes nor newlines, nor a name that is both a file and a folder."""
    server.commit({'q"uote\n': "1", "-dash": "1", "ü": "1", "a": None})
    server.commit({"a/b": "1"})
    assert set(await server.pushed(FEATURE)) == {'q"uote\n', "-dash", "ü", "a", "a/b"}


async def test_the_first_push(tmp_path: Path) -> None:
    """The files of the root commit are new."""
    empty = Server(tmp_path)
    empty.commit({"x": "1", "y/z": "1"})
    assert await empty.pushed(MAIN) == ["x", "y/z"]
    assert await empty.landed(MAIN) == ["x", "y/z"]


async def test_a_new_branch_adds_its_commits_alone(server: Server) -> None:
    """Those that another branch has were checked when they came."""
    server.commit({"a": "2"})
    server.accept(FEATURE)
    server.commit({"b": "2"})
    assert await server.pushed("refs/heads/new") == ["b"]
    assert await server.landed("refs/heads/new") == ["b"]


async def test_the_deletion_of_a_branch_drops_its_commits(server: Server) -> None:
    """A change that another ref has, or the default branch by other commits, is not lost."""
    assert await server.deleted(FEATURE) == []
    update = RefUpdate(server.ref(FEATURE), NONE, FEATURE)
    assert [path async for path in landed_paths(server.hook(), update)] == []
    server.commit({"a": "2", "b": "2"})
    server.accept(FEATURE)
    server.accept("refs/heads/other")
    assert await server.deleted(FEATURE) == []
    assert await server.deleted(FEATURE, "refs/heads/other") == ["a", "b"]
    assert await server.deleted("refs/tags/none", FEATURE) == []
    server.git("checkout", "--quiet", "main")
    server.commit({"a": "2"})
    server.accept(MAIN)
    assert await server.deleted(FEATURE, "refs/heads/other") == ["b"]


async def test_a_change_comes_from_another_space(server: Server) -> None:
    """A change that a branch of another space, or a tag, has brought is new to a branch of this one."""
    default = Space(is_default=True, tips=[server.ref(MAIN), server.ref(FEATURE)])
    server.commit({"a": "2"})
    server.accept("refs/heads/release")
    server.accept("refs/tags/one")
    assert await server.pushed(FEATURE) == []
    assert await server.pushed(FEATURE, space=default) == ["a"]
    assert await server.pushed("refs/heads/new", space=default) == ["a"]
    server.accept(FEATURE)
    merged = Space(is_default=True, tips=[server.ref(MAIN), server.ref(FEATURE)])
    assert await server.pushed("refs/heads/new", space=merged) == []


async def test_a_branch_with_a_space_of_its_own(server: Server) -> None:
    """All that differs counts, as on the default branch; of a new one, since it has left that."""
    release = "refs/heads/release"
    server.git("checkout", "--quiet", "main")
    server.commit({"c/d": "2"})
    server.accept(MAIN)
    server.git("checkout", "--quiet", "-b", "release")
    server.commit({"a": "2"})
    server.accept(FEATURE)
    apart = Space(is_default=False, tips=[])
    assert await server.pushed(release) == []
    assert await server.pushed(release, space=apart) == ["a"]
    server.accept(release)
    server.commit({"b": "2"})
    server.accept(FEATURE)
    assert await server.pushed(release, space=apart) == ["b"]


async def test_a_branch_with_a_space_of_its_own_and_no_other(tmp_path: Path) -> None:
    """Without a default branch all files of a new one are new."""
    empty = Server(tmp_path)
    empty.commit({"x": "1"})
    empty.accept("refs/tags/one")
    assert await empty.pushed("refs/heads/release", space=Space(is_default=False, tips=[])) == ["x"]


async def test_main_is_merged_into_a_branch(server: Server) -> None:
    """The changes of others on main are not the pusher's, and those of the branch are."""
    server.commit({"b": "2"})
    server.git("checkout", "--quiet", "main")
    server.commit({"a": "2", "c/d": None})
    server.accept(MAIN)
    server.git("checkout", "--quiet", "feature")
    server.merge("main")
    assert await server.pushed(FEATURE) == ["b"]


async def test_an_evil_merge(server: Server) -> None:
    """A change that is made in the merge itself is the pusher's."""
    server.git("checkout", "--quiet", "main")
    server.commit({"a": "2"})
    server.accept(MAIN)
    server.git("checkout", "--quiet", "feature")
    server.commit({"b": "2"})
    server.accept(FEATURE)
    server.merge("main", {"c/d": "evil", "added": "1"})
    assert await server.pushed(FEATURE) == ["added", "c/d"]


@pytest.mark.parametrize("ref", [MAIN, "refs/heads/release"])
async def test_a_merge_that_discards(ref: str, server: Server) -> None:
    """A merge that has the files of one side alone takes the changes of the other one back."""
    server.commit({"b": "2"})
    server.accept(FEATURE)
    server.git("checkout", "--quiet", "main")
    server.commit({"a": "2"})
    server.accept(ref)
    server.git("checkout", "--quiet", "feature")
    server.merge("main", None, "--strategy=ours")
    assert "a" in await server.pushed(ref)


async def test_a_branch_is_merged_into_the_default_branch(server: Server) -> None:
    """Its files change for everybody, although another user has pushed them before; on other branches they do not."""
    server.commit({"a": "2"})
    server.accept(FEATURE)
    server.git("checkout", "--quiet", "main")
    server.accept("refs/heads/release")
    server.merge("feature")
    assert await server.pushed(MAIN) == ["a"]
    assert await server.pushed("refs/heads/release") == []
    assert await server.landed(MAIN) == ["a"]


async def test_the_default_branch_is_forwarded(server: Server) -> None:
    """A push without any new commit changes it all the same."""
    server.commit({"a": "2"})
    server.accept(FEATURE)
    assert await server.pushed(MAIN) == ["a"]


async def test_a_forced_push(server: Server) -> None:
    """Files of dropped commits are changed back; changes of main that a rebase brings are not the pusher's."""
    start = server.head
    server.commit({"a": "2"})
    server.commit({"b": "2"})
    server.accept(FEATURE)
    assert await server.pushed(FEATURE, start) == ["a", "b"]
    server.git("checkout", "--quiet", "main")
    server.commit({"c/d": "2"})
    server.accept(MAIN)
    server.git("checkout", "--quiet", "feature")
    server.git("rebase", "--quiet", "main")
    assert set(await server.pushed(FEATURE)) == {"a", "b"}


async def test_tags(server: Server) -> None:
    """A tag leads to its commit; one of a file leads to none."""
    commit = server.commit({"a": "2"})
    server.git("tag", "--annotate", "--message=one", "one", commit)
    server.git("tag", "--annotate", "--message=two", "two", "one")
    assert await server.pushed("refs/tags/two", server.git("rev-parse", "refs/tags/two")) == ["a"]
    server.git("tag", "--annotate", "--message=blob", "blob", f"{commit}:a")
    assert await server.pushed("refs/tags/blob", server.git("rev-parse", "refs/tags/blob")) == []
    assert await server.pushed("refs/tags/light", server.git("rev-parse", f"{commit}:a")) == []


async def test_a_replacement_hides_nothing(server: Server) -> None:
    """A pushed refs/replace/... would show another commit in place of the one that counts."""
    base = server.head
    commit = server.commit({"a": "2"})
    harmless = server.git("commit-tree", f"{base}^{{tree}}", "-p", base, "-m", "Change nothing")
    server.accept(f"refs/replace/{commit}", harmless)
    assert await server.pushed(FEATURE, commit) == ["a"]


async def test_commits_that_are_not_there(server: Server) -> None:
    """Git's own message tells what is wrong."""
    update = RefUpdate(server.ref(FEATURE), "1" * 40, FEATURE)
    with pytest.raises(CommandError, match="git cat-file failed with status 128: fatal"):
        _ = [path async for path in pushed_paths(server.hook(), update)]
    missing = RefUpdate("1" * 40, server.ref(FEATURE), MAIN)
    with pytest.raises(CommandError, match="git diff-tree failed with status 128: fatal"):
        _ = [path async for path in pushed_paths(server.hook(), missing)]
    with pytest.raises(CommandError, match="git rev-list failed with status 128: fatal"):
        _ = [path async for path in server.hook().changed_by("1" * 40)]


async def test_many_paths_come_in_batches(server: Server) -> None:
    """Each path is there once, and one that is not UTF-8, which nobody can lock, is not."""
    head = server.head
    for content in ("1", "2"):
        lines = [f"100644 blob {_blob(server, content)}\tmany/{number}".encode() for number in range(25)]
        lines.append(b"100644 blob " + _blob(server, content).encode() + b"\tmany/\xff")
        server.git("update-index", "-z", "--index-info", data=b"\0".join(lines) + b"\0")
        head = server.git("commit-tree", server.git("write-tree"), "-p", head, "-m", "Many")
    update = server.update(FEATURE, head)
    batches = [batch async for batch in in_batches(pushed_paths(server.hook(), update), max_paths=10)]
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert {path for batch in batches for path in batch} == {f"many/{number}" for number in range(25)}


async def test_git_ends_when_nobody_reads_on(server: Server) -> None:
    """A hook that knows enough leaves no process behind."""
    server.commit({f"many/{number}": "1" for number in range(200)})
    update = server.update(FEATURE)
    async with aclosing(pushed_paths(server.hook(), update)) as paths:
        async for _ in paths:
            break
    async with asyncio.timeout(STEP_SECONDS):
        assert [path async for path in server.hook().differing(update.old, update.new)]


def _blob(server: Server, content: str) -> str:
    return server.git("hash-object", "-w", "--stdin", data=content.encode())


def test_updates_of_a_hook(tmp_path: Path) -> None:
    """The lines are those that git writes, and nothing else."""
    path = tmp_path / "input"
    path.write_text(f"{NONE} {'1' * 40} refs/heads/a b\n{'a' * 64} {'0' * 64} {MAIN}\n")
    with path.open("rb") as stream:
        created, deleted = read_updates(stream)
    assert (created.ref, created.is_creation, created.is_deletion) == ("refs/heads/a b", True, False)
    assert (deleted.ref, deleted.is_creation, deleted.is_deletion) == (MAIN, False, True)
    for line in ("--all 1 refs/heads/main", f"{NONE} {NONE}", f"{NONE} {NONE} "):
        path.write_text(line)
        with path.open("rb") as stream, pytest.raises(CommandError, match="an old id, a new id and a ref"):
            read_updates(stream)
