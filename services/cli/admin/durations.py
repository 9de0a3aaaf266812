"""Expiry of a token in the operator's notation: a time span or a day."""

import re
from datetime import UTC, date, datetime, timedelta

_SPAN = re.compile(r"([1-9][0-9]{0,4})([hdw])", re.ASCII)
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def parse_expiry(text: str, now: datetime) -> datetime:
    """Return the moment of an expiry: a span after `now`, or the start of a day (UTC).

    A span is such as `12h`, `90d` or `4w`, a day such as `2026-12-31`. Raises ValueError if the text is neither, or if
    the moment is not in the future.
    """
    if match := _SPAN.fullmatch(text):
        return now + int(match[1]) * _UNITS[match[2]]
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expected such as 12h, 90d, 4w or 2026-12-31, got {text!r}") from None
    end = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if end <= now:
        raise ValueError(f"expected a day to come, got {text}")
    return end
