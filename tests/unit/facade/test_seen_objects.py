"""How long what storage has said of objects is repeated (docs/decisions/0025)."""

import pytest

from services.facade import seen_objects
from services.facade.seen_objects import Named, SeenObjects

_OBJECT: Named = ("a" * 64, 1)
_OTHER: Named = ("b" * 64, 1)


class Clock:
    """What `time.monotonic` says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return what a test has set."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that a test moves."""
    clock = Clock()
    monkeypatch.setattr(seen_objects, "time", clock)
    return clock


def test_an_answer_is_for_those_who_ask_the_same(clock: Clock) -> None:
    """For the same object of the same size, in the same repository and way."""
    seen = SeenObjects[str]()
    seen.keep("one", [(_OBJECT, "held")], asked_at=clock.now)
    assert seen.recall("one", [_OTHER, _OBJECT, (_OBJECT[0], 2)]) == [None, "held", None]
    assert seen.recall("another", [_OBJECT]) == [None]


@pytest.mark.parametrize("begun", [number * 0.05 for number in range(20)])
def test_an_answer_is_repeated_for_less_than_a_second(clock: Clock, begun: float) -> None:
    """Whenever it was asked for, whether others ask meanwhile or nobody does; for nearly half of one it always is."""
    for pauses in ([0.44], [0.2, 0.24], [0.01] * 44):
        clock.now = 1000.0 + begun
        seen = SeenObjects[str]()
        seen.keep(1, [(_OBJECT, "held")], asked_at=clock.now)
        for pause in pauses:
            clock.now += pause
            assert seen.recall(1, [_OBJECT]) == ["held"]
    for pauses in ([0.901], [0.301] * 3, [0.0501] * 18, [30.0]):
        clock.now = 1000.0 + begun
        seen = SeenObjects[str]()
        seen.keep(1, [(_OBJECT, "held")], asked_at=clock.now)
        for pause in pauses:
            clock.now += pause
            told = seen.recall(1, [_OBJECT])
        assert told == [None]


def test_an_answer_counts_from_the_question(clock: Clock) -> None:
    """One that took long is as old as its question, and may be repeated to nobody."""
    seen = SeenObjects[str]()
    seen.keep(1, [(_OBJECT, "held")], asked_at=clock.now - 0.9)
    assert seen.recall(1, [_OBJECT]) == [None]


def test_no_more_is_kept_than_there_is_room_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes then is asked for each time; what is asked for again takes no more room."""
    monkeypatch.setattr(seen_objects, "_MOST_OBJECTS", 2)
    seen = SeenObjects[str]()
    for _ in range(3):
        seen.keep(1, [(_OBJECT, "held")], asked_at=clock.now)
    seen.keep(2, [(_OBJECT, "held")], asked_at=clock.now)
    seen.keep(1, [(_OTHER, "held")], asked_at=clock.now)
    assert [seen.recall(1, [_OBJECT, _OTHER]), seen.recall(2, [_OBJECT])] == [["held", None], ["held"]]
    clock.now += 0.45
    seen.keep(1, [(_OTHER, "held")], asked_at=clock.now)
    assert seen.recall(1, [_OTHER]) == ["held"]
