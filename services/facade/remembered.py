"""Answers about people's access that need not be asked for again."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from services.facade import metrics
from services.facade.access_changes import AccessChanges

Question = TypeVar("Question")
Answer = TypeVar("Answer")

_MOST_ANSWERS = 10_000


class Remembered(Generic[Question, Answer]):
    """The last 10,000 answers of one kind, as long as changes are known and there is none; `kind` names it in metrics.

    A question is small and holds no secret.
    """

    def __init__(self, kind: str, changes: AccessChanges) -> None:
        self._changes = changes
        self._generation = changes.generation
        self._answers: OrderedDict[Question, tuple[Answer, float]] = OrderedDict()
        self._recalled = metrics.ACCESS_ANSWERS.labels(kind, "memory")
        self._asked = metrics.ACCESS_ANSWERS.labels(kind, "locks")

    async def answer(self, question: Question, ask: Callable[[], Awaitable[tuple[Answer, float]]]) -> Answer:
        """Return the answer, from memory where that can be trusted, and else from `ask`.

        That one returns with it for how many seconds it may be kept, from when it was asked for, 0 for not at all; what
        it raises is raised.
        """
        if (known := self.recall(question)) is not None:
            return known
        self._asked.inc()
        generation, asked_at = self._changes.generation, time.monotonic()
        answer, seconds = await ask()
        # An answer may be older than a change that was learnt of meanwhile.
        if seconds > 0 and self._changes.are_known and self._changes.generation == generation:
            self._keep(question, answer, asked_at + seconds)
        return answer

    def recall(self, question: Question) -> Answer | None:
        """Return the answer from memory, where that can be trusted."""
        if self._generation != self._changes.generation:
            self._answers.clear()
            self._generation = self._changes.generation
        found = self._answers.get(question)
        if found is None or not self._changes.are_known or time.monotonic() >= found[1]:
            return None
        self._answers.move_to_end(question)
        self._recalled.inc()
        return found[0]

    def _keep(self, question: Question, answer: Answer, until: float) -> None:
        self._answers[question] = answer, until
        if len(self._answers) > _MOST_ANSWERS:
            self._answers.popitem(last=False)
