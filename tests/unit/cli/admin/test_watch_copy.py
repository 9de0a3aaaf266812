"""A copy that is watched: outages, problems and what ends it."""

from collections.abc import Awaitable, Callable, Iterable

import pytest
from towpath.storage.v1.store_service_pb2 import Copy, Store

from services.cli.admin.watch_copy import CopyBar, watch
from services.cli.errors import CommandError
from services.common.errors import DeadlineExceeded, Reason, ServiceError, Unavailable

OTHER = Store(name="first", is_primary=True)
COPY = Copy(from_store="first", parallel=8)
AWAY = Unavailable(Reason.UNAVAILABLE, "an inner service does not answer")

Answer = Store | ServiceError


class Shown(CopyBar):
    """Keeps what was shown."""

    def __init__(self) -> None:
        self.lacking: list[int] = []
        self.problems: list[str] = []

    def show(self, store: Store) -> None:
        """Keep how much the store lacks."""
        self.lacking.append(store.lacking_count)

    def report(self, problem: str) -> None:
        """Keep the problem."""
        self.problems.append(problem)


def lacking(count: int, problem: str = "") -> Store:
    """A copy that lacks so many objects."""
    return Store(name="bucket", lacking_count=count, copy=Copy(from_store="first", problem=problem))


def answers(*given: Answer) -> Callable[[], Awaitable[Iterable[Store]]]:
    """Return a function that asks for all stores and gets these answers in turn; the last answer stays."""
    left = list(given)

    async def ask() -> Iterable[Store]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, ServiceError):
            raise answer
        return [OTHER, answer]

    return ask


async def test_until_nothing_is_lacking() -> None:
    """It ends with the answer that says so, and every answer before was shown."""
    shown = Shown()
    done = Store(name="bucket", object_count=7, copy=COPY)
    assert await watch(answers(lacking(5), lacking(2), done), "bucket", shown, every=0) == done
    assert shown.lacking == [5, 2, 0]


async def test_an_outage_is_waited_out() -> None:
    """An outage may end by itself, so the command reports it and asks again."""
    shown = Shown()
    late = DeadlineExceeded(Reason.DEADLINE_EXCEEDED, "deadline exceeded")
    await watch(answers(lacking(1), AWAY, late, AWAY, lacking(0)), "bucket", shown, every=0)
    assert shown.lacking == [1, 0]
    told = ["", f"no answer: {AWAY.message}", f"no answer: {late.message}", f"no answer: {AWAY.message}", ""]
    assert shown.problems == told


async def test_a_problem_is_told_until_it_has_gone() -> None:
    """A problem ends nothing: the service tries again."""
    shown = Shown()
    await watch(
        answers(lacking(3, "the store is full"), lacking(3, "the store is full"), lacking(0)), "bucket", shown, every=0
    )
    assert shown.problems == ["the store is full", "the store is full", ""]


async def test_an_outage_without_an_end() -> None:
    """The last message must give the reason, and say that the copy goes on without the command."""
    with pytest.raises(CommandError, match="an inner service does not answer; the copy goes on by itself"):
        await watch(answers(lacking(1), AWAY), "bucket", Shown(), every=0, patience=0.05)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Store(name="bucket", lacking_count=4), "the copy was stopped; bucket lacks 4 objects"),
        (Store(name="another"), "bucket was removed"),
    ],
    ids=["stopped", "removed"],
)
async def test_a_copy_that_has_ended(answer: Store, message: str) -> None:
    """A copy that somebody stops, or whose store somebody removes, is not waited for."""
    with pytest.raises(CommandError, match=message):
        await watch(answers(lacking(5), answer), "bucket", Shown(), every=0)


async def test_any_other_failure_ends_it() -> None:
    """A repetition does not mend any other failure, so the command does not ask again."""
    with pytest.raises(ServiceError, match="internal error"):
        await watch(answers(ServiceError(Reason.INTERNAL, "internal error"), lacking(0)), "bucket", Shown(), every=0)
