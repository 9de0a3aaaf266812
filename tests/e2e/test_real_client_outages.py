"""The real git-lfs lives through the death of any service in the midst of a push."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.bytes_at_rest import stored
from tests.support.git import Workspace, shared_repository
from tests.support.http import content, oid_of
from tests.support.stack import Stack
from tests.support.waiting import until

FILES = 40
SIZE = 4 * 1024 * 1024


@pytest.mark.parametrize(
    "victim",
    ["storage", *(pytest.param(name, marks=pytest.mark.drill) for name in ("facade", "locks", "postgres"))],
)
async def test_push_survives_the_death_of_a_service(
    victim: str, alice: Workspace, bob: Workspace, remote: Path, stack: Stack
) -> None:
    """The push succeeds by itself, and `git lfs fsck` is clean in a fresh clone."""
    clone = shared_repository(alice, remote, lfs_url=stack.base_url)
    files = {f"{n}.dat": content(f"push and {victim} {n}", SIZE) for n in range(FILES)}
    clone.commit(files)
    clone.git("config", "lfs.transfer.batchSize", "10")
    ours = {oid_of(data) for data in files.values()}
    pushing = asyncio.create_task(asyncio.to_thread(clone.git, "push", "origin", "main"))
    await until(lambda: len(ours & stored(stack)) > FILES // 4, "a quarter of the objects is stored")
    stack.kill_service(victim)
    assert not pushing.done()
    await pushing
    assert ours <= stored(stack)
    fresh = bob.clone(remote, lfs_url=stack.base_url)
    fresh.fsck()
    assert {name: (fresh.path / name).read_bytes() for name in files} == files
