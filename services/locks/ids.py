"""Ids and cursors in the form of the API: the decimal digits of a 64-bit id."""

import re

from services.common.errors import InvalidArgument, Reason

_MAX_ID = 2**63 - 1
_DIGITS = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)


NO_ID = 0
"""An id that no row has, because identities begin at 1."""


def parse_id(text: str) -> int:
    """Return the id that `text` represents; NO_ID if it represents none."""
    if not _DIGITS.fullmatch(text):
        return NO_ID
    number = int(text)
    return number if number <= _MAX_ID else NO_ID


def parse_cursor(cursor: str) -> int | None:
    """Return the id after which a page begins; None for the first page.

    Raises `InvalidArgument` (INVALID_CURSOR) if no page can have returned this cursor.
    """
    if not cursor:
        return None
    last = parse_id(cursor)
    if last == NO_ID:
        raise invalid_cursor()
    return last


def invalid_cursor() -> InvalidArgument:
    """Return the error for a cursor that no page can have returned."""
    return InvalidArgument(Reason.INVALID_CURSOR, "cursor: expected the next_cursor of a previous page")
