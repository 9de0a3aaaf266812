"""Debts of addresses for bad credentials (client-6), summed over all facades.

A bad credential adds a debt of some seconds, and time pays it off. An address without debt has no row that counts, so
that a good credential writes nothing, and the row of an address that stops failing is deleted. `take_share` keeps the
debts of others in the same table, whose names have a space, as no address has.
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


async def take_share(connection: AsyncConnection, *, holder: str, interval: float, burst: float = 1.0) -> float:
    """Take one of something that a holder has each `interval` seconds, and `burst` times after a pause (GCRA).

    Return 0, or the seconds until there is one to take. The holder, 1 to 64 characters, owes as an address does.
    """
    cost = timedelta(seconds=interval)
    most = interval * (max(1.0, burst) - 1)
    new = insert(FailedLogin).values(address=holder, debt_until=func.now() + cost)
    debt_until = func.greatest(col(FailedLogin.debt_until), func.now())
    taken = new.on_conflict_do_update(
        index_elements=["address"],
        set_={"debt_until": debt_until + cost},
        where=col(FailedLogin.debt_until) <= func.now() + timedelta(seconds=most),
    ).returning(col(FailedLogin.address))
    if (await connection.execute(taken)).one_or_none() is not None:
        return 0.0
    left = select(extract("epoch", col(FailedLogin.debt_until) - func.now())).where(col(FailedLogin.address) == holder)
    return max(0.1, float(await connection.scalar(left) or 0) - most)


async def _forget_expired(connection: AsyncConnection) -> None:
    paid = (
        select(col(FailedLogin.address))
        .where(col(FailedLogin.debt_until) < func.now())
        .limit(_MAX_FORGOTTEN)
        # Waiting for a row that another process updates, while that process waits for ours, would be a deadlock.
        .with_for_update(skip_locked=True)
    )
    await connection.execute(delete(FailedLogin).where(col(FailedLogin.address).in_(paid)))
