"""Micro-batching: concurrent requests are answered by one call."""

import asyncio
import contextvars
import math
import time
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
        # A cancelled caller no longer waits for the answer.
        if self.answer.done():
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class Batcher(Generic[Request, Answer]):
    """Answers requests in batches, so that they share the cost of a call. Its owner closes it.

    If no batch is in flight, a request starts one at once, together with the requests of the same moment; or after
    `gather_seconds`, together with those that arrive meanwhile. Requests that arrive during a batch form the next one,
    of at most `max_batch` requests. It starts when no batch is in flight, or when fewer than `max_in_flight` are and
    the latest started at least `max_wait_seconds` ago. No request is answered with data read before it arrived, batches
    grow only if answers are slow or requests are gathered, and others overtake a batch that hangs.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Request]], Awaitable[Sequence[Answer | Exception]]],
        *,
        max_batch: int = 32,
        max_in_flight: int = 4,
        max_wait_seconds: float = 0.02,
        gather_seconds: float = 0.0,
        interval_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set the bounds; with the default bounds, fast batches run one after another, so that they are few.

        A batch starts no sooner than `interval_seconds` after the one before.

        `answer` returns an answer to each request, in order; an answer that is an exception is raised to the caller. If
        `answer` raises for a batch, it is called for each request alone, so that a failing request fails no other.
        """
        self._answer = answer
        self._most = max_batch
        self._at_once = max_in_flight
        self._held_seconds = max_wait_seconds
        self._gather_seconds = gather_seconds
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._next_start = -math.inf
        self._waiting: deque[_Asked[Request, Answer]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._starts = False
        self._held: asyncio.TimerHandle | None = None

    async def submit(self, request: Request) -> Answer:
        """Return the answer, or raise it. A batch in flight continues even if a caller is cancelled."""
        asked: _Asked[Request, Answer] = _Asked(request, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if not self._starts and self._may_start():
            self._start_after(max(self._gather_seconds, self._pause()))
        return await asked.answer

    async def close(self) -> None:
        """Cancel all requests that are in flight or waiting."""
        for asked in self._waiting:
            asked.answer.cancel()
        self._waiting.clear()
        await cancel_and_wait(*self._under_way)
        self._let_go()

    def _may_start(self) -> bool:
        return len(self._under_way) < self._at_once and not (self._under_way and self._held)

    def _pause(self) -> float:
        """Return the seconds until a batch may start; 0 or less if it may."""
        return self._next_start - self._clock()

    def _start_after(self, seconds: float) -> None:
        self._starts = True
        loop = asyncio.get_running_loop()
        if seconds > 0:
            loop.call_later(seconds, self._start)
        else:
            loop.call_soon(self._start)

    def _start(self) -> None:
        self._starts = False
        while self._may_start() and (group := self._next()):
            self._next_start = self._clock() + self._interval_seconds
            # In the context of the first request, so that its trace has the spans of the batch.
            task = asyncio.create_task(self._run(group), context=group[0].context)
            self._under_way.add(task)
            task.add_done_callback(self._ended)
            if self._held_seconds:
                self._let_go()
                self._held = asyncio.get_running_loop().call_later(self._held_seconds, self._pass)

    def _pass(self) -> None:
        """Start another batch beside a batch that has been in flight for `max_wait_seconds`."""
        self._let_go()
        self._start_waiting()

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
        self._start_waiting()

    def _start_waiting(self) -> None:
        # A batch that gathers requests starts by itself.
        if self._starts:
            return
        if self._waiting and (seconds := self._pause()) > 0:
            self._start_after(seconds)
        else:
            self._start()

    async def _run(self, group: Sequence[_Asked[Request, Answer]]) -> None:
        try:
            answers = await self._answer([asked.request for asked in group])
            for asked, answer in zip(group, answers, strict=True):
                asked.settle(answer)
        except Exception as error:  # every error is raised to the callers
            if len(group) == 1:
                group[0].settle(error)
            else:
                await asyncio.gather(*(self._run([asked]) for asked in group))
        except asyncio.CancelledError:
            for asked in group:
                asked.answer.cancel()
            raise
