"""A disk that is full, with the database and the objects on it."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.folders import small_disk, temporary_folder
from tests.support.http import Client, content, oid_of
from tests.support.service_process import wait_ready
from tests.support.stack import Stack, running
from tests.support.waiting import until

MIB = 1024**2
_SIZES = (MIB, 4096)


@pytest.fixture
def stack() -> Iterator[Stack]:
    """A `towpath up` that has 256 MiB for its data."""
    with temporary_folder() as folder:
        data = folder / "var"
        data.mkdir(mode=0o700)
        stack = Stack(data, environment={"TOWPATH_STORAGE_RESERVE_BYTES": "0"})
        with small_disk(data, mib=256), running(stack):
            yield stack


def fill(path: Path) -> None:
    """Write a file that takes all the room there is."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        for size in _SIZES:
            while True:
                try:
                    os.write(descriptor, b"x" * size)
                except OSError as error:
                    if error.errno == errno.ENOSPC:
                        break
                    raise
    finally:
        os.close(descriptor)


def check_told(answer: httpx.Response) -> None:
    """Check that a client is told that there is no room, or to come again, and nothing else."""
    assert answer.status_code in (503, 507), answer.text
    assert answer.json()["message"]


async def test_a_full_disk_is_told_and_waited_out(stack: Stack) -> None:
    """Writes are 507 or 503 and /readyz says so; reads go on, and all does once there is room again."""
    held, late = content("held", 100_000), content("late", 100_000)
    async with Client(stack.base_url, "alice", stack.tokens["alice"]) as alice:

        async def told() -> bool:
            answer = await alice.lock(f"assets/{len(locked)}/{'x' * 500}")
            if answer.status_code != 201:
                check_told(answer)
                return True
            locked.append(answer.json()["lock"]["path"])
            return False

        assert (await alice.upload(held)).status_code == 200
        action = await alice.action("upload", oid_of(late), len(late))
        assert action is not None
        filler = stack.data / "filler"
        fill(filler)
        locked: list[str] = []
        await until(told, "no lock fits in")
        await wait_ready(stack.origin, 503)
        check_told(await alice.put(action, late, len(late)))
        assert (await alice.download(oid_of(held), len(held))).content == held
        assert {lock["path"] for lock in await alice.all_locks()} >= set(locked)
        filler.unlink()
        await wait_ready(stack.origin)
        assert (await alice.lock("assets/late")).status_code == 201
        assert (await alice.upload(late)).status_code == 200
        assert (await alice.download(oid_of(late), len(late))).content == late
    assert "Traceback" not in stack.log()
