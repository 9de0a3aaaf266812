"""The profile `s3`: objects in a store of the stack, of which a part may be away, and which starts more than once."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack.compose import ComposeStack, docker, wait_healthy
from tests.stack.conftest import BUCKET_URL, free_ports
from tests.support.git import Workspace, shared_repository
from tests.support.http import content

REPOSITORY = "studio/film"

pytestmark = pytest.mark.growth


@pytest.fixture
def bucket(stack: ComposeStack, tmp_path: Path) -> Iterator[ComposeStack]:
    """A stack that keeps objects in SeaweedFS; its image is the one that `stack` has built."""
    assert stack.project
    running = ComposeStack(
        f"towpath-s3-test-{os.getpid()}",
        tmp_path / "stack",
        {
            "TOWPATH_STORAGE_URL": BUCKET_URL,
            "TOWPATH_PUBLISH": f"127.0.0.1:{free_ports(1)}",
            "COMPOSE_PROFILES": "s3",
        },
    )
    running.folder.mkdir()
    try:
        running.make("stack")
        yield running
    finally:
        running.compose("down", "--volumes", "--timeout=10", check=False)


def test_a_server_of_the_store_is_away(bucket: ComposeStack, tmp_path: Path) -> None:
    """Objects are written, and with any one server for volumes stopped they are read and written as before."""
    bucket.towpath("repo", "add", REPOSITORY)
    bucket.towpath("user", "add", "ada")
    bucket.towpath("grant", "ada", REPOSITORY, "--role", "write")
    token = bucket.towpath("token", "add", "ada", "--name", "tests")["secret"]
    origin = f"http://{bucket.address('facade', 8080)}"
    desk = Workspace(tmp_path / "ada", "ada", token, origin=origin)
    clone = shared_repository(desk, tmp_path / "film.git", lfs_url=f"{origin}/{REPOSITORY}")
    files = {f"{size}.dat": content(f"whole {size}", size) for size in (0, 1000, 20_000_000)}
    clone.commit(files)
    clone.git("push", "origin", "main")
    [away] = bucket.containers("seaweedfs-volume-2")
    docker("stop", "--time=2", away)
    fresh = desk.clone(tmp_path / "film.git", lfs_url=f"{origin}/{REPOSITORY}")
    fresh.fsck()
    assert {name: (fresh.path / name).read_bytes() for name in files} == files
    clone.commit({"more.dat": content("more", 10_000_000)})
    clone.git("push", "origin", "main")
    docker("start", away)
    assert bucket.compose("exec", "--no-TTY", "storage", "ls", "/var/lib/towpath").split() == []


def test_a_second_start(bucket: ComposeStack) -> None:
    """The stack comes up again on what it has, as after an upgrade, or when the host was started anew."""
    bucket.up()
    bucket.compose("stop", "--timeout=10")
    bucket.up()
    [storage] = bucket.containers("storage")
    wait_healthy(storage)
