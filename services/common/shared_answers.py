"""Questions that come at once, of which those that are equal share an answer."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from services.common.lifecycle import end

Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")


class SharedAnswers(Generic[Question, Answer]):
    """Answers questions; those who ask the same at once share what it takes. Its owner closes it.

    Who asks what nobody is asking is answered at once. Who comes while the same is being answered shares the next
    answer with all who come meanwhile: it is looked for when that one is there, or has taken `held_seconds`. So no
    question is answered with what was found before it came, one that is stuck is passed, and none waits for another.
    """

    def __init__(self, answer: Callable[[Question], Awaitable[Answer]], *, held_seconds: float = 0.02) -> None:
        """Begin with nothing asked. What `answer` raises is raised to all who share it."""
        self._answer = answer
        self._held_seconds = held_seconds
        self._coming: dict[Question, asyncio.Task[Answer | Exception]] = {}
        self._latest: dict[Question, asyncio.Task[Answer | Exception]] = {}
        self._tasks: set[asyncio.Task[Answer | Exception]] = set()

    async def ask(self, question: Question) -> Answer:
        """Return the answer, or raise it. It is looked for to the end, whoever gives up waiting."""
        task = self._coming.get(question)
        if task is None:
            # In the context of the first who asks: what is traced and logged of it is theirs.
            task = asyncio.create_task(self._find(question, after=self._latest.get(question)))
            self._coming[question] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        answer = await asyncio.shield(task)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """Cancel what is under way or waits."""
        self._coming.clear()
        await end(*self._tasks)

    async def _find(self, question: Question, *, after: asyncio.Task[Answer | Exception] | None) -> Answer | Exception:
        if after is not None:
            await asyncio.wait({after}, timeout=self._held_seconds)
        task = self._latest[question] = self._coming.pop(question)
        try:
            return await self._answer(question)
        except Exception as error:  # whatever it is, it is for those who asked
            return error
        finally:
            # One that was passed may end after the one that passed it.
            if self._latest.get(question) is task:
                del self._latest[question]
