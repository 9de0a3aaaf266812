"""New names of users and repositories that differ from one there is in their case alone.

Tables of before may hold such pairs, so no unique index can refuse them: whoever makes a name looks while all others
wait.
"""

from sqlalchemy import func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import Mapped

_KEY = func.hashtextextended("towpath locks names", literal(0))


async def find_look_alike(connection: AsyncConnection, names: Mapped[str], name: str) -> str | None:
    """Return a name of the column that is `name`, or differs from it in case alone; None where there is none.

    Until the transaction ends, nobody else learns of any name that it is free.
    """
    await connection.execute(select(func.pg_advisory_xact_lock(_KEY)))
    statement = select(names).where(func.lower(names) == func.lower(name)).order_by(names != name).limit(1)
    return await connection.scalar(statement)


def already_exists_message(kind: str, name: str, found: str) -> str:
    """Return why `name` is refused: the one that was found is taken, or looks like it."""
    if found == name:
        return f"there is a {kind} {name} already"
    return f"there is a {kind} {found} already, and names must differ in more than case"
