"""Cache of answers that is cleared by any change, and not used while changes are unknown."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from prometheus_client import Counter

from services.facade.clients.watch import Changes

Question = TypeVar("Question")
Answer = TypeVar("Answer")

_MAX_ANSWERS = 10_000


class AccessCache(Generic[Question, Answer]):
    """LRU cache of 10,000 answers of one kind, valid while changes are known and no change has occurred.

    A question is small and contains no secret. Cache hits are counted as `recalled`; `get_or_fetch` counts misses as
    `asked`.
    """

    def __init__(self, changes: Changes, *, recalled: Counter, asked: Counter) -> None:
        self._changes = changes
        self._generation = changes.generation
        self._answers: OrderedDict[Question, tuple[Answer, float]] = OrderedDict()
        self._recalled = recalled
        self._asked = asked

    async def get_or_fetch(self, question: Question, ask: Callable[[], Awaitable[tuple[Answer, float]]]) -> Answer:
        """Return the cached answer where it can be trusted, else the answer from `ask`.

        `ask` returns the answer and the seconds for which it may be cached, counted from the request; 0 forbids
        caching. Raises the errors of `ask`.
        """
        if (known := self.get(question)) is not None:
            return known
        self._asked.inc()
        return await self.fetch(question, ask)

    async def fetch(self, question: Question, ask: Callable[[], Awaitable[tuple[Answer, float]]]) -> Answer:
        """Return the answer from `ask` regardless of the cache, and cache it as `get_or_fetch` does."""
        generation, asked_at = self._changes.generation, time.monotonic()
        answer, seconds = await ask()
        # The answer may be older than a change that was reported meanwhile.
        if seconds > 0 and self._changes.are_known() and self._changes.generation == generation:
            self._put(question, answer, asked_at + seconds)
        return answer

    def get(self, question: Question) -> Answer | None:
        """Return the cached answer where it can be trusted, else None."""
        if self._generation != self._changes.generation:
            self._answers.clear()
            self._generation = self._changes.generation
        found = self._answers.get(question)
        if found is None or not self._changes.are_known() or time.monotonic() >= found[1]:
            return None
        self._answers.move_to_end(question)
        self._recalled.inc()
        return found[0]

    def _put(self, question: Question, answer: Answer, until: float) -> None:
        self._answers[question] = answer, until
        if len(self._answers) > _MAX_ANSWERS:
            self._answers.popitem(last=False)
