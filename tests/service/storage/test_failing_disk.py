"""A disk on which writing and syncing fail now and then, amid uploads: nothing is lost, and nothing half is served."""

import asyncio
import json
import os
import platform
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from tests.service.storage.conftest import Sql
from tests.support.programs import needed
from tests.support.storage import StorageClient, StorageProcess, oid_of
from tests.support.waiting import LONG_SECONDS, until, until_answer

ROUNDS = int(os.environ.get("TEST_FAILING_DISK", "2"))
"""A drill has more."""

_SOURCE = Path(__file__).parents[2] / "support/failing_io.c"
_SIZES = (100, 5_000, 70_000, 70_000, 1_500_000, 17_000_000)
_WORKERS = 6
_PERCENT = 3


def _is_cancelled(ended: object) -> bool:
    return isinstance(ended, asyncio.CancelledError)


def _is_gone(ended: object) -> bool:
    """Tell whether a worker was cancelled, or has met a service that was killed."""
    is_away = isinstance(ended, grpc.aio.AioRpcError) and ended.code() is grpc.StatusCode.UNAVAILABLE
    return is_away or _is_cancelled(ended)


def _build(library: Path) -> None:
    subprocess.run([needed("gcc"), "-shared", "-fPIC", "-O1", "-o", library, _SOURCE, "-ldl"], check=True)


@pytest.mark.skipif(platform.system() != "Linux", reason="calls of other systems' libraries have other names")
@pytest.mark.timeout(LONG_SECONDS * ROUNDS)
@pytest.mark.drill
async def test_calls_to_the_disk_fail_amid_uploads(
    process: StorageProcess, client: StorageClient, sql: Sql, tmp_path: Path
) -> None:
    """Whatever was acknowledged is read whole then and later, after a SIGKILL too; nothing is left of the rest."""
    library, percent, log = tmp_path / "failing_io.so", tmp_path / "percent", tmp_path / "failed"
    await asyncio.to_thread(_build, library)
    process.overrides |= {
        "LD_PRELOAD": str(library),
        "FAILING_FOLDER": str(client.root),
        "FAILING_PERCENT": str(percent),
        "FAILING_LOG": str(log),
    }
    chances = random.Random(7)  # noqa: S311 - chances, not secrets
    acknowledged: list[str] = []

    async def work() -> None:
        while True:
            with suppress(grpc.aio.AioRpcError):
                acknowledged.append(await client.write(1, os.urandom(chances.choice(_SIZES))))
            if acknowledged:
                oid = chances.choice(acknowledged)
                assert oid_of(await client.read(1, oid)) == oid

    def more_than(count: int) -> Callable[[], bool]:
        return lambda: len(acknowledged) > count

    def only_files_of(oids: list[str]) -> Callable[[], bool]:
        return lambda: client.oids() == oids

    for number in range(ROUNDS):
        await process.start()
        percent.write_text(str(_PERCENT))
        workers = [asyncio.create_task(work()) for _ in range(_WORKERS)]
        await until(more_than(len(acknowledged) + 50))
        # Long enough for a segment to be retired amid failures, and for a failure of each kind.
        await asyncio.sleep(12)
        if number % 2:
            await process.stop()
        for worker in workers:
            worker.cancel()
        ended = await asyncio.gather(*workers, return_exceptions=True)
        assert all(map(_is_gone if number % 2 else _is_cancelled, ended)), ended
        percent.unlink()
        if number % 2:
            await process.start()
        for oid in acknowledged:
            assert oid_of(await client.read(1, oid)) == oid
        held = (await sql("SELECT oid FROM storage.objects ORDER BY oid")).split()
        for oid in {*held}.difference(acknowledged):
            assert oid_of(await client.read(1, oid)) == oid
        await until(only_files_of(held))
        await until_answer("0", lambda: sql("SELECT count(*) FROM storage.uploads"))
        assert await process.stop(signal.SIGTERM) == 0
        assert client.segments() == []
    failed = Counter(log.read_text().split())
    assert failed.keys() >= {"write", "short", "fdatasync", "fsync"}, failed
    calls = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if '"event":"call"' in line]
    statuses = {call["status"] for call in calls}
    assert statuses >= {"OK", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}
    assert statuses.isdisjoint({"INTERNAL", "UNKNOWN", "DATA_LOSS"})
