"""A file system that goes down without its journal, amid uploads: nothing that was acknowledged is lost."""

import asyncio
import fcntl
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from tests.service.storage.conftest import Sql
from tests.support.storage import StorageClient, StorageProcess, oid_of
from tests.support.waiting import LONG_SECONDS, until, until_answer

ROUNDS = int(os.environ.get("TEST_POWER_CUTS", "3"))
"""A drill has more."""

_SHUTDOWN = 0x8004587D
_WITHOUT_JOURNAL = struct.pack("I", 2)


class Disk:
    """An ext4 file system of its own, mounted at a folder."""

    def __init__(self, image: Path, folder: Path) -> None:
        self._image = image
        self._folder = folder

    def make(self) -> None:
        """Make it, empty; skip the test where that is not allowed."""
        with self._image.open("wb") as file:
            file.truncate(256 * 1024 * 1024)
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("there is no mkfs.ext4")
        subprocess.run(["mkfs.ext4", "-q", self._image], check=True)
        if subprocess.run(["mount", "-o", "loop", self._image, self._folder], check=False).returncode != 0:
            pytest.skip("mounting a file system is not allowed here")

    def cut_power(self) -> None:
        """Let nothing reach it any more, nor what it has in its own journal."""
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, _WITHOUT_JOURNAL)
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        """Let it go."""
        subprocess.run(["umount", self._folder], check=True)

    def mount_again(self) -> None:
        """Let it be what reached it."""
        self.unmount()
        subprocess.run(["mount", "-o", "loop", self._image, self._folder], check=True)


@contextmanager
def _disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "bytes"
    folder.mkdir()
    disk = Disk(tmp_path / "image", folder)
    disk.make()
    try:
        yield disk
    finally:
        disk.unmount()


@pytest.mark.timeout(LONG_SECONDS * ROUNDS)
@pytest.mark.drill
async def test_power_is_cut_amid_uploads(
    process: StorageProcess, client: StorageClient, sql: Sql, tmp_path: Path
) -> None:
    """Whatever was acknowledged is read whole after each start, and nothing is left of the rest."""
    moments = random.Random(5)  # noqa: S311 - moments, not secrets
    acknowledged: set[str] = set()

    async def work() -> None:
        while True:
            size = moments.choice((100, 5_000, 70_000, 70_000, 1_500_000))
            data = os.urandom(size)
            acknowledged.add(await client.write(1, data))

    def only_files_of(oids: list[str]) -> Callable[[], bool]:
        return lambda: client.oids() == oids

    with _disk(tmp_path) as disk:
        for _ in range(ROUNDS):
            await process.start()
            workers = [asyncio.create_task(work()) for _ in range(6)]
            await asyncio.sleep(moments.uniform(0.3, 1.5))
            # What is told from here on is not counted: it may be told by a file system that is down.
            before = set(acknowledged)
            await asyncio.to_thread(disk.cut_power)
            await process.stop()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await asyncio.to_thread(disk.mount_again)
            await process.start()
            assert before
            for oid in before:
                assert oid_of(await client.read(1, oid)) == oid
            held = (await sql("SELECT oid FROM storage.objects ORDER BY oid")).split()
            assert await client.statuses(1, *held) == [pb.OBJECT_STATUS_PRESENT] * len(held)
            for oid in held:
                assert oid_of(await client.read(1, oid)) == oid
            await until(only_files_of(held))
            await until_answer("0", lambda: sql("SELECT count(*) FROM storage.uploads"))
            # The disk is small, and each round has its own objects.
            for oid in held:
                with suppress(grpc.aio.AioRpcError):
                    await client.delete(1, oid)
                    await client.purge(1, oid)
            acknowledged.clear()
            await sql("DELETE FROM storage.objects")
            await process.stop()
