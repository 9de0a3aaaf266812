"""SQL of blobs. Each function runs in the transaction of its connection.

A blob name is in one store, and in one table at a time. It moves in one direction only: `uploads` (pending), `contents`
(the blob of an object), `discards` (a blob to which nothing refers any more). A blob is deleted only while its name is
in `discards`, and no name leaves `discards` for another table: a late or repeated deletion therefore never affects a
blob that is needed. Names of a journal are in its segment instead of `uploads`.
"""

import datetime
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    String,
    any_,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
    text,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import aliased
from sqlalchemy.sql.dml import ReturningDelete
from sqlmodel import col

from services.database.statement import Statement
from services.storage.blob_names import oid_of
from services.storage.index.models import Content, Discard, Object, OngoingUpload

FIRST_STORE_ID = 1
"""The id of the store of `TOWPATH_STORAGE_URL`."""

_CLAIM_SECONDS = 15
"""The time for which no other sweep claims the same blobs; if the sweeping process is killed, they stay that long."""

LATE = datetime.timedelta(days=1)
"""The longest that a PUT may last after its URL expires, if the client began it in time."""

# The time until which a client can write the blob with its signed URL; NULL for blobs that this service writes.
_writable_until = (col(OngoingUpload.expires_at) + LATE).label("writable_until")

# The columns that a row of either table passes on to `discards`.
_UPLOAD = (col(OngoingUpload.store_id), col(OngoingUpload.name), _writable_until)
_CONTENT = (col(Content.store_id), col(Content.name), col(Content.writable_until))


# In these words, because Postgres takes the partial index `objects_kept_oid` only where they are its own.
IS_KEPT = or_(col(Object.removed_at).is_(None), col(Object.bin_until).is_not(None))
"""The condition that a repository holds an object, or has it in its bin."""

KEPT = exists().where(col(Object.oid) == col(Content.oid), IS_KEPT)
"""The condition that some repository needs the object of a row of `contents`."""

_another = aliased(Content)
ELSEWHERE = exists().where(
    col(_another.oid) == col(Content.oid), col(_another.store_id) != col(Content.store_id), ~col(_another.is_doubted)
)
"""The condition that another store has an undamaged blob of the object of a row of `contents`."""


class BlobLocation(NamedTuple):
    """A blob in one store."""

    store_id: int
    name: str


class UploadedBlob(NamedTuple):
    """An uploaded blob, in place in one store, that is to become the blob of the object there.

    `replaces` is the object's blob name in that store when the upload began. The replaced blob is retained for
    `replaced_seconds` because readers may still use it.
    """

    store_id: int
    oid: str
    name: str
    replaces: str | None
    replaced_seconds: float


class PendingBlob(NamedTuple):
    """A new blob name in a store, for an object; `repository_id` is None if the service itself writes the blob."""

    repository_id: int | None
    store_id: int
    oid: str
    name: str


class PendingResult(NamedTuple):
    """The result of recording a blob name as pending: recorded if the store is known, and the object not removed."""

    is_known: bool
    """False if the store was deleted."""
    replaces: str | None
    """The object's current blob name in that store; None if there is none."""
    removal_reason: str | None
    """The reason of the object's removal from the repository; None if it was not removed, or only as garbage."""


# SQL as text for speed, as in `services.storage.index.objects`.
_BEGIN = """
    WITH new AS (
        SELECT new.*, stores.id IS NOT NULL AS is_known, contents.name AS replaces, objects.removal_reason
        FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::text[])
            WITH ORDINALITY AS new (repository_id, store_id, oid, name, number)
        LEFT JOIN storage.stores ON stores.id = new.store_id
        LEFT JOIN storage.contents USING (store_id, oid)
        LEFT JOIN storage.objects
            ON objects.repository_id = new.repository_id AND objects.oid = new.oid AND objects.removed_at IS NOT NULL
            AND NOT objects.is_collected
    ), noted AS (
        INSERT INTO storage.uploads (store_id, name, writer)
        SELECT store_id, name, $5::bigint FROM new WHERE is_known AND removal_reason IS NULL
        ON CONFLICT DO NOTHING
    )
    SELECT is_known, replaces, removal_reason FROM new ORDER BY number
"""
_COMMIT = text("""
    WITH arrived AS (
        SELECT new.*, contents.name AS present, contents.writable_until AS present_writable_until,
            contents.name IS NULL OR contents.name IS NOT DISTINCT FROM new.replaces AS is_wanted
        FROM unnest(
            CAST(:store_ids AS smallint[]), CAST(:oids AS text[]), CAST(:names AS text[]), CAST(:replaces AS text[]),
            CAST(:seconds AS double precision[])
        ) WITH ORDINALITY AS new (store_id, oid, name, replaces, seconds, number)
        LEFT JOIN storage.contents USING (store_id, oid)
    ), ended AS (
        DELETE FROM storage.uploads USING arrived JOIN storage.stores ON stores.id = arrived.store_id
        WHERE uploads.store_id = arrived.store_id AND uploads.name = arrived.name
        RETURNING arrived.*, uploads.expires_at + CAST(:late AS interval) AS writable_until
    ), named AS (
        INSERT INTO storage.contents (store_id, oid, name, writable_until, is_doubted)
        SELECT store_id, oid, name, writable_until, false FROM ended WHERE is_wanted
        ON CONFLICT (oid, store_id) DO UPDATE
        SET name = excluded.name, writable_until = excluded.writable_until, is_doubted = false
    ), discarded AS (
        INSERT INTO storage.discards (store_id, name, writable_until, due_at)
        SELECT store_id, name, writable_until, now() FROM ended WHERE NOT is_wanted
        UNION ALL
        SELECT store_id, present, present_writable_until, now() + seconds * interval '1 second'
        FROM ended WHERE is_wanted AND present IS NOT NULL
        ON CONFLICT DO NOTHING
    )
    SELECT CASE WHEN arrived.is_wanted THEN ended.name ELSE arrived.present END
    FROM arrived LEFT JOIN ended USING (number)
    ORDER BY arrived.number
""")


def any_of(texts: Sequence[str]) -> object:
    """Return the condition of a column to be one of these texts, as one parameter whatever their number."""
    return any_(cast(list(texts), ARRAY(String)))


def _in(seconds: float) -> ColumnElement[datetime.datetime]:
    return func.now() + datetime.timedelta(seconds=seconds)


def begin_statement(new: Sequence[PendingBlob], *, writer: int) -> Statement:
    """Return the statement that records blob names as pending; each row is a `PendingResult`, in order."""
    return Statement(_BEGIN, (*zip(*new, strict=True), writer))


async def commit(connection: AsyncConnection, arrived: Sequence[UploadedBlob]) -> list[str | None]:
    """Make uploaded blobs the blobs of their objects, each object at most once in each store.

    Return for each the object's blob name in that store from now on, or None if the upload was abandoned or the store
    deleted. If another upload has meanwhile replaced the blob that was there when this upload began, the other blob is
    as good, and stays. The caller must have locked the oids and the stores. May be repeated after it has succeeded.
    """
    store_ids, oids, names, replaces, seconds = zip(*arrived, strict=True)
    values = {"store_ids": store_ids, "oids": oids, "names": names, "replaces": replaces, "seconds": seconds}
    return list((await connection.execute(_COMMIT, {**values, "late": LATE})).scalars())


async def names_of(connection: AsyncConnection, oid: str) -> dict[int, str]:
    """Return the blob names of an object by store id."""
    statement = select(col(Content.store_id), col(Content.name)).where(col(Content.oid) == oid)
    return {row.store_id: row.name for row in await connection.execute(statement)}


async def mark_damaged(connection: AsyncConnection, found: Collection[BlobLocation], *, if_elsewhere: bool) -> int:
    """Mark blobs as damaged; return how many were not marked before.

    A damaged blob is replaced from a store that has the object, or by a client: clients are asked for an object that no
    store has as if it were new. With `if_elsewhere`, a blob is marked only if another store has an undamaged one.
    """
    statement = (
        update(Content)
        .where(col(Content.oid) == any_of([oid_of(location.name) for location in found]))
        .where(tuple_(col(Content.store_id), col(Content.name)).in_(found), ~col(Content.is_doubted))
        .where(ELSEWHERE if if_elsewhere else true())
        .values(is_doubted=True)
    )
    return (await connection.execute(statement)).rowcount


async def release_unreferenced(connection: AsyncConnection, oids: Sequence[str]) -> None:
    """Discard the blobs of those of `oids` that no repository needs. The caller must have locked the oids."""
    released = delete(Content).where(col(Content.oid) == any_of(oids), ~KEPT)
    await _discard(connection, released.returning(*_CONTENT), in_seconds=0)


async def writers(connection: AsyncConnection) -> list[int]:
    """Return the ids of the writers that have pending uploads."""
    writer = col(OngoingUpload.writer)
    return list(await connection.scalars(select(writer).where(writer.is_not(None)).distinct()))


async def ongoing(connection: AsyncConnection, writer: int) -> list[str]:
    """Return the pending blob names of a writer."""
    return list(await connection.scalars(select(col(OngoingUpload.name)).where(col(OngoingUpload.writer) == writer)))


async def give_up(connection: AsyncConnection, names: Sequence[str]) -> int:
    """Abandon those of the uploads `names` that are still pending, and return their number."""
    given_up = delete(OngoingUpload).where(col(OngoingUpload.name) == any_of(names))
    return await _discard(connection, given_up.returning(*_UPLOAD), in_seconds=0)


async def claim_due(connection: AsyncConnection, store_ids: Sequence[int], *, limit: int) -> list[BlobLocation]:
    """Claim up to `limit` due names in these stores: no other sweep gets them for `_CLAIM_SECONDS`."""
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
    return [BlobLocation(*row) for row in await connection.execute(statement)]


async def discarded(connection: AsyncConnection, names: Sequence[str]) -> None:
    """Forget names whose blobs have been deleted.

    A name to which a client may still upload stays, and is due again at the end of that time.
    """
    named, until = col(Discard.name) == any_of(names), col(Discard.writable_until)
    await connection.execute(delete(Discard).where(named, or_(until.is_(None), until <= func.now())))
    await connection.execute(update(Discard).where(named).values(due_at=until))


async def postpone(connection: AsyncConnection, names: Sequence[str], *, in_seconds: float) -> None:
    """Make names due again in `in_seconds`."""
    await connection.execute(update(Discard).where(col(Discard.name) == any_of(names)).values(due_at=_in(in_seconds)))


async def seconds_until_due(connection: AsyncConnection) -> float | None:
    """Return the number of seconds until the next name is due; None if there is no name."""
    seconds = await connection.scalar(select(func.extract("epoch", func.min(col(Discard.due_at)) - func.now())))
    return None if seconds is None else max(0.0, float(seconds))


async def _discard(
    connection: AsyncConnection, gone: ReturningDelete[int, str, datetime.datetime | None], *, in_seconds: float
) -> int:
    """Execute `gone`, record the names that it returns as due in `in_seconds`, and return their number."""
    left = gone.cte("gone")
    rows = select(left.c.store_id, left.c.name, left.c.writable_until, _in(in_seconds))
    statement = postgresql.insert(Discard).from_select(["store_id", "name", "writable_until", "due_at"], rows)
    return (await connection.execute(statement.on_conflict_do_nothing())).rowcount
