"""The SQL of where bytes lie. Each function runs in the transaction of its connection.

A name is in one table at a time, and goes only one way: `uploads` (bytes on their way), `contents` (the bytes of an
object), `discards` (bytes that nothing refers to any more). No bytes are removed unless their name is in `discards`,
and nothing comes back from there: so a removal that is late, or repeated, never meets bytes that are needed.
"""

import datetime
from collections.abc import Sequence
from enum import Enum, auto

from sqlalchemy import ARRAY, ColumnElement, String, any_, case, cast, delete, exists, func, literal, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.storage.models import Content, Discard, Object, OngoingUpload

STORE_ID = 1
"""The store of `TOWPATH_STORAGE_URL`."""

_CLAIM_SECONDS = 60
"""How long a sweep has bytes to itself that it removes."""


def _any_of(texts: Sequence[str]) -> object:
    return any_(cast(list(texts), ARRAY(String)))


def _in(seconds: float) -> ColumnElement[datetime.datetime]:
    return func.now() + datetime.timedelta(seconds=seconds)


async def begin(connection: AsyncConnection, name: str, *, writer: int) -> None:
    """Note that bytes come to a new name."""
    statement = postgresql.insert(OngoingUpload).values(store_id=STORE_ID, name=name, writer=writer)
    await connection.execute(statement.on_conflict_do_nothing())


async def commit(
    connection: AsyncConnection, oid: str, name: str, *, replaces: str | None, replaced_seconds: float
) -> str | None:
    """Make an upload's bytes those of the object; return their name now, or None where the upload was given up.

    `replaces` is under which name they lay when the upload began: those bytes stay for `replaced_seconds`, as readers
    may be at them. Where others have replaced them meanwhile, theirs are as good, and stay. The caller holds the oid's
    lock. May be repeated after it has succeeded.
    """
    ended = delete(OngoingUpload).where(col(OngoingUpload.store_id) == STORE_ID, col(OngoingUpload.name) == name)
    mine = (await connection.execute(ended)).rowcount > 0
    now = await name_of(connection, oid)
    if now is not None and now != replaces:
        await _discard(connection, [name] if mine else [], in_seconds=0)
        return now
    if not mine:
        return None
    new = postgresql.insert(Content).values(store_id=STORE_ID, oid=oid, name=name)
    await connection.execute(
        new.on_conflict_do_update(index_elements=["store_id", "oid"], set_={"name": new.excluded.name})
    )
    await _discard(connection, [now] if now is not None else [], in_seconds=replaced_seconds)
    return name


async def name_of(connection: AsyncConnection, oid: str) -> str | None:
    """Return under which name the bytes of an object lie."""
    statement = select(col(Content.name)).where(col(Content.store_id) == STORE_ID, col(Content.oid) == oid)
    name: str | None = await connection.scalar(statement)
    return name


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
    statement = delete(Content).where(col(Content.oid) == _any_of(oids), ~held).returning(col(Content.name))
    await _discard(connection, list(await connection.scalars(statement)), in_seconds=0)


async def writers(connection: AsyncConnection) -> list[int]:
    """Return whose uploads go on."""
    writer = col(OngoingUpload.writer)
    return list(await connection.scalars(select(writer).where(writer.is_not(None)).distinct()))


async def ongoing(connection: AsyncConnection, writer: int) -> list[str]:
    """Return the names of a writer's uploads."""
    return list(await connection.scalars(select(col(OngoingUpload.name)).where(col(OngoingUpload.writer) == writer)))


async def give_up(connection: AsyncConnection, names: Sequence[str]) -> int:
    """Give up those of the uploads that go on, and return how many they were."""
    statement = (
        delete(OngoingUpload).where(col(OngoingUpload.name) == _any_of(names)).returning(col(OngoingUpload.name))
    )
    given_up = list(await connection.scalars(statement))
    await _discard(connection, given_up, in_seconds=0)
    return len(given_up)


async def claim_due(connection: AsyncConnection, *, limit: int) -> list[str]:
    """Return up to `limit` names that are due, which no other sweep gets for a while."""
    due = (
        select(col(Discard.name))
        .where(col(Discard.due_at) <= func.now(), col(Discard.store_id) == STORE_ID)
        .order_by(col(Discard.due_at))
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    statement = (
        update(Discard)
        .where(col(Discard.store_id) == STORE_ID, col(Discard.name).in_(due.scalar_subquery()))
        .values(due_at=_in(_CLAIM_SECONDS))
        .returning(col(Discard.name))
    )
    return list(await connection.scalars(statement))


async def discarded(connection: AsyncConnection, names: Sequence[str]) -> None:
    """Forget names: there are no bytes under them any more."""
    await connection.execute(delete(Discard).where(col(Discard.name) == _any_of(names)))


async def seconds_until_due(connection: AsyncConnection) -> float | None:
    """Return when the next name is due; None where there is none."""
    wait = func.extract("epoch", func.min(col(Discard.due_at)) - func.now())
    seconds = await connection.scalar(select(wait))
    return None if seconds is None else max(0.0, float(seconds))


async def _discard(connection: AsyncConnection, names: Sequence[str], *, in_seconds: float) -> None:
    if names:
        statement = postgresql.insert(Discard).from_select(
            ["store_id", "name", "due_at"],
            select(literal(STORE_ID), func.unnest(cast(list(names), ARRAY(String))), _in(in_seconds)),
        )
        await connection.execute(statement.on_conflict_do_nothing())
