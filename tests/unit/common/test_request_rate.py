"""Rates of requests as text."""

import pytest

from services.common.request_rate import MAX_PER_HOUR, format_request_rate, parse_request_rate


@pytest.mark.parametrize(
    ("text", "per_hour", "shown"),
    [
        ("600/min", 36_000, "600/min"),
        ("10/s", 36_000, "600/min"),
        (" 1000/h ", 1_000, "1000/h"),
        ("120/h", 120, "2/min"),
        ("1/h", 1, "1/h"),
        ("1000/s", MAX_PER_HOUR, "60000/min"),
    ],
)
def test_a_rate_is_text(text: str, per_hour: int, shown: str) -> None:
    """It is shown by the minute where that is exact, and what is shown can be given again."""
    assert parse_request_rate(text) == per_hour
    assert format_request_rate(per_hour) == shown
    assert parse_request_rate(shown) == per_hour


def test_no_limit_is_a_word() -> None:
    """Zero requests would mean that nothing is allowed."""
    assert format_request_rate(0) == "none"


@pytest.mark.parametrize(
    "text", ["", "600", "0/min", "-1/min", "600/day", "600/ min", "1001/s", "3600001/h", "1e3/min", "٦/min", "none"]
)
def test_anything_else_is_refused(text: str) -> None:
    """The message says what is expected."""
    with pytest.raises(ValueError, match="expected such as 10/s, 600/min or 1000/h"):
        parse_request_rate(text)
