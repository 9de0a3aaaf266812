"""Debts of addresses for bad credentials (client-6), summed over all facades.

A bad credential adds a debt of some seconds, and time pays it off. An address without debt has no row that counts, so
that a good credential writes nothing, and the row of an address that stops failing is deleted.
"""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import delete, extract, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.models import FailedLogin

_MAX_FORGOTTEN = 10_000
# Cap on a debt: nobody waits longer for it to be paid off.
_MAX_DEBT = timedelta(days=3660)


async def add_failures(connection: AsyncConnection, debts: Mapping[str, timedelta]) -> Mapping[str, float]:
    """Add to the debts of addresses, and return the new debt of each address in seconds.

    Also delete rows whose debts have been paid off.
    """
    # Sorted: processes that lock rows in the same order cannot deadlock.
    rows = [
        {"address": address, "debt_until": func.now() + min(debts[address], _MAX_DEBT)} for address in sorted(debts)
    ]
    new = insert(FailedLogin).values(rows)
    sum_ = func.greatest(col(FailedLogin.debt_until), func.now()) + (new.excluded.debt_until - func.now())
    statement = new.on_conflict_do_update(
        index_elements=["address"], set_={"debt_until": func.least(sum_, func.now() + _MAX_DEBT)}
    ).returning(col(FailedLogin.address), extract("epoch", col(FailedLogin.debt_until) - func.now()))
    added = {address: float(seconds) for address, seconds in await connection.execute(statement)}
    await _forget_expired(connection)
    return added


async def take_once(connection: AsyncConnection, *, key: str, seconds: float) -> bool:
    """Return whether this is the first call with a key, of 1 to 64 characters, in so many seconds.

    The key is kept as an address is: it owes, and its row is deleted when that is over.
    """
    until = func.now() + timedelta(seconds=seconds)
    statement = insert(FailedLogin).values(address=key, debt_until=until)
    taken = statement.on_conflict_do_update(
        index_elements=["address"], set_={"debt_until": until}, where=col(FailedLogin.debt_until) <= func.now()
    ).returning(col(FailedLogin.address))
    return (await connection.execute(taken)).one_or_none() is not None


async def _forget_expired(connection: AsyncConnection) -> None:
    paid = (
        select(col(FailedLogin.address))
        .where(col(FailedLogin.debt_until) < func.now())
        .limit(_MAX_FORGOTTEN)
        # Waiting for a row that another process updates, while that process waits for ours, would be a deadlock.
        .with_for_update(skip_locked=True)
    )
    await connection.execute(delete(FailedLogin).where(col(FailedLogin.address).in_(paid)))
