"""The keys of this service's advisory locks in Postgres."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import ColumnElement, func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

_LOCK = text("""
    SELECT CAST(pg_advisory_xact_lock(hashtextextended('towpath storage ' || name, 0)) AS text)
    FROM unnest(CAST(:alone AS text[])) AS name
    UNION ALL
    SELECT CAST(pg_advisory_xact_lock_shared(hashtextextended('towpath storage ' || name, 0)) AS text)
    FROM unnest(CAST(:shared AS text[])) AS name
""")


def store_key(store_id: int) -> str:
    """Return the name of a store's lock, which commits to the store share, and its deletion takes alone."""
    return f"store {store_id}"


def key(name: object) -> ColumnElement[int]:
    """Return the key of the lock of that name."""
    return func.hashtextextended(f"towpath storage {name}", literal(0))


@asynccontextmanager
async def held_alone(engine: AsyncEngine, name: str) -> AsyncIterator[bool]:
    """Yield True if only this process holds the lock of that name, which it then does until the block ends."""
    async with engine.connect() as connection:
        # A transaction that stays open would prevent Postgres from vacuuming.
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        try:
            yield bool(await connection.scalar(select(func.pg_try_advisory_lock(key(name)))))
            await connection.execute(select(func.pg_advisory_unlock_all()))
        except BaseException:
            # The lock ends with the session, which the pool would retain.
            await connection.invalidate()
            raise


async def lock(connection: AsyncConnection, *, alone: Sequence[str] = (), shared: Sequence[str] = ()) -> None:
    """Take the locks of these names until the transaction ends, in the order given: all of `alone`, then `shared`.

    Callers that take several locks must take them in one order everywhere, so that no two transactions deadlock.
    """
    await connection.execute(_LOCK, {"alone": alone, "shared": shared})
