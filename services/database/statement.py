"""Single statements in Postgres' own SQL, with its numbered parameters."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

Row = Sequence[Any]


class Statement(NamedTuple):
    """A statement in Postgres' own SQL, and the values of its parameters `$1`, `$2` and so on."""

    sql: str
    values: tuple[object, ...]


async def rows(connection: AsyncConnection, statement: Statement) -> Sequence[Row]:
    """Return the rows of a statement in the transaction of the connection."""
    return (await connection.exec_driver_sql(*statement)).all()
