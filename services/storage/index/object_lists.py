"""SQL of lists of a repository's objects, in keyset pages. Each function runs in the transaction of its connection."""

import datetime
from enum import Enum
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.storage.index.objects import RECORD_SQL, Record


class ObjectOrder(Enum):
    """The order of a list. Objects of one size or time are in descending order of their oids."""

    OID = "oid"
    LARGEST = "largest"
    NEWEST = "newest"
    """The latest first: by the time at which the repository got the object, and in the bin by that of the removal."""


class ObjectState(Enum):
    """The objects that a list has."""

    ANY = "any"
    HELD = "held"
    BIN = "bin"
    """Removed, with the bytes in the bin."""
    DAMAGED = "damaged"
    """Held, with bytes that are damaged or lost in every store that had them."""


class Position(NamedTuple):
    """The place of an object in a list: its size or time, which a list by oid does not have, and its oid."""

    key: int | datetime.datetime | None
    oid: str


class ListedObject(NamedTuple):
    """An object in a list, with what only lists tell."""

    record: Record
    used_at: datetime.datetime | None
    """The time of the last recorded use; None if there was none since the object came."""
    added_by: int | None
    """The id of the user who brought it first; None if that is not known."""
    is_damaged: bool
    """True if the bytes are damaged or lost in every store that had them."""


# In the words of the partial indexes of objects, because Postgres does not take them otherwise.
_HELD, _REMOVED = "removed_at IS NULL", "removed_at IS NOT NULL"
_CONDITIONS = {
    ObjectState.ANY: "true",
    ObjectState.HELD: _HELD,
    ObjectState.BIN: "bin_until IS NOT NULL",
    ObjectState.DAMAGED: f"""{_HELD}
            AND EXISTS (SELECT FROM storage.contents WHERE contents.oid = objects.oid AND is_doubted)
            AND NOT EXISTS (SELECT FROM storage.contents WHERE contents.oid = objects.oid AND NOT is_doubted)""",  # noqa: S608 - our own words
}
_KEY_TYPES = {"size": "bigint", "created_at": "timestamptz", "removed_at": "timestamptz"}


def key_column(order: ObjectOrder, state: ObjectState) -> str | None:
    """Return the column by which a list is in order; None for a list by oid."""
    if order is ObjectOrder.OID:
        return None
    if order is ObjectOrder.LARGEST:
        return "size"
    return "removed_at" if state is ObjectState.BIN else "created_at"


def position_of(listed: ListedObject, order: ObjectOrder, state: ObjectState) -> Position:
    """Return the place of an object in a list."""
    column = key_column(order, state)
    return Position(None if column is None else getattr(listed.record, column), listed.record.oid)


async def page(
    connection: AsyncConnection,
    repository_id: int,
    *,
    order: ObjectOrder,
    state: ObjectState,
    after: Position | None,
    limit: int,
) -> list[ListedObject]:
    """Return the page of up to `limit` objects of a list after the place `after`; the first page for None."""
    values: dict[str, object] = {"repository_id": repository_id, "limit": limit}
    if after is not None:
        values |= after._asdict() if after.key is not None else {"oid": after.oid}
    rows = await connection.execute(text(_page_sql(order, state, is_first=after is None)), values)
    width = len(Record._fields)
    return [ListedObject(Record._make(row[:width]), *row[width:]) for row in rows]


def _page_sql(order: ObjectOrder, state: ObjectState, *, is_first: bool) -> str:
    column = key_column(order, state)
    if column is None:
        ordered, after = "oid", "oid > CAST(:oid AS text)"
    else:
        ordered = f"{column} DESC, oid DESC"
        after = f"({column}, oid) < (CAST(:key AS {_KEY_TYPES[column]}), CAST(:oid AS text))"
    # Held and removed objects have indexes of their own.
    is_split = state is ObjectState.ANY and column is not None
    parts = [
        f"""(
            SELECT * FROM storage.objects
            WHERE repository_id = :repository_id AND {condition} AND {"true" if is_first else after}
            ORDER BY {ordered} LIMIT :limit
        )"""  # noqa: S608 - our own names
        for condition in ([_HELD, _REMOVED] if is_split else [_CONDITIONS[state]])
    ]
    return f"""
        SELECT {RECORD_SQL}, used_at, added_by, (
            SELECT bool_and(is_doubted) FROM storage.contents WHERE contents.oid = objects.oid
        ) IS TRUE
        FROM (
            SELECT * FROM ({" UNION ALL ".join(parts)}) AS parts ORDER BY {ordered} LIMIT :limit
        ) AS objects
        ORDER BY {ordered}
    """  # noqa: S608 - our own names
