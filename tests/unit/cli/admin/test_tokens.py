"""Expiry of a token, as an operator writes it."""

from datetime import UTC, datetime, timedelta

import pytest

from services.cli.admin.tokens import parse_expiry

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("12h", NOW + timedelta(hours=12)),
        ("90d", NOW + timedelta(days=90)),
        ("4w", NOW + timedelta(weeks=4)),
        ("1y", NOW + timedelta(days=365)),
        ("2026-12-31", datetime(2026, 12, 31, tzinfo=UTC)),
    ],
)
def test_expiry(text: str, end: datetime) -> None:
    """A span from now on, or the beginning of a day."""
    assert parse_expiry(text, NOW) == end


@pytest.mark.parametrize(
    "text", ["", "0d", "-1d", "90", "90 d", "1000y", "2026-11-21", "2025-01-01", "2026-13-01", "٩d"]
)
def test_no_expiry(text: str) -> None:
    """Anything else is refused, and what is past."""
    with pytest.raises(ValueError, match="expected"):
        parse_expiry(text, NOW)
