"""JSON as the clients of the interface read it: no repeated key, no NaN, and timestamps in one form."""

import json
import re
from typing import Any, NoReturn

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
"""An uppercase RFC 3339 timestamp in UTC, with second precision."""

_OFFSET = re.compile(r"[+-]\d\d:\d\d$", re.ASCII)


def is_timestamp(text: str) -> bool:
    """Tell whether a text is an uppercase RFC 3339 timestamp with second precision, in UTC or with an offset."""
    return TIMESTAMP.fullmatch(_OFFSET.sub("Z", text)) is not None


def parse(content: bytes) -> Any:  # noqa: ANN401 - whatever JSON was answered
    """Return the JSON value of some bytes. Raises `ValueError` for other text, NaN and a repeated key."""
    try:
        return json.loads(content, object_pairs_hook=_without_repeats, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(f"a key stands twice: {[key for key, _ in pairs]}")
    return members
