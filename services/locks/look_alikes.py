"""Detection of new user and repository names that differ from an existing name only in case.

Older tables may contain such pairs, so that no unique index can refuse them. Instead, a transaction that adds a name
searches for look-alikes under an advisory lock.
"""

from sqlalchemy import func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import Mapped

_KEY = func.hashtextextended("towpath locks names", literal(0))


async def find_look_alike(connection: AsyncConnection, names: Mapped[str], name: str) -> str | None:
    """Return an existing name that equals `name` or differs from it only in case; None if there is none.

    The transaction takes an advisory lock, so that no other transaction finds a name to be free before this one ends.
    """
    await connection.execute(select(func.pg_advisory_xact_lock(_KEY)))
    statement = select(names).where(func.lower(names) == func.lower(name)).order_by(names != name).limit(1)
    return await connection.scalar(statement)


def already_exists_message(kind: str, name: str, found: str) -> str:
    """Return why `name` is refused: it is taken, or `found` differs from it only in case."""
    if found == name:
        return f"there is a {kind} {name} already"
    return f"there is a {kind} {found} already, and names must differ in more than case"
