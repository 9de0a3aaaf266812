"""Cursors of lists of objects, and the days of usage."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidArgument
from services.storage.index.object_lists import ObjectOrder, ObjectState, Position, key_column
from services.storage.index.usage import DayUsage
from services.storage.objects.lists import format_cursor, parse_cursor
from services.storage.objects.usage import by_day

OID = "0123456789abcdef" * 4
DAY = datetime.date(2026, 3, 1)

lists = st.tuples(st.sampled_from(ObjectOrder), st.sampled_from(ObjectState))
sizes = st.integers(0, 2**63 - 1)
times = st.datetimes(timezones=st.just(datetime.UTC))
oids = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(lists, lists, sizes, times, oids)
def test_a_cursor_names_a_place_in_its_list(
    own: tuple[ObjectOrder, ObjectState],
    other: tuple[ObjectOrder, ObjectState],
    size: int,
    time: datetime.datetime,
    oid: str,
) -> None:
    """It leads back to the place, and is a cursor of no other list."""
    column = key_column(*own)
    position = Position(None if column is None else size if column == "size" else time, oid)
    cursor = format_cursor(position, *own)
    assert parse_cursor(cursor, *own) == position
    if other != own:
        with pytest.raises(InvalidArgument) as caught:
            parse_cursor(cursor, *other)
        assert caught.value.reason == "INVALID_CURSOR"


def test_the_cursor_of_all_objects_by_oid_is_an_oid() -> None:
    """Callers have such cursors from services that knew no other list."""
    assert parse_cursor(OID, ObjectOrder.OID, ObjectState.ANY) == Position(None, OID)
    assert parse_cursor("", ObjectOrder.LARGEST, ObjectState.BIN) is None


@given(lists, st.text(min_size=1, max_size=100))
def test_no_other_text_is_a_cursor(of: tuple[ObjectOrder, ObjectState], text: str) -> None:
    """Whatever no page gave is INVALID_CURSOR."""
    with pytest.raises(InvalidArgument) as caught:
        parse_cursor(text, *of)
    assert caught.value.reason == "INVALID_CURSOR"


@pytest.mark.parametrize(
    "cursor",
    [
        f"largest.held.{OID}",
        f"largest.held.-1.{OID}",
        f"largest.held.-0.{OID}",
        f"largest.held.007.{OID}",
        f"largest.held.9223372036854775808.{OID}",
        f"largest.held.{'9' * 100}.{OID}",
        f"largest.held.\u0661.{OID}",
        f"largest.held.1.{OID[:-1]}",
        f"largest.held.1.{OID}\n",
        f"largest.held.1.{OID}0",
        f"largest.any.1.{OID}",
        f"nearest.held.1.{OID}",
        f"1.{OID}",
        OID,
    ],
)
def test_near_cursors(cursor: str) -> None:
    """Near misses are refused, and no number is too large for the database."""
    with pytest.raises(InvalidArgument):
        parse_cursor(cursor, ObjectOrder.LARGEST, ObjectState.HELD)


def test_times_beyond_the_calendar() -> None:
    """A time that no year has is refused."""
    for key in ("9223372036854775807", "-9223372036854775807"):
        with pytest.raises(InvalidArgument):
            parse_cursor(f"newest.bin.{key}.{OID}", ObjectOrder.NEWEST, ObjectState.BIN)


def test_days_without_a_record_are_like_the_day_before() -> None:
    """Nothing is held before the first record, and the last day is what is held now."""
    first, current = DAY - datetime.timedelta(days=3), DayUsage(DAY, 3, 30)
    assert by_day([], DAY, current) == [current]
    assert by_day([DayUsage(DAY, 1, 1)], DAY, current) == [current]
    recorded = [DayUsage(DAY - datetime.timedelta(days=2), 2, 20)]
    assert [entry.object_bytes for entry in by_day(recorded, first, current)] == [0, 20, 20, 30]
    recorded.insert(0, DayUsage(DAY - datetime.timedelta(days=90), 1, 10))
    assert [entry.object_count for entry in by_day(recorded, first, current)] == [1, 2, 2, 3]
    assert [entry.day.day for entry in by_day(recorded, first, current)] == [26, 27, 28, 1]
