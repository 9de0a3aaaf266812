"""Queue for the credentials of addresses that have shown too many bad ones."""

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from services.common.errors import ResourceExhausted
from services.facade.auth.login_queue import LoginQueue
from services.facade.web.error_reasons import HttpReason
from tests.support.loop import settled
from tests.support.virtual_time import Clock, run_in_virtual_time
from tests.support.waiting import until

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
    await until(lambda: not queue._lines, "the queues are forgotten")


def test_a_long_line_takes_nobody_more() -> None:
    """A caller beyond the line's length or waiting time is told when to retry, and the others get their turns."""

    async def ask(clock: Clock) -> list[float]:
        full, short = LoginQueue(1, 60.0, clock=clock), LoginQueue(2, 5.0, clock=clock)
        refused_at = []
        async with AsyncExitStack() as stack:
            for each in (full, short):
                await stack.enter_async_context(each.turn(A))
            for each in (full, short):
                began = clock()
                with pytest.raises(ResourceExhausted) as caught:
                    await stack.enter_async_context(each.turn(A))
                assert caught.value.reason == HttpReason.LOGINS_LIMITED
                assert int(caught.value.metadata["retry_after"]) > 0
                refused_at.append(clock() - began)
                async with each.turn(B):
                    pass
        for each in (full, short):
            async with each.turn(A):
                pass
        return refused_at

    # A client that is refused at once would come back at once.
    assert run_in_virtual_time(ask) == pytest.approx([1.0, 5.0])


@pytest.mark.parametrize("at_once", [True, False])
def test_turns_of_an_address_are_few_a_second(*, at_once: bool) -> None:
    """A flood leaves time between its checks for those of other addresses, be its requests at once or in turn."""

    async def ask(clock: Clock) -> list[float]:
        queue, began = LoginQueue(8, 60.0, clock=clock), []

        async def work() -> None:
            async with queue.turn(A):
                began.append(clock())

        if at_once:
            await asyncio.gather(*(work() for _ in range(8)))
        else:
            for _ in range(8):
                await work()
        return began

    began = run_in_virtual_time(ask)
    assert [later - earlier for earlier, later in pairwise(began)] == pytest.approx([0.02] * 7)


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
