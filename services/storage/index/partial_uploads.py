"""SQL of partial uploads and their parts. Each function runs in the transaction of its connection.

One call at a time adds to a partial upload: the call that has its lease. The call's number is in the row, and each
statement that adds bytes names it, so that a call that was taken for dead changes nothing any more.
"""

import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import Aborted, FailedPrecondition, Reason, ResourceExhausted
from services.database.statement import Statement
from services.storage.errors import repository_deleted, upload_given_up
from services.storage.index import objects
from services.storage.index.contents import BlobLocation

LEASE_SECONDS = 10
"""The lease of a call that was killed, or whose client is silent, ends after so many seconds."""

MAX_PER_REPOSITORY = 10_000
"""The most partial uploads of a repository."""

MAX_PER_USER = 1_000
"""The most of them that are of one user, so that no user takes those of all."""

MAX_PARTS = 10_000
"""An upload with so many parts, which no client has that means well, begins anew."""

_UNTIL = f"clock_timestamp() + interval '{LEASE_SECONDS} seconds'"

_FIND = """
    SELECT id, received, expires_at, held_until > clock_timestamp()
    FROM storage.partial_uploads
    WHERE repository_id = $1 AND oid = $2 AND size = $3 AND user_id = $4 AND expires_at > clock_timestamp()
"""
_RENEW = f"""
    UPDATE storage.partial_uploads SET held_until = {_UNTIL} WHERE id = $1::bigint AND holder = $2::bigint
    RETURNING true
"""  # noqa: S608 - our own number
_PARTS = """
    SELECT store_id, name, size FROM storage.partial_upload_parts WHERE upload_id = $1::bigint ORDER BY start
"""
_COUNT_PARTS = "SELECT count(*) FROM storage.partial_upload_parts WHERE upload_id = $1::bigint"
_LOCK = text("""
    SELECT id, received, holder, held_until > clock_timestamp() AS is_held,
        size <> :size OR expires_at <= clock_timestamp() AS is_over
    FROM storage.partial_uploads
    WHERE repository_id = :repository_id AND oid = :oid AND user_id = :user_id
    ORDER BY id FOR UPDATE
""")
_TAKE = text(
    f"UPDATE storage.partial_uploads SET holder = :holder, held_until = {_UNTIL} WHERE id = :id"  # noqa: S608 - ours
)
_ADD = text(f"""
    INSERT INTO storage.partial_uploads
        (repository_id, oid, size, user_id, received, holder, held_until, expires_at)
    SELECT :repository_id, :oid, :size, :user_id, 0, :holder, {_UNTIL}, clock_timestamp() + CAST(:kept AS interval)
    WHERE (
        SELECT count(*) < :most AND count(*) FILTER (WHERE user_id = :user_id) < :most_of_user
        FROM storage.partial_uploads WHERE repository_id = :repository_id
    )
    ON CONFLICT DO NOTHING
    RETURNING id
""")  # noqa: S608 - our own number
_OWN = text("SELECT received FROM storage.partial_uploads WHERE id = :id AND holder = :holder FOR UPDATE")
_ADD_PART = text("""
    WITH ended AS (
        DELETE FROM storage.uploads WHERE store_id = :store_id AND name = :name RETURNING store_id, name
    )
    INSERT INTO storage.partial_upload_parts (upload_id, start, size, store_id, name)
    SELECT :id, :start, :size, store_id, name FROM ended
    RETURNING start
""")
_IS_ADDED = text("SELECT EXISTS (SELECT FROM storage.partial_upload_parts WHERE name = :name AND upload_id = :id)")
_GROW = text(f"""
    UPDATE storage.partial_uploads
    SET received = :received, held_until = {_UNTIL}, expires_at = clock_timestamp() + CAST(:kept AS interval)
    WHERE id = :id
    RETURNING expires_at
""")  # noqa: S608 - our own number
_EXPIRES_AT = text("SELECT expires_at FROM storage.partial_uploads WHERE id = :id")
# A new partial upload without a byte is none.
_RELEASE = text("""
    WITH empty AS (
        DELETE FROM storage.partial_uploads WHERE id = :id AND holder = :holder AND received = 0 RETURNING id
    )
    UPDATE storage.partial_uploads SET held_until = '-infinity'
    WHERE id = :id AND holder = :holder AND received > 0
""")
# An array, because Postgres may run a subquery after IN once for each row.
_DISCARD = """
    WITH gone AS (
        DELETE FROM storage.partial_uploads WHERE id = ANY (ARRAY(
            SELECT id FROM storage.partial_uploads AS upload WHERE {condition} ORDER BY id LIMIT :limit FOR UPDATE
        )) RETURNING id
    ), parts AS (
        DELETE FROM storage.partial_upload_parts AS part USING gone WHERE part.upload_id = gone.id
        RETURNING part.store_id, part.name
    ), discarded AS (
        INSERT INTO storage.discards (store_id, name, due_at) SELECT store_id, name, now() FROM parts
        ON CONFLICT DO NOTHING
    )
    SELECT id FROM gone
"""
_DISCARD_OWN = text(_DISCARD.format(condition="id = :id AND holder = :holder"))
_DISCARD_ID = text(_DISCARD.format(condition="id = :id"))
_DISCARD_OF_REPOSITORY = text(_DISCARD.format(condition="repository_id = :repository_id"))
_DISCARD_IN_STORE = text(
    _DISCARD.format(
        condition="EXISTS (SELECT FROM storage.partial_upload_parts AS part"
        " WHERE part.upload_id = upload.id AND part.store_id = :store_id)"
    )
)
# An upload of an object that is held, but damaged in all stores, will heal it.
_DISCARD_ENDED = text(
    _DISCARD.format(
        condition="held_until <= clock_timestamp() AND (expires_at <= clock_timestamp() OR EXISTS ("
        "  SELECT FROM storage.objects AS held JOIN storage.contents USING (oid)"
        "  WHERE held.repository_id = upload.repository_id AND held.oid = upload.oid AND held.removed_at IS NULL"
        "   AND NOT contents.is_doubted"
        " ))"
    )
)


class PartialKey(NamedTuple):
    """A partial upload: of an object of this size, by a user, to a repository."""

    repository_id: int
    oid: str
    size: int
    user_id: int
    """0 for nobody."""


class Found(NamedTuple):
    """A partial upload: how many bytes are in its parts, until when, and whether a call has its lease."""

    id: int
    received: int
    expires_at: datetime.datetime
    is_held: bool


class Taken(NamedTuple):
    """A partial upload whose lease a call has got, and whether parts of another were discarded for it."""

    id: int
    has_discarded: bool


class Part(NamedTuple):
    """A part: its blob, and how many bytes it has."""

    location: BlobLocation
    size: int


def find_statement(key: PartialKey) -> Statement:
    """Return the statement that finds a partial upload that has not expired; its row is a `Found`."""
    return Statement(_FIND, key)


def parts_statement(upload_id: int) -> Statement:
    """Return the statement that lists the parts of an upload; see `part_of`."""
    return Statement(_PARTS, (upload_id,))


def count_parts_statement(upload_id: int) -> Statement:
    """Return the statement that counts the parts of an upload."""
    return Statement(_COUNT_PARTS, (upload_id,))


def part_of(store_id: int, name: str, size: int) -> Part:
    """Return a row of `parts_statement`."""
    return Part(BlobLocation(store_id, name), size)


def renew_statement(upload_id: int, holder: int) -> Statement:
    """Return the statement that extends a lease; it returns no row if another call has taken it."""
    return Statement(_RENEW, (upload_id, holder))


def in_progress() -> Aborted:
    """Return the error that another call has the lease."""
    return Aborted(Reason.UPLOAD_IN_PROGRESS, "another request of the same user uploads this object at present")


def offset_mismatch(received: int, offset: int) -> FailedPrecondition:
    """Return the error that the bytes do not follow those that have arrived; its metadata `offset` has their number."""
    return FailedPrecondition(
        Reason.OFFSET_MISMATCH, f"upload-offset: expected {received}, got {offset}", offset=str(received)
    )


async def take(
    connection: AsyncConnection, key: PartialKey, holder: int, *, offset: int, kept: datetime.timedelta
) -> Taken:
    """Take the lease of a partial upload that has `offset` bytes; make one for the offset 0.

    A new one is kept for the time `kept`, and one of the same user and object with another size is discarded: an object
    has one size. May be repeated after it has succeeded. Raises `Aborted` (UPLOAD_IN_PROGRESS), `FailedPrecondition`
    (OFFSET_MISMATCH), `ResourceExhausted` (RATE_LIMITED) and `NotFound`.
    """
    # A deletion of the repository waits for this transaction, or has ended before.
    await objects.lock(connection, [], into=[key.repository_id])
    if await objects.is_deleted(connection, key.repository_id):
        raise repository_deleted()
    values = key._asdict()
    rows = (await connection.execute(_LOCK, values)).all()
    if any(row.is_held and row.holder != holder for row in rows):
        raise in_progress()
    over = [row.id for row in rows if row.is_over]
    for id_ in over:
        await connection.execute(_DISCARD_ID, {"id": id_, "limit": 1})
    found = next((row for row in rows if not row.is_over), None)
    received = 0 if found is None else found.received
    if offset != received:
        raise offset_mismatch(received, offset)
    if found is not None:
        await connection.execute(_TAKE, {"id": found.id, "holder": holder})
        return Taken(found.id, bool(over))
    values |= {"holder": holder, "kept": kept, "most": MAX_PER_REPOSITORY, "most_of_user": MAX_PER_USER}
    if (added := await connection.scalar(_ADD, values)) is not None:
        return Taken(added, bool(over))
    # Another call has just added it.
    if (await connection.execute(_LOCK, values)).first() is not None:
        raise in_progress()
    raise ResourceExhausted(
        Reason.RATE_LIMITED,
        f"partial uploads: expected at most {MAX_PER_USER} of a user in a repository, and {MAX_PER_REPOSITORY} of all",
    )


async def add_part(
    connection: AsyncConnection, upload_id: int, holder: int, start: int, part: Part, *, kept: datetime.timedelta
) -> datetime.datetime:
    """Add a part whose blob is in place, from `start` on; return when the upload expires. Extends the lease.

    May be repeated after it has succeeded. Raises `Aborted` (UPLOAD_IN_PROGRESS) if another call has taken the lease,
    or the upload is gone, and `Unavailable` if the blob was abandoned.
    """
    # The store cannot be deleted meanwhile.
    await objects.lock(connection, [], stores=[part.location.store_id])
    received = await connection.scalar(_OWN, {"id": upload_id, "holder": holder})
    values = {"id": upload_id, "start": start, "size": part.size, **part.location._asdict()}
    if received == start + part.size and await connection.scalar(_IS_ADDED, values):
        expires_at: datetime.datetime = await connection.scalar(_EXPIRES_AT, values)
        return expires_at
    if received != start:
        raise in_progress()
    if await connection.scalar(_ADD_PART, values) is None:
        raise upload_given_up()
    grown: datetime.datetime = await connection.scalar(
        _GROW, {"id": upload_id, "received": start + part.size, "kept": kept}
    )
    return grown


async def release(connection: AsyncConnection, upload_id: int, holder: int) -> None:
    """Give a lease back; an upload without a byte is forgotten."""
    await connection.execute(_RELEASE, {"id": upload_id, "holder": holder})


async def discard(connection: AsyncConnection, upload_id: int, holder: int) -> None:
    """Forget an upload whose lease the call `holder` has, and let its parts be deleted."""
    await connection.execute(_DISCARD_OWN, {"id": upload_id, "holder": holder, "limit": 1})


async def discard_of_repository(connection: AsyncConnection, repository_id: int, *, limit: int) -> int:
    """Forget up to `limit` uploads to a repository, running ones too; return how many."""
    rows = await connection.execute(_DISCARD_OF_REPOSITORY, {"repository_id": repository_id, "limit": limit})
    return len(rows.all())


async def discard_in_store(connection: AsyncConnection, store_id: int) -> None:
    """Forget the uploads that have a part in a store."""
    await connection.execute(_DISCARD_IN_STORE, {"store_id": store_id, "limit": None})


async def discard_ended(connection: AsyncConnection, *, limit: int) -> int:
    """Forget up to `limit` uploads that have expired, or whose object is held without them; return how many."""
    return len((await connection.execute(_DISCARD_ENDED, {"limit": limit})).all())
