"""Queue for the credentials of addresses that have shown too many bad ones."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from services.common.errors import ResourceExhausted
from services.facade.auth import login_queue
from services.facade.auth.login_queue import LoginQueue
from services.facade.web.error_reasons import HttpReason
from tests.support.loop import settled

A, B = "192.0.2.1", "192.0.2.2"


async def test_one_address_has_one_turn_at_a_time() -> None:
    """Whatever comes at once is as much work as one that comes again and again, and other addresses do not wait."""
    queue = LoginQueue(8, 60.0)
    under_way = most = 0

    async def work() -> None:
        nonlocal under_way, most
        async with queue.turn(A):
            under_way += 1
            most = max(most, under_way)
            async with queue.turn(B):
                await settled()
            under_way -= 1

    await asyncio.gather(*(work() for _ in range(8)))
    assert most == 1
    assert queue._lines == {}


async def test_a_long_line_takes_nobody_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller beyond the line's length or waiting time is told when to retry, and the others get their turns."""
    monkeypatch.setattr(login_queue, "_REFUSAL_SECONDS", 0.05)
    queue, short = LoginQueue(1, 60.0), LoginQueue(2, 0.01)
    async with AsyncExitStack() as stack:
        for each in (queue, short):
            await stack.enter_async_context(each.turn(A))
        for each in (queue, short):
            with pytest.raises(ResourceExhausted) as caught:
                await stack.enter_async_context(each.turn(A))
            assert caught.value.reason == HttpReason.LOGINS_LIMITED
            assert int(caught.value.metadata["retry_after"]) > 0
            async with each.turn(B):
                pass
    for each in (queue, short):
        async with each.turn(A):
            pass


async def test_who_gives_up_leaves_the_line() -> None:
    """A request that is cancelled while it waits keeps nobody from their turn."""
    queue = LoginQueue(2, 60.0)
    async with queue.turn(A):
        waiting = asyncio.create_task(queue.turn(A).__aenter__())
        await settled()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with queue.turn(A):
        pass
