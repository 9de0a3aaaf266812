"""Many at once, over HTTP: one lock has one holder, one object has one file (the issue's fourth condition)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from tests.e2e.bytes_at_rest import incoming, stored
from tests.support.http import Client, content, oid_of
from tests.support.stack import Stack
from tests.support.waiting import STEP_SECONDS, until

UPLOADERS = 8
SIZE = 1024 * 1024


@pytest.fixture
async def alice(stack: Stack) -> AsyncIterator[Client]:
    """Alice over HTTP."""
    async with Client(stack.base_url, "alice", stack.tokens["alice"], verify=stack.trust) as client:
        yield client


@pytest.fixture
async def bob(stack: Stack) -> AsyncIterator[Client]:
    """Bob over HTTP, on the ref that he may write to."""
    token = stack.tokens["bob"]
    async with Client(stack.base_url, "bob", token, ref="refs/heads/bob", verify=stack.trust) as client:
        yield client


async def test_locking_and_unlocking_at_once_never_gives_a_path_two_holders(alice: Client, bob: Client) -> None:
    """Between a 201 and the unlock that follows it, nobody else gets a 201 for the path."""
    path = "races/handed-over.dat"
    holders = 0
    handed_over = 0

    async def take_and_give_back(client: Client) -> None:
        nonlocal holders, handed_over
        for _ in range(10):
            answer = await client.lock(path)
            if answer.status_code == 409:
                continue
            assert answer.status_code == 201
            holders += 1
            handed_over += 1
            assert await client.all_locks(path=path) == [answer.json()["lock"]]
            assert holders == 1
            holders -= 1
            assert (await client.unlock(answer.json()["lock"]["id"])).status_code == 200

    await asyncio.gather(*(take_and_give_back((alice, bob)[n % 2]) for n in range(UPLOADERS)))
    assert handed_over > 1
    assert await alice.all_locks(path=path) == []


@pytest.mark.usefixtures("relayed")
async def test_a_corrupt_and_a_stalled_upload_do_not_hinder_the_good_ones(alice: Client, stack: Stack) -> None:
    """Good uploads get 200 beside a corrupt and a stalled one; a reader never sees partial bytes."""
    data = content("corrupt and stalled", 4 * SIZE)
    oid, size = oid_of(data), len(data)
    actions = await asyncio.gather(*(alice.action("upload", oid, size) for _ in range(UPLOADERS)))
    corrupt, stalled, *good = [action for action in actions if action is not None]
    halfway, done = asyncio.Event(), asyncio.Event()

    async def stalling() -> AsyncIterator[bytes]:
        yield data[: size // 2]
        halfway.set()
        await done.wait()
        raise ConnectionAbortedError

    async def read() -> None:
        while not done.is_set():
            action = await alice.action("download", oid, size)
            if action is not None:
                answer = await alice.http.get(action.href, headers=action.header)
                assert hashlib.sha256(answer.content).hexdigest() == oid

    stalling_upload = asyncio.create_task(alice.put(stalled, stalling(), size))
    await asyncio.wait_for(halfway.wait(), STEP_SECONDS)
    reader = asyncio.create_task(read())
    refused, *answers = await asyncio.gather(
        alice.put(corrupt, bytes([data[0] ^ 1]) + data[1:], size),
        *(alice.put(action, data, size) for action in good),
    )
    assert not stalling_upload.done()
    done.set()
    await asyncio.gather(reader, stalling_upload, return_exceptions=True)
    assert reader.exception() is None
    assert isinstance(stalling_upload.exception(), ConnectionAbortedError)
    assert refused.status_code == 400
    assert [answer.status_code for answer in answers] == [200] * len(good)
    assert oid in stored(stack)
    assert (await alice.download(oid, size)).content == data
    await until(lambda: not incoming(stack), "the stalled upload leaves nothing behind")
