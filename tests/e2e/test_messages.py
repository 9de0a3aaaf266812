"""The messages of git-lfs that docs/troubleshooting.md explains are those of the real client."""

import shutil
from pathlib import Path

import pytest

from tests.support.messages import FROM_GIT_LFS
from tests.support.programs import PATH, needed


@pytest.fixture(scope="module")
def program() -> bytes:
    """The git-lfs of this host."""
    needed("git-lfs")
    found = shutil.which("git-lfs", path=PATH)
    assert found is not None
    return Path(found).read_bytes()


@pytest.mark.parametrize("part", sorted(FROM_GIT_LFS))
def test_git_lfs_has_each_message(part: str, program: bytes) -> None:
    """The page words them as the client does."""
    assert part.encode() in program
