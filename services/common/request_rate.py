"""Rates of requests as people write them, such as `600/min`; they are kept in requests per hour."""

import re

MAX_PER_HOUR = 3_600_000
"""The highest rate, in requests per hour: a thousand a second."""
UNLIMITED = 0
"""The rate that stands for no limit."""

_RATE = re.compile(r"([1-9][0-9]{0,6})/(s|min|h)", re.ASCII)
_PER_HOUR = {"s": 3_600, "min": 60, "h": 1}


def parse_request_rate(text: str) -> int:
    """Return the requests per hour of a rate such as `600/min`. Raises ValueError."""
    found = _RATE.fullmatch(text.strip())
    per_hour = int(found[1]) * _PER_HOUR[found[2]] if found else 0
    if not 0 < per_hour <= MAX_PER_HOUR:
        raise ValueError(f"expected such as 10/s, 600/min or 1000/h, at most 1000/s, got {text!r}")
    return per_hour


def format_request_rate(per_hour: int) -> str:
    """Return a rate as text: by the minute where that is a whole number, else by the hour; `none` for no limit."""
    if per_hour == UNLIMITED:
        return "none"
    minutes, rest = divmod(per_hour, _PER_HOUR["min"])
    return f"{per_hour}/h" if rest else f"{minutes}/min"
