"""Lists of a repository's objects, in pages.

A cursor is the place of the last object of a page. It names the order and the state of its list, except that a list of
all objects by oid has the bare oid.
"""

import datetime
import re
from functools import partial

from services.common.errors import InvalidArgument, Reason
from services.storage.context import StorageContext
from services.storage.index import object_lists
from services.storage.index.object_lists import (
    ListedObject,
    ObjectOrder,
    ObjectState,
    Position,
    key_column,
    position_of,
)

_CURSOR = re.compile(r"(?:([a-z]+)\.([a-z]+)\.)?(?:(0|-?[1-9][0-9]{0,18})\.)?([0-9a-f]{64})", re.ASCII)
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_MAX_SIZE = 2**63 - 1


async def list_objects(
    context: StorageContext, repository_id: int, *, order: ObjectOrder, state: ObjectState, cursor: str, limit: int
) -> tuple[list[ListedObject], str]:
    """Return up to `limit` objects of a list after `cursor`, and the next cursor, empty on the last page.

    Raises `InvalidArgument` (INVALID_CURSOR) if the cursor is not one of this list.
    """
    after = parse_cursor(cursor, order, state)
    listed = await context.database.run(
        partial(object_lists.page, repository_id=repository_id, order=order, state=state, after=after, limit=limit + 1)
    )
    page = listed[:limit]
    return page, format_cursor(position_of(page[-1], order, state), order, state) if len(listed) > limit else ""


def format_cursor(position: Position, order: ObjectOrder, state: ObjectState) -> str:
    """Return the cursor of a place in a list."""
    if (order, state) == (ObjectOrder.OID, ObjectState.ANY):
        return position.oid
    key = position.key
    if isinstance(key, datetime.datetime):
        key = (key - _EPOCH) // _MICROSECOND
    return ".".join((order.value, state.value, *([] if key is None else [str(key)]), position.oid))


def parse_cursor(cursor: str, order: ObjectOrder, state: ObjectState) -> Position | None:
    """Return the place that a cursor of a list names; None for an empty one, which is before the first object.

    Raises `InvalidArgument` (INVALID_CURSOR) for what is no cursor of this list.
    """
    if not cursor:
        return None
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise _invalid_cursor()
    try:
        position = Position(_key_of(found[3], order, state), found[4])
    except OverflowError as error:
        raise _invalid_cursor() from error
    # A cursor has one form only: whatever differs is of another list, or made up.
    if format_cursor(position, order, state) != cursor:
        raise _invalid_cursor()
    return position


def _key_of(digits: str | None, order: ObjectOrder, state: ObjectState) -> int | datetime.datetime | None:
    column = key_column(order, state)
    if (column is None) != (digits is None):
        raise _invalid_cursor()
    if digits is None:
        return None
    number = int(digits)
    if column != "size":
        return _EPOCH + number * _MICROSECOND
    if not 0 <= number <= _MAX_SIZE:
        raise OverflowError
    return number


def _invalid_cursor() -> InvalidArgument:
    return InvalidArgument(
        Reason.INVALID_CURSOR, "cursor: expected the next_cursor of an earlier page of the same order and state"
    )
