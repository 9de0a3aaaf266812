"""Ids and cursors as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidArgument, Reason
from services.locks.ids import NO_ID, parse_cursor, parse_id

_STRANGE = [
    "0",
    "-1",
    "+1",
    "01",
    "1.0",
    " 1",
    "1 ",
    "1\n",
    "1e3",
    "\u0661",
    "x",
    "9223372036854775808",
    "1" * 5000,
    "\0",
]


@pytest.mark.parametrize("text", ["", *_STRANGE])
def test_what_is_no_id_is_the_id_of_nothing(text: str) -> None:
    """An id that nothing can have is no error: nothing has it."""
    assert parse_id(text) == NO_ID


@pytest.mark.parametrize("text", _STRANGE)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    """Text that no page has ever ended with is refused."""
    with pytest.raises(InvalidArgument, match=r"^cursor: ") as caught:
        parse_cursor(text)
    assert caught.value.reason == Reason.INVALID_CURSOR


def test_no_cursor_is_the_first_page() -> None:
    """An empty cursor asks for the first page."""
    assert parse_cursor("") is None


@given(st.integers(min_value=1, max_value=2**63 - 1))
def test_every_id_is_a_cursor(number: int) -> None:
    """The decimal digits of an id are read back as the id."""
    assert parse_id(str(number)) == number
    assert parse_cursor(str(number)) == number


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the parsers fail, and what they read is written the same way again."""
    number = parse_id(text)
    assert number == NO_ID or str(number) == text
    try:
        cursor = parse_cursor(text)
    except InvalidArgument:
        assert number == NO_ID
    else:
        assert cursor == (number or None)
