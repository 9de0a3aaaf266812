"""Requests that come at once: who is answered with whom."""

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest

from services.common.concurrency.batcher import Batcher
from tests.support.loop import settled
from tests.support.waiting import STEP_SECONDS, until

Doubling = Batcher[int, int]


class Doubler:
    """Doubles numbers when it is let; it refuses 13, and breaks down at 0 whatever else it is given."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.free = asyncio.Event()

    async def double(self, numbers: Sequence[int]) -> list[int | Exception]:
        """Return the doubles, in order."""
        self.groups.append(list(numbers))
        await self.free.wait()
        if 0 in numbers:
            raise ZeroDivisionError
        return [ValueError(number) if number == 13 else 2 * number for number in numbers]


async def _asked(grouped: Doubling, *moments: Sequence[int]) -> list[asyncio.Task[int]]:
    """Ask for the numbers of each moment at once, and let all go on before the next."""
    asking = []
    for numbers in moments:
        asking += [asyncio.create_task(grouped.submit(number)) for number in numbers]
        await settled()
    return asking


async def test_what_comes_in_one_moment_is_one_group() -> None:
    """Requests of one moment share one group, and each caller gets the answer to its own request."""
    doubler = Doubler()
    doubler.free.set()
    grouped = Doubling(doubler.double, max_batch=10, max_in_flight=1, max_wait_seconds=0)
    assert await asyncio.gather(*map(grouped.submit, range(1, 6))) == [2, 4, 6, 8, 10]
    assert doubler.groups == [[1, 2, 3, 4, 5]]


async def test_what_comes_meanwhile_is_the_next_group() -> None:
    """So many groups are under way at once, and each is so large, as was said."""
    doubler = Doubler()
    grouped = Doubling(doubler.double, max_batch=3, max_in_flight=2, max_wait_seconds=0)
    asking = await _asked(grouped, [1], [2], [3, 4], [5, 6])
    assert doubler.groups == [[1], [2]]
    doubler.free.set()
    assert await asyncio.gather(*asking) == [2, 4, 6, 8, 10, 12]
    assert doubler.groups == [[1], [2], [3, 4, 5], [6]]


async def test_what_comes_while_a_request_is_held_goes_with_it() -> None:
    """A group begins some time after its first request, and again after the first one of the next group."""
    doubler = Doubler()
    doubler.free.set()
    grouped = Doubling(doubler.double, max_batch=10, max_in_flight=2, max_wait_seconds=0, gather_seconds=0.05)
    for numbers in ([1, 2], [3, 4]):
        asking = await _asked(grouped, *([number] for number in numbers))
        assert doubler.groups == ([[1, 2]] if numbers == [3, 4] else [])
        assert await asyncio.gather(*asking) == [2 * number for number in numbers]
    assert doubler.groups == [[1, 2], [3, 4]]


async def test_a_group_that_is_stuck_is_passed() -> None:
    """While one is under way others wait, but no longer than was said; then as many go on as may."""
    doubler = Doubler()
    grouped = Doubling(doubler.double, max_batch=10, max_in_flight=2, max_wait_seconds=1)
    asking = await _asked(grouped, [1], [2, 3])
    assert doubler.groups == [[1]]
    await until(lambda: doubler.groups == [[1], [2, 3]], "the group that is stuck is passed")
    asking.append(asyncio.create_task(grouped.submit(4)))
    await settled()
    assert doubler.groups == [[1], [2, 3]]
    doubler.free.set()
    assert await asyncio.gather(*asking) == [2, 4, 6, 8]
    assert doubler.groups == [[1], [2, 3], [4]]


async def test_what_is_held_goes_on_as_soon_as_it_can() -> None:
    """The end of the group that was under way is enough."""
    doubler = Doubler()
    grouped = Doubling(doubler.double, max_batch=10, max_in_flight=2, max_wait_seconds=3600)
    asking = await _asked(grouped, [1], [2, 3])
    doubler.free.set()
    assert await asyncio.wait_for(asyncio.gather(*asking), STEP_SECONDS) == [2, 4, 6]
    assert doubler.groups == [[1], [2, 3]]
    await grouped.close()


async def test_a_refusal_is_its_own() -> None:
    """An answer that is an exception is raised to who asked, and to nobody else."""
    doubler = Doubler()
    doubler.free.set()
    grouped = Doubling(doubler.double, max_batch=10, max_in_flight=1, max_wait_seconds=0)
    answers = await asyncio.gather(*map(grouped.submit, (1, 13, 2)), return_exceptions=True)
    assert answers[::2] == [2, 4]
    assert isinstance(answers[1], ValueError)
    assert len(doubler.groups) == 1


async def test_a_failure_of_a_group_is_that_of_the_member_at_fault() -> None:
    """Each is asked for again, alone."""
    doubler = Doubler()
    doubler.free.set()
    grouped = Doubling(doubler.double, max_batch=10, max_in_flight=1, max_wait_seconds=0)
    answers = await asyncio.gather(*map(grouped.submit, (1, 0, 2)), return_exceptions=True)
    assert answers[::2] == [2, 4]
    assert isinstance(answers[1], ZeroDivisionError)
    assert doubler.groups == [[1, 0, 2], [1], [0], [2]]


async def test_who_gives_up_changes_nothing_for_others() -> None:
    """One that waits is not asked for any more; one that is under way goes on."""
    doubler = Doubler()
    grouped = Doubling(doubler.double, max_batch=10, max_in_flight=1, max_wait_seconds=0)
    asking = await _asked(grouped, [1, 2], [3, 4])
    for task in asking[::2]:
        task.cancel()
    await settled()
    doubler.free.set()
    assert await asyncio.gather(*asking[1::2]) == [4, 8]
    assert doubler.groups == [[1, 2], [4]]


async def test_closed_amid_work() -> None:
    """Whoever waits is told."""
    grouped = Doubling(Doubler().double, max_batch=10, max_in_flight=1)
    asking = await _asked(grouped, [1], [2])
    await grouped.close()
    for task in asking:
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_groups_start_no_sooner_than_the_interval() -> None:
    """The first request is answered at once; those that come in the interval share the next group."""
    doubler, started = Doubler(), []
    doubler.free.set()

    async def double(numbers: Sequence[int]) -> list[int | Exception]:
        started.append(time.monotonic())
        return await doubler.double(numbers)

    grouped = Doubling(double, interval_seconds=0.2)
    assert await grouped.submit(1) == 2
    assert await asyncio.gather(*await _asked(grouped, [2], [3], [4])) == [4, 6, 8]
    assert await grouped.submit(5) == 10
    assert doubler.groups == [[1], [2, 3, 4], [5]]
    assert all(later - earlier >= 0.19 for earlier, later in pairwise(started))
    await grouped.close()
