"""Parts of events, for watchers that know some of them already, and the feed that keeps them for slow watchers."""

import pytest
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import ResourceExhausted
from services.common.lock_positions import Position, position_of
from services.facade.clients import lock_parts
from services.facade.clients.lock_parts import Feed, Part

REPOSITORY = 7
BEGIN = position_of(REPOSITORY, {0: 4, 3: 1})


def response_after(position: Position, *stripes: int) -> pb.WatchLocksResponse:
    """Return a response with an event of each of these stripes, whose reason names its stripe and number."""
    response = pb.WatchLocksResponse()
    for stripe in stripes:
        number = position.numbers[stripe] + 1
        position = position.after(stripe, number)
        response.events.add(position=str(position), reason=f"{stripe}.{number}")
    response.position = str(position)
    return response


def seen(part: Part) -> list[tuple[str, str]]:
    """Return what each event is, and the position after it."""
    return [(event.reason, event.position) for event in part.response.events]


def test_who_knows_nothing_of_a_part_gets_it_as_it_is() -> None:
    """It is made once for all of them."""
    part = Part.of(response_after(BEGIN, 3, 0), BEGIN)
    assert part.beyond(BEGIN) is part


def test_known_events_are_left_out() -> None:
    """The others get the positions of a watcher who knows these, from which it can go on."""
    part = Part.of(response_after(BEGIN, 3, 0, 5, 3, 0), BEGIN)
    known = position_of(REPOSITORY, {0: 5, 3: 1, 5: 1})
    rest = part.beyond(known)
    assert seen(rest) == [
        ("3.2", str(position_of(REPOSITORY, {0: 5, 3: 2, 5: 1}))),
        ("3.3", str(position_of(REPOSITORY, {0: 5, 3: 3, 5: 1}))),
        ("0.6", str(position_of(REPOSITORY, {0: 6, 3: 3, 5: 1}))),
    ]
    assert rest.position == part.position
    assert rest.response.position == part.response.position


def test_who_knows_more_than_a_part_gets_the_rest_only() -> None:
    """Events beyond the part that are known stay known."""
    part = Part.of(response_after(BEGIN, 0, 3), BEGIN)
    rest = part.beyond(position_of(REPOSITORY, {0: 9, 3: 1}))
    assert seen(rest) == [("3.2", str(position_of(REPOSITORY, {0: 9, 3: 2})))]


def test_a_watcher_goes_on_where_it_misses_nothing() -> None:
    """It knows what came before the next parts, and the feed knows all that it knows."""
    feed = Feed(REPOSITORY)
    feed.add(pb.WatchLocksResponse(position=str(BEGIN)))
    with feed.cursor() as cursor:
        for known, goes_on in (
            (BEGIN, True),
            (position_of(REPOSITORY, {0: 3, 3: 1}), False),
            (BEGIN.after(0, 5), False),
            (Position(REPOSITORY + 1, BEGIN.numbers), False),
        ):
            assert feed.goes_on_after(known, cursor) is goes_on
        feed.add(response_after(BEGIN, 0))
        assert feed.goes_on_after(BEGIN, cursor)
        assert feed.goes_on_after(BEGIN.after(0, 5), cursor)
        feed.add(pb.WatchLocksResponse(position=str(Position(REPOSITORY)), reset=True))
        assert feed.goes_on_after(BEGIN.after(0, 99), cursor)


def test_a_slow_watcher_is_ended_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts that it leaves unread are bounded, and those that all have taken are not kept."""
    monkeypatch.setattr(lock_parts, "_MAX_UNREAD_BYTES", 1_000)
    feed, position = Feed(REPOSITORY), BEGIN
    feed.add(pb.WatchLocksResponse(position=str(position)))
    with feed.cursor() as slow, feed.cursor() as quick:
        for number in range(100):
            feed.add(response_after(position, number % 16))
            part = feed.take(quick)
            assert part is not None
            position = part.position
        assert feed.take(quick) is None
        assert position.generation == BEGIN.generation + 100
        with pytest.raises(ResourceExhausted):
            feed.take(slow)
