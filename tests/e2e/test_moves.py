"""A site moves from a disk to S3 and back while people work, and the copying is killed on the way."""

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.folders import temporary_folder
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import Client, content, oid_of
from tests.support.seaweedfs import Prefix, SeaweedFS
from tests.support.stack import TOWPATH, Stack, running
from tests.support.waiting import LONG_SECONDS, blocking_until

# A whole move is of 5,000, which takes too long for each run of all tests; the size of each is the same.
OBJECTS = int(os.environ.get("TOWPATH_TEST_MOVED_OBJECTS", "1000"))
SIZE = 2 * 1024**3 // 5000
_MAX_CONCURRENCY = 16
_CLIENTS = 4
_RETRY_SECONDS = 2.0


@pytest.fixture
def disk_stack(seaweedfs: SeaweedFS) -> Iterator[Stack]:  # noqa: ARG001 - the environment has its keys
    """A `towpath up` that begins on a disk, and can use the S3 server."""
    with (
        temporary_folder() as folder,
        running(Stack(folder / "var", environment={"TOWPATH_STORAGE_FOLDERS": str(folder)})) as stack,
    ):
        yield stack


def _new_folder(stack: Stack, name: str) -> Path:
    """Make a folder beside the data folder, for the user that has that one."""
    folder = stack.data.parent / name
    folder.mkdir(mode=0o700)
    owner = stack.data.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    return folder


async def _fill(stack: Stack) -> None:
    """Upload all objects."""
    free = asyncio.Semaphore(_MAX_CONCURRENCY)

    async def upload(client: Client, number: int) -> None:
        async with free:
            assert (await client.upload(content(f"move {number}", SIZE))).status_code == 200

    async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client, asyncio.TaskGroup() as group:
        for number in range(OBJECTS):
            group.create_task(upload(client, number))


class People:
    """Clients that push and pull until they are told to stop. What one of them fails with is raised at the end."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stop = threading.Event()
        self.rounds = [0] * _CLIENTS
        first = Workspace(folder / "person-0", "alice", stack.tokens["alice"], origin=stack.origin)
        self._remote = folder / "remote.git"
        self._url = stack.base_url
        self._clones = [shared_repository(first, self._remote, lfs_url=self._url)]
        self._clones[0].commit({"first.dat": b"first"})
        self._clones[0].git("push", "origin", "main")
        for number in range(1, _CLIENTS):
            desk = Workspace(folder / f"person-{number}", "alice", stack.tokens["alice"], origin=stack.origin)
            self._clones.append(desk.clone(self._remote, lfs_url=self._url))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let all of them work."""
        with ThreadPoolExecutor(_CLIENTS) as threads:
            work = [threads.submit(self._work, number, clone) for number, clone in enumerate(self._clones)]
            try:
                yield
            finally:
                self._stop.set()
            for one in work:
                one.result()

    def wait_round(self) -> None:
        """Wait until each of them has begun and ended a round from now on."""
        before = list(self.rounds)

        def have_all() -> bool:
            return all(now >= then + 2 for now, then in zip(self.rounds, before, strict=True))

        blocking_until(have_all, "each of them ends a round", seconds=LONG_SECONDS)

    def _work(self, number: int, clone: Clone) -> None:
        branch = f"person-{number}"
        clone.git("checkout", "-b", branch)
        while not self._stop.is_set():
            data = content(f"{branch} {self.rounds[number]}", 700_000 + 100_000 * number)
            clone.commit({f"{branch}.dat": data})
            clone.git("push", "origin", branch)
            shutil.rmtree(clone.path / ".git" / "lfs" / "objects")
            (clone.path / f"{branch}.dat").unlink()
            clone.git("checkout", "--", f"{branch}.dat")
            assert (clone.path / f"{branch}.dat").read_bytes() == data
            self.rounds[number] += 1
            self._stop.wait(_RETRY_SECONDS)


def _store(stack: Stack, name: str) -> dict[str, int]:
    [store] = [store for store in stack.towpath("storage", "list") if store["name"] == name]
    return store  # type: ignore[no-any-return]


def _holds(stack: Stack, name: str, count: int) -> bool:
    return _store(stack, name)["object_count"] >= count


def _copy(stack: Stack, from_name: str, to_name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TOWPATH, "storage", "copy", from_name, to_name, "--parallel", "8", "--data", str(stack.data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _move(stack: Stack, from_name: str, to_name: str, url: str, *, kills: tuple[int, ...]) -> None:
    """Do what docs/operations.md says, and kill the service when so many objects are there."""
    stack.towpath("storage", "add", to_name, url)
    with _copy(stack, from_name, to_name) as copying:
        for count in kills:
            blocking_until(partial(_holds, stack, to_name, count), f"{count} objects are copied", seconds=LONG_SECONDS)
            assert _store(stack, to_name)["lacking_count"] > 0
            stack.service("storage").kill()
        output, _ = copying.communicate(timeout=LONG_SECONDS)
    assert copying.returncode == 0, output
    stack.towpath("storage", "set-primary", to_name)
    stack.towpath("storage", "remove", from_name)


@pytest.mark.timeout(3600)
@pytest.mark.drill
def test_a_site_moves_to_s3_and_back(disk_stack: Stack, seaweedfs: SeaweedFS, tmp_path: Path) -> None:
    """No client fails, nothing is lost, and the store that was left can be deleted."""
    asyncio.run(_fill(disk_stack))
    people = People(disk_stack, tmp_path)
    bucket = Prefix(seaweedfs, "moves")
    with people.working():
        _move(disk_stack, "first", "bucket", bucket.url, kills=(OBJECTS // 5, OBJECTS // 2))
        shutil.rmtree(disk_stack.data / "storage")
        people.wait_round()
        _require_whole(disk_stack)
        _move(disk_stack, "bucket", "disk", _new_folder(disk_stack, "disk").as_uri(), kills=())
        bucket.delete_all()
        assert not bucket.names()
        people.wait_round()
    _require_whole(disk_stack)
    assert [store["name"] for store in disk_stack.towpath("storage", "list")] == ["disk"]


def _require_whole(stack: Stack) -> None:
    """Read every object of the primary, and compare its hash."""
    report = stack.towpath("check", "--hash", "--rate", "0", seconds=LONG_SECONDS)
    assert (report["missing"], report["corrupt"]) == (0, 0)
    assert report["objects"] >= OBJECTS
    oid = oid_of(content("move 7", SIZE))
    assert any(entry["oid"] == oid for entry in stack.towpath("object", "list", "demo/assets"))
