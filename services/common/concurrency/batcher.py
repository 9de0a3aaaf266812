"""Requests that come at once, answered together."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from services.common.lifecycle import cancel_and_wait

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass
class _Asked(Generic[Request, Answer]):
    request: Request
    answer: asyncio.Future[Answer]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def settle(self, answer: Answer | Exception) -> None:
        # One that was cancelled waits no more.
        if self.answer.done():
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class Batcher(Generic[Request, Answer]):
    """Answers requests in groups, whose members share what a group costs. Its owner closes it.

    Nobody waits for company where nothing is under way: a request is asked at once, with those that came in the same
    moment. What comes meanwhile makes up the next group, of `most` at most, as soon as less than `at_once` groups are
    under way, and, where so many are not, as the latest is under way for `held_seconds`. So a request is never answered
    with what was found before it came, groups grow only as fast as answers are slow, and one that is stuck is passed.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Request]], Awaitable[Sequence[Answer | Exception]]],
        *,
        max_batch: int = 32,
        max_in_flight: int = 4,
        max_wait_seconds: float = 0.02,
    ) -> None:
        """Without other bounds, groups go one after the other while they take little, so they are few.

        `answer` returns an answer to each request, in order; one that is an exception is raised to who asked.
        Where it raises for a group, it is asked for each member alone: one that fails is no other's failure.
        """
        self._answer = answer
        self._most = max_batch
        self._at_once = max_in_flight
        self._held_seconds = max_wait_seconds
        self._waiting: deque[_Asked[Request, Answer]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._starts = False
        self._held: asyncio.TimerHandle | None = None

    async def submit(self, request: Request) -> Answer:
        """Return the answer, or raise it. A group that has begun goes on, whoever of it gives up waiting."""
        loop = asyncio.get_running_loop()
        asked: _Asked[Request, Answer] = _Asked(request, loop.create_future())
        self._waiting.append(asked)
        if not self._starts and self._may_start():
            self._starts = True
            loop.call_soon(self._start)
        return await asked.answer

    async def close(self) -> None:
        """Cancel what is under way or waits."""
        for asked in self._waiting:
            asked.answer.cancel()
        self._waiting.clear()
        await cancel_and_wait(*self._under_way)
        self._let_go()

    def _may_start(self) -> bool:
        return len(self._under_way) < self._at_once and not (self._under_way and self._held)

    def _start(self) -> None:
        self._starts = False
        while self._may_start() and (group := self._next()):
            # In the context of one of them: what is traced of the group is traced there.
            task = asyncio.create_task(self._run(group), context=group[0].context)
            self._under_way.add(task)
            task.add_done_callback(self._ended)
            if self._held_seconds:
                self._let_go()
                self._held = asyncio.get_running_loop().call_later(self._held_seconds, self._pass)

    def _pass(self) -> None:
        """Let others go beside the group that is under way for so long."""
        self._let_go()
        self._start()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.cancel()
            self._held = None

    def _next(self) -> list[_Asked[Request, Answer]]:
        group: list[_Asked[Request, Answer]] = []
        while self._waiting and len(group) < self._most:
            asked = self._waiting.popleft()
            if not asked.answer.done():
                group.append(asked)
        return group

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._start()

    async def _run(self, group: Sequence[_Asked[Request, Answer]]) -> None:
        try:
            answers = await self._answer([asked.request for asked in group])
            for asked, answer in zip(group, answers, strict=True):
                asked.settle(answer)
        except Exception as error:  # whatever it is, it is for those who asked
            if len(group) == 1:
                group[0].settle(error)
            else:
                await asyncio.gather(*(self._run([asked]) for asked in group))
        except asyncio.CancelledError:
            for asked in group:
                asked.answer.cancel()
            raise
