"""The limit of a page of locks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidArgument
from services.facade.locks.requests import coerce_limit, parse_limit


@pytest.mark.parametrize(
    ("text", "limit"), [("5", 5), ("+5", 5), ("007", 7), ("0", 0), ("-1", -1), ("-0", 0), ("9" * 5000, 2**31 - 1)]
)
def test_a_limit_is_a_whole_number(text: str, limit: int) -> None:
    """However long it is."""
    assert parse_limit(text) == limit


@pytest.mark.parametrize("text", ["abc", "1.5", "1e3", " 1", "", "\u0661", "--1", "0x10"])
def test_any_other_limit_is_refused(text: str) -> None:
    """The message names the field."""
    with pytest.raises(InvalidArgument, match="limit"):
        parse_limit(text)


@pytest.mark.parametrize(
    ("asked", "limit"), [(None, 0), (0, 0), (-1, 0), (7, 7), (2**31, 2**31 - 1), (10**30, 2**31 - 1)]
)
def test_less_than_one_is_the_default_and_too_many_are_coerced(asked: int | None, limit: int) -> None:
    """0 stands for the default of the lock service."""
    assert coerce_limit(asked) == limit


@given(st.text(max_size=20))
def test_no_text_is_too_strange(text: str) -> None:
    """It is a number that fits the call, or it is refused."""
    try:
        limit = coerce_limit(parse_limit(text))
    except InvalidArgument:
        return
    assert 0 <= limit < 2**31
