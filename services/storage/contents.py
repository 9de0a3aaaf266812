"""The SQL of where bytes lie. Each function runs in the transaction of its connection.

A name is in one store, and in one table at a time. It goes only one way: `uploads` (bytes on their way), `contents`
(the bytes of an object), `discards` (bytes that nothing refers to any more). No bytes are removed unless their name is
in `discards`, and nothing comes back from there: so a removal that is late, or repeated, never meets bytes that are
needed.
"""

import datetime
from collections.abc import Collection, Sequence
from enum import Enum, auto
from typing import NamedTuple

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    String,
    any_,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import aliased
from sqlalchemy.sql.dml import ReturningDelete
from sqlmodel import col

from services.storage.advisory import key
from services.storage.models import Content, Discard, Object, OngoingUpload, StoreRecord
from services.storage.names import oid_of

FIRST_STORE_ID = 1
"""The store of `TOWPATH_STORAGE_URL`."""

_CLAIM_SECONDS = 60
"""How long a sweep has bytes to itself that it removes."""

_LATE = datetime.timedelta(days=1)
"""How long after its end a request may last that a client began in time."""

# Until when a client may put bytes there with the address that it was given; NULL for what this service writes.
_writable_until = (col(OngoingUpload.expires_at) + _LATE).label("writable_until")

# Where and what a name is, and that, of the rows of the two tables.
_UPLOAD = (col(OngoingUpload.store_id), col(OngoingUpload.name), _writable_until)
_CONTENT = (col(Content.store_id), col(Content.name), col(Content.writable_until))


class Placed(NamedTuple):
    """Bytes in one store."""

    store_id: int
    name: str


def _any_of(texts: Sequence[str]) -> object:
    return any_(cast(list(texts), ARRAY(String)))


def _in(seconds: float) -> ColumnElement[datetime.datetime]:
    return func.now() + datetime.timedelta(seconds=seconds)


async def begin(connection: AsyncConnection, new: Placed, *, writer: int) -> bool:
    """Note that bytes come to a new name; tell whether they may: not where the store was forgotten."""
    await hold_store(connection, new.store_id)
    if not await is_known(connection, new.store_id):
        return False
    statement = postgresql.insert(OngoingUpload).values(store_id=new.store_id, name=new.name, writer=writer)
    await connection.execute(statement.on_conflict_do_nothing())
    return True


async def hold_store(connection: AsyncConnection, store_id: int) -> None:
    """Let the store not be forgotten until the transaction ends."""
    await connection.execute(select(func.pg_advisory_xact_lock_shared(key(f"store {store_id}"))))


async def is_known(connection: AsyncConnection, store_id: int) -> bool:
    """Tell whether there is such a store."""
    return bool(await connection.scalar(select(exists().where(col(StoreRecord.id) == store_id))))


async def commit(
    connection: AsyncConnection, oid: str, new: Placed, *, replaces: str | None, replaced_seconds: float
) -> str | None:
    """Make an upload's bytes those of the object in that store.

    Return under which name they lie there now, or None where the upload was given up. `replaces` is under which name
    they lay there when the upload began: those bytes stay for `replaced_seconds`, as readers may be at them. Where
    others have replaced them meanwhile, theirs are as good, and stay. The caller holds the oid's lock. May be repeated
    after it has succeeded.
    """
    now = (await names_of(connection, oid)).get(new.store_id)
    if now is not None and now != replaces:
        await give_up(connection, [new.name])
        return now
    mine = delete(OngoingUpload).where(col(OngoingUpload.store_id) == new.store_id, col(OngoingUpload.name) == new.name)
    ended = (await connection.execute(mine.returning(_writable_until))).one_or_none()
    if ended is None:
        return None
    replaced = delete(Content).where(col(Content.store_id) == new.store_id, col(Content.oid) == oid)
    await _discard(connection, replaced.returning(*_CONTENT), in_seconds=replaced_seconds)
    row = insert(Content).values(
        store_id=new.store_id, oid=oid, name=new.name, writable_until=ended.writable_until, is_doubted=False
    )
    await connection.execute(row)
    return new.name


async def names_of(connection: AsyncConnection, oid: str) -> dict[int, str]:
    """Return under which name the bytes of an object lie, by store."""
    statement = select(col(Content.store_id), col(Content.name)).where(col(Content.oid) == oid)
    return {row.store_id: row.name for row in await connection.execute(statement)}


async def doubt(connection: AsyncConnection, found: Collection[Placed]) -> int:
    """Note bytes that are missing or damaged, so that others take their place; return how many those are.

    Nothing is noted of bytes that no other store has.
    """
    another = aliased(Content)
    elsewhere = exists().where(
        col(another.oid) == col(Content.oid), col(another.store_id) != col(Content.store_id), ~col(another.is_doubted)
    )
    statement = (
        update(Content)
        .where(col(Content.oid) == _any_of([oid_of(placed.name) for placed in found]))
        .where(tuple_(col(Content.store_id), col(Content.name)).in_(found), ~col(Content.is_doubted), elsewhere)
        .values(is_doubted=True)
    )
    return (await connection.execute(statement)).rowcount


class State(Enum):
    """What a name is."""

    ONGOING = auto()
    NAMED = auto()
    DISCARDED = auto()
    UNKNOWN = auto()


async def state_of(connection: AsyncConnection, name: str) -> State:
    """Return what a name is at this moment."""
    tables = ((OngoingUpload, State.ONGOING), (Content, State.NAMED), (Discard, State.DISCARDED))
    # One statement, as a name goes from one table to the next.
    found = case(*((exists().where(col(model.name) == name), state.value) for model, state in tables))
    return State(await connection.scalar(select(func.coalesce(found, State.UNKNOWN.value))))


async def release(connection: AsyncConnection, oids: Sequence[str]) -> None:
    """Let go of the bytes of those of `oids` that no repository holds. The caller holds the locks of the oids."""
    held = exists().where(col(Object.oid) == col(Content.oid), col(Object.removed_at).is_(None))
    let_go = delete(Content).where(col(Content.oid) == _any_of(oids), ~held)
    await _discard(connection, let_go.returning(*_CONTENT), in_seconds=0)


async def writers(connection: AsyncConnection) -> list[int]:
    """Return whose uploads go on."""
    writer = col(OngoingUpload.writer)
    return list(await connection.scalars(select(writer).where(writer.is_not(None)).distinct()))


async def ongoing(connection: AsyncConnection, writer: int) -> list[str]:
    """Return the names of a writer's uploads."""
    return list(await connection.scalars(select(col(OngoingUpload.name)).where(col(OngoingUpload.writer) == writer)))


async def give_up(connection: AsyncConnection, names: Sequence[str]) -> int:
    """Give up those of the uploads that go on, and return how many they were."""
    given_up = delete(OngoingUpload).where(col(OngoingUpload.name) == _any_of(names))
    return await _discard(connection, given_up.returning(*_UPLOAD), in_seconds=0)


async def give_up_expired(connection: AsyncConnection) -> int:
    """Give up what clients could have brought to the store themselves and have not, and return how many it was."""
    expired = delete(OngoingUpload).where(col(OngoingUpload.expires_at) <= func.now() - _LATE)
    return await _discard(connection, expired.returning(*_UPLOAD), in_seconds=0)


async def claim_due(connection: AsyncConnection, store_ids: Sequence[int], *, limit: int) -> list[Placed]:
    """Return up to `limit` names in these stores that are due, which no other sweep gets for a while."""
    due = (
        select(col(Discard.store_id), col(Discard.name))
        .where(col(Discard.due_at) <= func.now(), col(Discard.store_id).in_(store_ids))
        .order_by(col(Discard.due_at))
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    statement = (
        update(Discard)
        .where(tuple_(col(Discard.store_id), col(Discard.name)).in_(due))
        .values(due_at=_in(_CLAIM_SECONDS))
        .returning(col(Discard.store_id), col(Discard.name))
    )
    return [Placed(*row) for row in await connection.execute(statement)]


async def discarded(connection: AsyncConnection, names: Sequence[str]) -> None:
    """Forget names: there are no bytes under them any more.

    Where a client may still put some there, the name stays, and is due again when that has ended.
    """
    named = col(Discard.name) == _any_of(names)
    until = col(Discard.writable_until)
    await connection.execute(delete(Discard).where(named, or_(until.is_(None), until <= func.now())))
    await connection.execute(update(Discard).where(named).values(due_at=until))


async def seconds_until_due(connection: AsyncConnection) -> float | None:
    """Return when the next name is due; None where there is none."""
    wait = func.extract("epoch", func.min(col(Discard.due_at)) - func.now())
    seconds = await connection.scalar(select(wait))
    return None if seconds is None else max(0.0, float(seconds))


async def _discard(
    connection: AsyncConnection, gone: ReturningDelete[int, str, datetime.datetime | None], *, in_seconds: float
) -> int:
    """Carry `gone` out, note what it returns as due in so many seconds, and return how many names those are."""
    left = gone.cte("gone")
    rows = select(left.c.store_id, left.c.name, left.c.writable_until, _in(in_seconds))
    statement = postgresql.insert(Discard).from_select(["store_id", "name", "writable_until", "due_at"], rows)
    return (await connection.execute(statement.on_conflict_do_nothing())).rowcount
