"""What addresses owe for bad credentials (client row 6), added up over all facades.

A bad credential is a debt of some seconds. An address without debt has no row that counts, so nothing is written for a
good credential, and an address that fails no more is forgotten.
"""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import delete, extract, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.locks.models import FailedLogin

_MAX_FORGOTTEN = 10_000
# What is owed for longer is no debt that anybody waits for.
_MAX_DEBT = timedelta(days=3660)


async def add_failures(connection: AsyncConnection, debts: Mapping[str, timedelta]) -> Mapping[str, float]:
    """Add to the debts of addresses, and return what each of them owes then, in seconds.

    What others have paid off is forgotten.
    """
    # In one order everywhere, so that two processes do not wait for each other.
    rows = [{"address": each, "debt_until": func.now() + min(debts[each], _MAX_DEBT)} for each in sorted(debts)]
    new = insert(FailedLogin).values(rows)
    sum_ = func.greatest(col(FailedLogin.debt_until), func.now()) + (new.excluded.debt_until - func.now())
    statement = new.on_conflict_do_update(
        index_elements=["address"], set_={"debt_until": func.least(sum_, func.now() + _MAX_DEBT)}
    ).returning(col(FailedLogin.address), extract("epoch", col(FailedLogin.debt_until) - func.now()))
    added = {address: float(seconds) for address, seconds in await connection.execute(statement)}
    await _forget_expired(connection)
    return added


async def _forget_expired(connection: AsyncConnection) -> None:
    paid = (
        select(col(FailedLogin.address))
        .where(col(FailedLogin.debt_until) < func.now())
        .limit(_MAX_FORGOTTEN)
        # Waiting for one that another process adds to, while that one waits for ours, would end both.
        .with_for_update(skip_locked=True)
    )
    await connection.execute(delete(FailedLogin).where(col(FailedLogin.address).in_(paid)))
