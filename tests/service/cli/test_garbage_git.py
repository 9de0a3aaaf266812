"""The objects that `towpath gc --git` retains, by a real git: whatever anything in the repository still names."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import IO

import pytest

from services.cli.errors import CommandError
from services.cli.garbage.oid_file import read_list
from services.cli.pointers import git
from services.cli.pointers.named import add_named
from services.cli.pointers.oid_spool import OidSpool
from tests.support.programs import needed
from tests.support.storage import oid_of
from tests.support.waiting import STEP_SECONDS


class Repository:
    """A git repository of pointers, each of which is the content of a file of its name."""

    def __init__(self, path: Path, home: Path) -> None:
        needed("git")
        self.path = path
        people = {f"GIT_{who}_{what}": "a@b.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", **people}
        self.git("init", "--quiet", "--initial-branch=main", str(path), cwd=home)

    def git(self, *arguments: str, cwd: Path | None = None, data: str | None = None) -> str:
        """Run git in the repository."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.path,
            env=self.environment,
            input=data,
            capture_output=True,
            check=True,
            text=True,
            timeout=STEP_SECONDS,
        )
        return done.stdout.strip()

    def write(self, *names: str, folder: Path | None = None) -> None:
        """Write and add pointers."""
        for name in names:
            path = (folder or self.path) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pointer(name))
            self.git("add", name, cwd=folder)

    def commit(self, *names: str, folder: Path | None = None) -> str:
        """Commit pointers, and return the commit."""
        self.write(*names, folder=folder)
        self.git("commit", "--quiet", "--message=x", cwd=folder)
        return self.git("rev-parse", "HEAD", cwd=folder)

    def forget(self) -> None:
        """Forget what only reflogs know, and delete what nothing names."""
        self.git("reflog", "expire", "--expire=now", "--all")
        self.git("gc", "--quiet", "--prune=now")


def pointer(name: str) -> str:
    """Return the pointer to an object."""
    oid = oid_of(name.encode())
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(name)}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with one commit."""
    made = Repository(tmp_path / "work", tmp_path)
    made.commit("first")
    return made


async def named(source: Path | str) -> set[str]:
    """Return the oids that a repository names."""
    with OidSpool() as spool:
        await add_named(str(source), spool)
        return set(spool.ascending())


def oids(*names: str) -> set[str]:
    """Return the oids of objects."""
    return {oid_of(name.encode()) for name in names}


async def test_all_that_refs_reach(repository: Repository) -> None:
    """Branches, tags, notes, other refs, and files that were deleted or renamed since."""
    repository.commit("deep/in/a/folder", "deleted")
    repository.git("rm", "--quiet", "deleted")
    repository.git("commit", "--quiet", "--message=x")
    repository.git("checkout", "--quiet", "-b", "topic")
    commit = repository.commit("on a branch")
    repository.git("update-ref", "refs/pull/1/head", repository.commit("reviewed"))
    repository.git("reset", "--quiet", "--hard", commit)
    repository.git("tag", "--annotate", "--message=x", "v1", repository.commit("tagged"))
    repository.git("checkout", "--quiet", "main")
    blob = repository.git("hash-object", "-w", "--stdin", data=pointer("a blob"))
    repository.git("tag", "blob", blob)
    tree = repository.git("mktree", data=f"100644 blob {blob}\tname\n")
    repository.git("update-ref", "refs/trees/x", tree)
    repository.git("notes", "add", "--message", pointer("in a note"))
    (repository.path / "large").write_text(pointer("too large") + "x" * 1024)
    (repository.path / "text").write_text("no pointer")
    repository.git("add", "large", "text")
    repository.git("commit", "--quiet", "--message=x")
    expected = oids("first", "deep/in/a/folder", "deleted", "on a branch", "reviewed", "tagged", "a blob", "in a note")
    assert await named(repository.path) == expected
    repository.forget()
    assert await named(repository.path) == expected
    bare = repository.path.parent / "bare.git"
    repository.git("clone", "--quiet", "--mirror", str(repository.path), str(bare))
    assert await named(bare) == expected
    assert await named(f"file://{bare}") == expected


async def test_what_is_only_in_the_folder(repository: Repository) -> None:
    """Stashes, reflogs, the index, worktrees and their indexes, and a detached HEAD."""
    repository.commit("amended away")
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    repository.write("stashed")
    repository.git("stash", "--quiet")
    repository.write("stashed before")
    repository.git("stash", "--quiet")
    worktree = repository.path.parent / "worktree"
    repository.git("worktree", "add", "--quiet", "--detach", str(worktree))
    repository.commit("detached", folder=worktree)
    repository.write("staged in a worktree", folder=worktree)
    repository.write("staged")
    expected = oids("first", "amended away", "stashed", "stashed before", "detached", "staged in a worktree", "staged")
    assert await named(repository.path) == expected
    assert await named(worktree) == expected


async def test_nothing_hides_what_is_named(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacements, grafts and the environment lead to no other history."""
    old, new = repository.commit("hidden"), repository.commit("shown")
    repository.git("rm", "--quiet", "first", "hidden")
    bare = repository.commit("last")
    repository.git("replace", "--graft", bare)
    (repository.path / ".git" / "info" / "grafts").write_text(f"{new}\n")
    other = Repository(repository.path.parent / "other", repository.path.parent)
    other.commit("of another")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git" / "objects"))
    monkeypatch.setenv("GIT_NAMESPACE", "elsewhere")
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git" / "index"))
    assert old
    assert await named(repository.path) == oids("first", "hidden", "shown", "last")


async def test_pointers_of_many_forms(repository: Repository) -> None:
    """Keeping too much does no harm: whatever looks like an id counts, of extensions and in capitals too."""
    (repository.path / "a").write_text(f"ext-0-x sha256:{'a' * 64}\r\noid sha256:{'B' * 64}\r\n")
    (repository.path / "b").write_text(f"sha256:{'c' * 64} sha256:{'d' * 63} sha512:{'e' * 128}")
    repository.git("add", "a", "b")
    repository.git("commit", "--quiet", "--message=x")
    assert await named(repository.path) == oids("first") | {"a" * 64, "b" * 64, "c" * 64}


@pytest.fixture
def refused(repository: Repository) -> Path:
    """The folder in which a test makes what must be refused."""
    for number in range(3):
        repository.commit(f"number {number}")
    return repository.path.parent / "refused"


async def test_clones_that_are_not_whole(repository: Repository, refused: Path) -> None:
    """A shallow clone, and a partial one, do not know what the rest of the history names."""
    origin = f"file://{repository.path}"
    repository.git("clone", "--quiet", "--depth=1", origin, str(refused))
    with pytest.raises(CommandError, match="shallow"):
        await named(refused)
    repository.git("config", "uploadpack.allowFilter", "true")
    partial = refused.with_name("partial")
    repository.git("clone", "--quiet", "--bare", "--filter=blob:none", origin, str(partial))
    with pytest.raises(CommandError, match="partial"):
        await named(partial)
    repository.git("config", "--unset", "remote.origin.promisor", cwd=partial)
    repository.git("config", "--unset", "remote.origin.partialclonefilter", cwd=partial)
    with pytest.raises(CommandError, match="partial"):
        await named(partial)


async def test_what_is_no_repository(repository: Repository, refused: Path) -> None:
    """An empty repository, a folder of another kind, and nothing at all."""
    repository.git("init", "--quiet", "--bare", str(refused))
    with pytest.raises(CommandError, match="no refs"):
        await named(refused)
    with pytest.raises(CommandError, match="no refs"):
        await named(f"file://{refused}")
    # The folder around it is a repository.
    inner = repository.path / "inner"
    inner.mkdir()
    with pytest.raises(CommandError, match="not a git repository"):
        await named(inner)
    for absent in ("absent", "--upload-pack=touch"):
        with pytest.raises(CommandError, match="expected a folder that exists, or a URL"):
            await named(absent)
    with pytest.raises(CommandError, match="ls-remote failed"):
        await named(f"file://{refused}/absent")


@pytest.mark.parametrize("is_remote", [False, True])
async def test_refs_that_change_meanwhile(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, is_remote: bool
) -> None:
    """A list that was read before a push does not name what the push names."""
    read = git._Git.read_small_blobs

    async def slowly(self: git._Git, found: git.Found, ids: IO[bytes]) -> None:
        await read(self, found, ids)
        repository.commit("meanwhile")

    monkeypatch.setattr(git._Git, "read_small_blobs", slowly)
    with pytest.raises(CommandError, match="its refs changed"):
        await named(f"file://{repository.path}" if is_remote else repository.path)


def _branch(repository: Repository, name: str) -> str:
    """Make a branch of this name, of which no reflog of another ref knows, with a pointer to an object of its name."""
    blob = repository.git("hash-object", "-w", "--stdin", data=pointer(name))
    tree = repository.git("mktree", data=f"100644 blob {blob}\tname\n")
    commit = repository.git("commit-tree", "-m", "x", tree)
    repository.git("update-ref", f"refs/heads/{name}", commit)
    return commit


async def test_a_ref_that_is_gone_only_for_a_moment(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch that a forge restores is named, although git does not see it while it reads."""
    commit = _branch(repository, "topic")
    read = git._Git.read_small_blobs

    async def gone(self: git._Git, found: git.Found, ids: IO[bytes]) -> None:
        repository.git("update-ref", "-d", "refs/heads/topic")
        await read(self, found, ids)
        repository.git("update-ref", "refs/heads/topic", commit)

    monkeypatch.setattr(git._Git, "read_small_blobs", gone)
    assert await named(repository.path) == oids("first", "topic")


async def test_a_ref_that_a_clone_lacks(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone that was made while a branch was gone does not know what it names."""
    commit = _branch(repository, "topic")
    clone = git._Git.mirror

    async def without(self: git._Git, url: str, name: str) -> None:
        repository.git("update-ref", "-d", "refs/heads/topic")
        await clone(self, url, name)
        repository.git("update-ref", "refs/heads/topic", commit)

    monkeypatch.setattr(git._Git, "mirror", without)
    with pytest.raises(CommandError, match="rev-list failed"):
        await named(f"file://{repository.path}")


async def test_a_detached_head_counts(repository: Repository) -> None:
    """A commit that only HEAD names is named, also at a URL."""
    repository.git("checkout", "--quiet", "--detach")
    repository.commit("detached")
    repository.git("reflog", "expire", "--expire=now", "--all")
    assert await named(repository.path) == oids("first", "detached")
    assert await named(f"file://{repository.path}") == oids("first", "detached")


async def test_a_reader_that_ends_early_refuses_the_run(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A git that reads fewer blobs than it was asked for has not seen all pointers, whatever its status."""
    repository.commit("second")
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    real = shutil.which("git")
    script.write_text(f"""#!/bin/sh
case "$*" in
"cat-file --buffer --batch") head -n 1 | {real} "$@"; cat > /dev/null ;;
*) exec {real} "$@" ;;
esac
""")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    with pytest.raises(CommandError, match="cat-file failed"):
        await named(repository.path)


def _script(*repositories: Path) -> str:
    """Return the script of docs/space.md for these repositories, without the collection at its end."""
    text = (Path(__file__).parents[3] / "docs" / "space.md").read_text()
    script = text.split("```bash\n")[1].split("```")[0]
    asked = "/srv/git/film.git /srv/git/film-fork.git"
    assert asked in script
    return script.replace(asked, " ".join(map(str, repositories))).split("towpath gc")[0]


async def test_the_script_of_the_documentation(repository: Repository, tmp_path: Path) -> None:
    """Its list is that of all repositories, has the time at which it began, and is none where git fails."""
    repository.commit("second")
    bare = Repository(tmp_path / "bare", tmp_path)
    bare.git("commit", "--quiet", "--allow-empty", "--message=x")
    fork = Repository(tmp_path / "fork", tmp_path)
    fork.commit("of the fork")
    folder = tmp_path / "lists"
    folder.mkdir()

    def run() -> int:
        script = _script(repository.path, bare.path, fork.path)
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=fork.environment, capture_output=True, timeout=STEP_SECONDS
        )
        return done.returncode

    assert run() == 0
    with OidSpool() as spool:
        end = read_list(folder / "retained", spool)
        found = list(spool.ascending())
    assert set(found) == oids("first", "second", "of the fork")
    digest = hashlib.sha256("".join(f"{oid}\n" for oid in found).encode()).hexdigest()
    assert (end.count, end.digest) == (3, digest)
    assert (folder / "retained").stat().st_mtime == (folder / "began").stat().st_mtime
    lost = repository.git("rev-parse", "HEAD^{tree}")
    (repository.path / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    assert run() != 0
    with OidSpool() as spool, pytest.raises(CommandError, match="the list is cut off"):
        read_list(folder / "retained", spool)


async def test_a_lost_object_refuses_the_run(repository: Repository) -> None:
    """A hole in the history may hide pointers, so that nothing may be taken for garbage."""
    repository.commit("lost")
    id_ = repository.git("rev-parse", "HEAD:lost")
    (repository.path / ".git" / "objects" / id_[:2] / id_[2:]).unlink()
    with pytest.raises(CommandError, match=r"git .* failed|is missing"):
        await named(repository.path)


async def test_a_broken_ref_refuses_the_run(repository: Repository) -> None:
    """A ref that git cannot read may have named anything."""
    (repository.path / ".git" / "refs" / "heads" / "broken").write_text("not an id\n")
    with pytest.raises(CommandError, match="broken"):
        await named(repository.path)


async def test_many_files(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fits in any buffer, sorted outside of memory."""
    monkeypatch.setattr("services.cli.pointers.oid_spool._IN_MEMORY", 700)
    names = [f"{number:05}" for number in range(5000)]
    # A commit by `git fast-import`, since 5,000 calls of git take long.
    blobs = "".join(f"M 100644 inline {name}\ndata {len(pointer(name))}\n{pointer(name)}\n" for name in names)
    commit = "commit refs/heads/many\ncommitter a <a@b.test> 1700000000 +0000\ndata 1\nx\n"
    repository.git("fast-import", "--quiet", data=f"{commit}{blobs}\n")
    with OidSpool() as spool:
        await add_named(str(repository.path), spool)
        found = list(spool.ascending())
    assert found == sorted(oids("first", *names))
