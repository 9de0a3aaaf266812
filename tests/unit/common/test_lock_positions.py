"""Positions: their text, order and generation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.lock_positions import Position, parse_position, position_of

POSITIONS = st.builds(
    position_of,
    st.integers(1, 10**18 - 1),
    st.dictionaries(st.integers(0, 15), st.integers(0, 10**15)),
)


@given(POSITIONS)
def test_the_text_of_a_position_is_that_position(position: Position) -> None:
    """A position is found again in its text, which begins with its generation."""
    assert parse_position(str(position)) == position
    assert str(position).startswith(f"{position.generation}-{position.repository_id}-")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1-7",
        "2-7-",
        "1-7-0",
        "1-7-.",
        "2-7-1.",
        "2-7-01",
        "2-07-1",
        "2-7--1",
        "2-7-1 ",
        " 2-7-1",
        "2-7-1\n",
        "2-7-\u0661",
        f"2-7-{'.' * 16}1",
        f"{10**18}-7-{10**18 - 1}",
        "2-7-1" * 1000,
    ],
)
def test_another_text_is_no_position(text: str) -> None:
    """A text that no position has is refused, however close it comes."""
    assert parse_position(text) is None


def test_an_event_leads_to_the_next_position() -> None:
    """Each event counts in the generation, and only in its own stripe."""
    position = position_of(7, {3: 4})
    assert position.generation == 5
    assert position.after(0, 1) == position_of(7, {0: 1, 3: 4})
    assert position.after(15, 9).generation == 14


def test_a_position_includes_those_before_it() -> None:
    """A position includes another one if each of its stripes does, and the repository is the same."""
    both = position_of(7, {0: 1, 3: 4})
    assert both.includes(both)
    assert both.includes(position_of(7, {3: 4}))
    assert not both.includes(position_of(7, {3: 5}))
    assert not both.includes(position_of(7, {5: 1}))
    assert not both.includes(position_of(8, {3: 4}))
