"""Single statements in the words of Postgres."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

Row = Sequence[Any]


class Statement(NamedTuple):
    """A statement in the words of Postgres, and the values of its `$1`, `$2` and so on."""

    sql: str
    values: tuple[object, ...]


async def rows(connection: AsyncConnection, statement: Statement) -> Sequence[Row]:
    """Return the rows of a statement in the transaction of the connection."""
    return (await connection.exec_driver_sql(*statement)).all()
