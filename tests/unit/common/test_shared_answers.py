"""Questions that come at once: who shares an answer with whom."""

import asyncio

import pytest

from services.common.shared_answers import SharedAnswers
from tests.support.loop import settled
from tests.support.waiting import until

Squares = SharedAnswers[int, str]


class Squarer:
    """Squares numbers when it is let, and says how often it was asked before; it refuses 13."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.free = asyncio.Event()

    async def square(self, number: int) -> str:
        """Return the square, and which of all answers it is. Raises ValueError for 13."""
        self.asked.append(number)
        turn = len(self.asked)
        await self.free.wait()
        if number == 13:
            raise ValueError(number)
        return f"{number * number} by {turn}"


async def test_who_asks_the_same_in_one_moment_shares_an_answer() -> None:
    """And who asks something else has another."""
    squarer = Squarer()
    squarer.free.set()
    shared = Squares(squarer.square)
    answers = await asyncio.gather(*map(shared.ask, [2, 2, 3, 2]))
    assert answers == ["4 by 1", "4 by 1", "9 by 2", "4 by 1"]


async def test_nobody_is_told_what_was_found_before_they_asked() -> None:
    """Who comes meanwhile waits for the next answer, all of them for the same."""
    squarer = Squarer()
    shared = Squares(squarer.square, held_seconds=3600)
    first = asyncio.create_task(shared.ask(2))
    await settled()
    later = [asyncio.create_task(shared.ask(2)) for _ in range(3)]
    await settled()
    assert squarer.asked == [2]
    squarer.free.set()
    assert await first == "4 by 1"
    assert await asyncio.gather(*later) == ["4 by 2"] * 3


async def test_who_asks_something_else_waits_for_nobody() -> None:
    """However long another question takes."""
    squarer = Squarer()
    shared = Squares(squarer.square, held_seconds=3600)
    asking = [asyncio.create_task(shared.ask(number)) for number in (2, 2, 3)]
    await settled()
    assert squarer.asked == [2, 3]
    squarer.free.set()
    await asyncio.gather(*asking)


async def test_a_question_that_is_stuck_is_passed() -> None:
    """The next is looked for beside it after so long."""
    squarer = Squarer()
    shared = Squares(squarer.square, held_seconds=0.05)
    asking = [asyncio.create_task(shared.ask(2))]
    await settled()
    asking += [asyncio.create_task(shared.ask(2)) for _ in range(2)]
    await until(lambda: squarer.asked == [2, 2], "the question that is stuck is passed")
    squarer.free.set()
    assert await asyncio.gather(*asking) == ["4 by 1", "4 by 2", "4 by 2"]


async def test_one_that_was_passed_may_end_last() -> None:
    """It still has its answer, and who asks afterwards is answered at once."""
    squarer = Squarer()
    shared = Squares(squarer.square, held_seconds=0.01)
    stuck = asyncio.create_task(shared.ask(2))
    await settled()
    squarer.free, first_free = asyncio.Event(), squarer.free
    squarer.free.set()
    assert await shared.ask(2) == "4 by 2"
    first_free.set()
    assert await stuck == "4 by 1"
    assert await shared.ask(2) == "4 by 3"


async def test_an_error_is_of_all_who_asked_for_it() -> None:
    """And of nobody who asks later, or for something else."""
    squarer = Squarer()
    squarer.free.set()
    shared = Squares(squarer.square)
    told = await asyncio.gather(*map(shared.ask, [13, 13, 2]), return_exceptions=True)
    assert list(map(str, told)) == ["13", "13", "4 by 2"]
    with pytest.raises(ValueError, match="13"):
        await shared.ask(13)
    assert squarer.asked == [13, 2, 13]


async def test_who_gives_up_takes_no_answer_from_others() -> None:
    """Not even the first, in whose name it is looked for."""
    squarer = Squarer()
    shared = Squares(squarer.square)
    first, second = (asyncio.create_task(shared.ask(2)) for _ in range(2))
    await settled()
    first.cancel()
    await settled()
    squarer.free.set()
    assert await second == "4 by 1"
    assert first.cancelled()


async def test_at_the_end_nothing_is_under_way() -> None:
    """Who still waits is cancelled, also who waits for another's answer first."""
    squarer = Squarer()
    shared = Squares(squarer.square, held_seconds=3600)
    asking = [asyncio.create_task(shared.ask(2))]
    await settled()
    asking.append(asyncio.create_task(shared.ask(2)))
    await settled()
    await shared.close()
    assert all(
        isinstance(told, asyncio.CancelledError) for told in await asyncio.gather(*asking, return_exceptions=True)
    )
    squarer.free.set()
    assert await shared.ask(2) == "4 by 2"
