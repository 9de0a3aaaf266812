"""SIGKILL of everything amid small uploads, again and again: what was acknowledged is there, and nothing else."""

import asyncio
import os
import random
from collections.abc import Callable

import httpx
import pytest

from tests.e2e.bytes_at_rest import incoming, stored
from tests.support.http import Client, oid_of
from tests.support.stack import running_stack
from tests.support.waiting import LONG_SECONDS, until

ROUNDS = int(os.environ.get("TEST_KILLS", "2"))
"""A drill has more."""

_CLIENTS = 6


@pytest.mark.timeout(LONG_SECONDS * (ROUNDS + 1))
@pytest.mark.drill
async def test_everything_is_killed_amid_small_uploads() -> None:
    """After each start all is read whole, from the first moment on; at the end a check finds nothing."""
    moments = random.Random(3)  # noqa: S311 - moments, not secrets
    acknowledged: dict[str, int] = {}

    async def work(client: Client) -> None:
        while True:
            data = os.urandom(moments.choice((10, 3_000, 65_536, 65_536, 1_048_576)))
            if (await client.upload(data)).status_code == 200:
                acknowledged[oid_of(data)] = len(data)

    def more_than(count: int) -> Callable[[], bool]:
        return lambda: len(acknowledged) > count

    with running_stack("--demo") as stack:
        for _ in range(ROUNDS):
            async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
                known = len(acknowledged)
                workers = [asyncio.create_task(work(client)) for _ in range(_CLIENTS)]
                await until(more_than(known + 3))
                await asyncio.sleep(moments.uniform(0, 1))
                await asyncio.to_thread(stack.kill)
                for worker in workers:
                    worker.cancel()
                ended = await asyncio.gather(*workers, return_exceptions=True)
                assert all(isinstance(each, httpx.HTTPError | asyncio.CancelledError) for each in ended), ended
            await asyncio.to_thread(stack.start)
            async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
                newest = list(acknowledged.items())[known:]
                for oid, size in newest:
                    assert oid_of((await client.download(oid, size)).content) == oid
        async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
            for oid, size in acknowledged.items():
                assert oid_of((await client.download(oid, size)).content) == oid
        held = {entry["oid"] for entry in stack.towpath("object", "list", "demo/assets")}
        assert held >= acknowledged.keys()
        await until(lambda: stored(stack) == held and not incoming(stack), "nothing is left behind")
        assert stack.towpath("check", "--hash")["findings"] == []
        stack.stop()
        assert stack.bucket is not None or not list((stack.data / "storage" / "journal").iterdir())
