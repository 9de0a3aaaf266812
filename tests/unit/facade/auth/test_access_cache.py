"""Validity of cached access answers (docs/decisions/0018)."""

import time
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, Counter

from services.common.errors import NotFound, Reason
from services.facade.auth import access_cache, revocation_watch
from services.facade.auth.access_cache import AccessCache
from services.facade.auth.revocation_watch import RevocationState

REGISTRY = CollectorRegistry()
RECALLED, ASKED = (Counter(name, "Of these tests.", registry=REGISTRY) for name in ("recalled", "asked"))


class Locks:
    """Answers questions, and counts them."""

    def __init__(self, *, keep: float = 60) -> None:
        self.asked = 0
        self.keep = keep
        self.meanwhile: Callable[[], None] = lambda: None

    async def __call__(self) -> tuple[int, float]:
        """Return which question it was; something may happen before the answer arrives."""
        self.asked += 1
        answer = self.asked
        self.meanwhile()
        return answer, self.keep


def _told(changes: RevocationState, source: str = "one", count: int = 0, *, ago: float = 0) -> None:
    changes.record(source, count, asked_at=time.monotonic() - ago)


def _remembered(changes: RevocationState) -> AccessCache[str, int]:
    return AccessCache(changes, recalled=RECALLED, asked=ASKED)


@pytest.fixture
def changes() -> RevocationState:
    """Return the state of a facade that a lock service answered a moment ago."""
    changes = RevocationState()
    _told(changes)
    return changes


@pytest.fixture
def memory(changes: RevocationState) -> AccessCache[str, int]:
    """A memory that holds as long as these changes are known."""
    return _remembered(changes)


async def test_an_answer_is_asked_for_once(memory: AccessCache[str, int]) -> None:
    """Each question has its own."""
    locks = Locks()
    assert [await memory.get_or_fetch(question, locks) for question in "aaba"] == [1, 1, 2, 1]


async def test_a_change_ends_every_answer(memory: AccessCache[str, int], changes: RevocationState) -> None:
    """Of whatever source; the same count again is no change."""
    locks = Locks()
    for number, (source, count) in enumerate([("one", 0), ("one", 1), ("two", 7), ("one", 0)], start=1):
        _told(changes, source, count)
        assert await memory.get_or_fetch("a", locks) == number
        _told(changes, source, count)
        assert await memory.get_or_fetch("a", locks) == number


async def test_sources_in_turn_end_nothing(memory: AccessCache[str, int], changes: RevocationState) -> None:
    """Each copy of the lock service counts for itself."""
    locks = Locks()
    sources = [str(number) for number in range(10)]
    for source in sources:
        _told(changes, source, 3)
    for source in sources * 3:
        _told(changes, source, 3)
        assert await memory.get_or_fetch("a", locks) == 1


async def test_what_is_answered_across_a_change_is_not_kept(
    memory: AccessCache[str, int], changes: RevocationState
) -> None:
    """It may be older than the change, even if the cache has noticed the change for another question since."""
    locks = Locks()

    def change_and_look() -> None:
        _told(changes, count=1)
        memory.get("b")

    locks.meanwhile = change_and_look
    assert await memory.get_or_fetch("a", locks) == 1
    locks.meanwhile = lambda: None
    assert [await memory.get_or_fetch("a", locks) for _ in range(2)] == [2, 2]


@pytest.mark.parametrize("ago", [0.91, 5.0])
async def test_what_is_not_known_to_hold_is_asked(
    memory: AccessCache[str, int], changes: RevocationState, ago: float
) -> None:
    """An answer proves what was when it was asked for, however late it comes; the next one proves the rest."""
    locks = Locks()
    await memory.get_or_fetch("a", locks)
    _told(changes, ago=ago)
    assert [await memory.get_or_fetch("a", locks) for _ in range(3)] == [2, 3, 4]
    _told(changes)
    assert await memory.get_or_fetch("a", locks) == 1


async def test_nothing_is_kept_before_anything_is_told() -> None:
    """A lock service of an earlier version tells nothing."""
    memory = _remembered(RevocationState())
    locks = Locks()
    assert [await memory.get_or_fetch("a", locks) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("keep", [0.0, -1.0, 1e-9])
async def test_an_answer_is_kept_no_longer_than_it_may(memory: AccessCache[str, int], keep: float) -> None:
    """From when it was asked for."""
    locks = Locks(keep=keep)
    assert [await memory.get_or_fetch("a", locks) for _ in range(3)] == [1, 2, 3]


async def test_a_refusal_is_not_kept(memory: AccessCache[str, int]) -> None:
    """It is raised each time that it is asked for."""

    async def refuse() -> tuple[int, float]:
        raise NotFound(Reason.REPOSITORY_NOT_FOUND, "there is none")

    for _ in range(2):
        with pytest.raises(NotFound):
            await memory.get_or_fetch("a", refuse)
    assert await memory.get_or_fetch("a", Locks()) == 1


async def test_memory_has_bounds(
    memory: AccessCache[str, int], changes: RevocationState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory must stay bounded: the caches of answers and of sources keep the most recently used entries."""
    monkeypatch.setattr(access_cache, "_MAX_ANSWERS", 3)
    locks = Locks()
    assert [await memory.get_or_fetch(question, locks) for question in "abcadab"] == [1, 2, 3, 1, 4, 1, 5]
    monkeypatch.setattr(revocation_watch, "_MAX_SOURCES", 2)
    for source in "pqrs":
        _told(changes, source)
    assert list(changes.known) == ["r", "s"]


async def test_what_is_learnt_is_asked_for_each_time(memory: AccessCache[str, int], changes: RevocationState) -> None:
    """A fetched answer is cached unless a change arrives meanwhile, because then it may be outdated."""
    locks = Locks()
    assert [await memory.fetch("a", locks) for _ in range(2)] == [1, 2]
    assert memory.get("a") == 2
    locks.meanwhile = lambda: _told(changes, "one", 7)
    assert await memory.fetch("a", locks) == 3
    assert memory.get("a") is None


async def test_answers_are_counted(memory: AccessCache[str, int]) -> None:
    """By where they came from."""
    before = [REGISTRY.get_sample_value(f"{name}_total") or 0 for name in ("recalled", "asked")]
    for question in "aab":
        await memory.get_or_fetch(question, Locks())
    after = [REGISTRY.get_sample_value(f"{name}_total") or 0 for name in ("recalled", "asked")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 2]
