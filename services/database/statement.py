"""Single statements in Postgres' own SQL, with its numbered parameters."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

Row = Sequence[Any]
Condition = tuple[str, Sequence[object]]
"""A condition in SQL with `{}` in the place of each of its values, and the values."""


class Statement(NamedTuple):
    """A statement in Postgres' own SQL, and the values of its parameters `$1`, `$2` and so on."""

    sql: str
    values: tuple[object, ...]


async def rows(connection: AsyncConnection, statement: Statement) -> Sequence[Row]:
    """Return the rows of a statement in the transaction of the connection."""
    return (await connection.exec_driver_sql(*statement)).all()


def conjunction(conditions: Iterable[Condition], values: list[object]) -> str:
    """Return ` AND condition` for each condition, and append their values to those that a statement has."""
    text = ""
    for condition, given in conditions:
        numbers = range(len(values) + 1, len(values) + 1 + len(given))
        text += " AND " + condition.format(*(f"${number}" for number in numbers))
        values.extend(given)
    return text
