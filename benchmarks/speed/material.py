"""Files that the loads transfer: made once, and the same for all servers."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.speed.blobs import Blob, blobs
from benchmarks.speed.scale import Scale
from tests.support.git import Workspace

MANY, LARGE_FILES = 16, 4
_NOWHERE = "http://127.0.0.1:9"
_GIT_SECONDS = 600.0


@dataclass(frozen=True)
class GitRepository:
    """A bare git repository, and a clone whose large files no server has yet."""

    workspace: Workspace
    bare: Path
    clone: Path
    files: int


class Material:
    """Files in a folder, each kind made when it is first asked for."""

    def __init__(self, folder: Path, scale: Scale) -> None:
        self.folder = folder
        self._scale = scale

    @cached_property
    def small(self) -> list[Blob]:
        """Many small objects."""
        return blobs(self.folder / "small", max(self._scale.held, self._scale.files), self._scale.small)

    @cached_property
    def medium(self) -> list[Blob]:
        """Sixteen that are larger."""
        return blobs(self.folder / "medium", MANY, self._scale.medium)

    @cached_property
    def large(self) -> list[Blob]:
        """Four huge ones."""
        return blobs(self.folder / "large", LARGE_FILES, self._scale.large)

    @cached_property
    def padding(self) -> Path:
        """The bytes that all of `puts` end in."""
        path = self.folder / "padding"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(self._scale.small - len(self.beginning(0))))
        return path

    @cached_property
    def puts(self) -> list[Blob]:
        """Objects that differ in their first bytes alone; what each begins with, `beginning` says."""
        padding = self.padding.read_bytes()
        oids = (hashlib.sha256(self.beginning(number) + padding).hexdigest() for number in range(self._scale.puts))
        return [Blob(oid, self._scale.small, self.padding) for oid in oids]

    @staticmethod
    def beginning(number: int) -> bytes:
        """Return with what an object of `puts` begins."""
        return f"{number:016x}".encode()

    @cached_property
    def git_of_small(self) -> GitRepository:
        """Many small files in git."""
        return self._git("git-small", self.small[: self._scale.files])

    @cached_property
    def git_of_large(self) -> GitRepository:
        """Four huge files in git."""
        return self._git("git-large", self.large)

    def _git(self, name: str, objects: list[Blob]) -> GitRepository:
        home = self.folder / name
        shutil.rmtree(home, ignore_errors=True)
        workspace = Workspace(home, "alice", None, origin=_NOWHERE)
        # Its large files go to the servers, each in its turn.
        workspace.environment["GIT_LFS_SKIP_PUSH"] = "1"
        bare, clone = home / "remote.git", home / "clone"
        workspace.git("init", "--quiet", "--bare", bare)
        workspace.git("clone", "--quiet", bare, clone)
        workspace.git("lfs", "track", "*.dat", cwd=clone)
        for number, blob in enumerate(objects):
            os.link(blob.path, clone / f"{number:05}.dat")
        workspace.git("add", "--all", cwd=clone, seconds=_GIT_SECONDS)
        workspace.git("commit", "--quiet", "--message=Add large files", cwd=clone, seconds=_GIT_SECONDS)
        workspace.git("push", "--quiet", "origin", "HEAD", cwd=clone)
        del workspace.environment["GIT_LFS_SKIP_PUSH"]
        return GitRepository(workspace, bare, clone, len(objects))
