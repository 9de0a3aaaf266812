"""A gibibyte over SSH alone, up and down: equal bytes, and no more memory for them than for little ones."""

import hashlib
from pathlib import Path

import psutil
import pytest

from tests.e2e.test_ssh import MIB, running_site
from tests.support.git import shared_repository
from tests.support.http import content

SIZE = 1024 * MIB
GROWTH = 64 * MIB


@pytest.mark.drill
def test_a_gibibyte_each_way(tmp_path: Path) -> None:
    """The real client pushes a file of 1 GiB, and another user clones it; the SSH service grows by 64 MiB at most."""
    with running_site({}) as site:
        service = site.stack.service("ssh")
        before = service.memory_info().rss
        alice = site.workspace(tmp_path / "alice", "alice", "always")
        clone = shared_repository(alice, tmp_path / "large.git", lfs_url=site.lfs_url)
        written = hashlib.sha256()
        with (clone.path / "large.dat").open("wb") as file:
            for number in range(SIZE // MIB):
                block = content(f"block {number}", MIB)
                written.update(block)
                file.write(block)
        clone.commit({})
        clone.git("push", "origin", "main")
        bobs = site.workspace(tmp_path / "bob", "bob", "always").clone(tmp_path / "large.git", lfs_url=site.lfs_url)
        with (bobs.path / "large.dat").open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == written.hexdigest()
        assert psutil.Process(service.pid).memory_info().rss - before < GROWTH
