"""Questions of several requests, asked of a service in one call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from services.common.errors import Reason, ServiceError

Question = TypeVar("Question")
Answer = TypeVar("Answer")


async def ask_together(
    questions: Sequence[Question],
    together: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]],
    alone: Callable[[Question], Awaitable[Answer]],
    is_told: Callable[[Answer], bool],
) -> Sequence[Answer | ServiceError]:
    """Return what `together` answers to questions, in their order, or the error of each.

    What it tells nothing of is asked `alone`, which tells why, and so is each where the service is older than that
    call. Raises ValueError where the answers are not as many.
    """

    async def ask_alone(question: Question) -> Answer | ServiceError:
        try:
            return await alone(question)
        except ServiceError as error:
            return error

    if len(questions) == 1:
        return [await ask_alone(questions[0])]
    try:
        answers = await together(questions)
    except ServiceError as error:
        if error.reason != Reason.UNIMPLEMENTED:
            # It holds for all of them; to ask again for each would take the same time again.
            return [error] * len(questions)
        return await asyncio.gather(*map(ask_alone, questions))
    untold = [question for question, answer in zip(questions, answers, strict=True) if not is_told(answer)]
    again = iter(await asyncio.gather(*map(ask_alone, untold)))
    return [answer if is_told(answer) else next(again) for answer in answers]
