"""Answers that need not be asked for again, as long as it is known that nothing has changed."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from prometheus_client import Counter

Question = TypeVar("Question")
Answer = TypeVar("Answer")

_MAX_ANSWERS = 10_000


class Revocations(Protocol):
    """Changes that may make answers wrong."""

    generation: int
    """Another number after each change: what was asked for before it may be wrong."""

    @property
    def is_current(self) -> bool:
        """Whether all changes are known but those of the last moments."""


class AccessCache(Generic[Question, Answer]):
    """The last 10,000 answers of one kind, as long as changes are known and there is none.

    A question is small and holds no secret. Answers are counted as `recalled`, and by `answer` as `asked` for.
    """

    def __init__(self, changes: Revocations, *, recalled: Counter, asked: Counter) -> None:
        self._changes = changes
        self._generation = changes.generation
        self._answers: OrderedDict[Question, tuple[Answer, float]] = OrderedDict()
        self._recalled = recalled
        self._asked = asked

    async def get_or_fetch(self, question: Question, ask: Callable[[], Awaitable[tuple[Answer, float]]]) -> Answer:
        """Return the answer, from memory where that can be trusted, and else from `ask`.

        That one returns with it for how many seconds it may be kept, from when it was asked for, 0 for not at all; what
        it raises is raised.
        """
        if (known := self.get(question)) is not None:
            return known
        self._asked.inc()
        return await self.fetch(question, ask)

    async def fetch(self, question: Question, ask: Callable[[], Awaitable[tuple[Answer, float]]]) -> Answer:
        """Return the answer from `ask`, whatever is remembered, and remember it as `answer` does."""
        generation, asked_at = self._changes.generation, time.monotonic()
        answer, seconds = await ask()
        # An answer may be older than a change that was learnt of meanwhile.
        if seconds > 0 and self._changes.is_current and self._changes.generation == generation:
            self._put(question, answer, asked_at + seconds)
        return answer

    def get(self, question: Question) -> Answer | None:
        """Return the answer from memory, where that can be trusted."""
        if self._generation != self._changes.generation:
            self._answers.clear()
            self._generation = self._changes.generation
        found = self._answers.get(question)
        if found is None or not self._changes.is_current or time.monotonic() >= found[1]:
            return None
        self._answers.move_to_end(question)
        self._recalled.inc()
        return found[0]

    def _put(self, question: Question, answer: Answer, until: float) -> None:
        self._answers[question] = answer, until
        if len(self._answers) > _MAX_ANSWERS:
            self._answers.popitem(last=False)
