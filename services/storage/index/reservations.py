"""SQL of reservations in quotas. Each function runs in the transaction of its connection."""

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.database.statement import Statement


class Refusal(IntEnum):
    """The limit that does not admit an upload."""

    NONE = 0
    REPOSITORY = 1
    USER = 2


class Admission(NamedTuple):
    """The answer for one object: admitted if `refused_by` is `NONE`; and how much of the quota is used.

    `used` has what is held and what is reserved. Both numbers are 0 if the reservation was there already. With
    `is_reserved`, room is reserved for the object; without, its upload has to find room when it begins.
    """

    refused_by: Refusal
    used: int
    quota: int
    is_reserved: bool

    @property
    def is_admitted(self) -> bool:
        """True if the object fits, or needs no room."""
        return self.refused_by is Refusal.NONE


class ReservedUpload(NamedTuple):
    """A running upload for which room is reserved in a repository."""

    repository_id: int
    oid: str
    size: int
    user_id: int | None
    id: int
    """A number that no other upload has."""


_RESERVE = "SELECT refused_by, used, quota, is_reserved FROM storage.admit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
# In the order in which `storage.admit` takes its rows, so that two transactions do not deadlock.
_RENEW = text("""
    INSERT INTO storage.reservations AS kept (repository_id, oid, size, user_id, expires_at, uploads)
    SELECT one.repository_id, one.oid, max(one.size), max(one.user_id),
        clock_timestamp() + CAST(:seconds AS double precision) * interval '1 second', array_agg(one.id)
    FROM unnest(
        CAST(:repository_ids AS bigint[]), CAST(:oids AS text[]), CAST(:sizes AS bigint[]),
        CAST(:user_ids AS bigint[]), CAST(:ids AS bigint[])
    ) AS one (repository_id, oid, size, user_id, id)
    WHERE NOT EXISTS (
        SELECT FROM storage.objects AS held
        WHERE held.repository_id = one.repository_id AND held.oid = one.oid AND held.removed_at IS NULL
    )
    GROUP BY one.repository_id, one.oid
    ORDER BY one.repository_id, one.oid
    ON CONFLICT (repository_id, oid) DO UPDATE SET
        expires_at = greatest(kept.expires_at, excluded.expires_at),
        uploads = ARRAY(SELECT DISTINCT unnest(kept.uploads || excluded.uploads))
""")
_END = text("""
    WITH asked AS (
        SELECT kept.oid, array_remove(kept.uploads, CAST(:id AS bigint)) AS others
        FROM storage.reservations AS kept
        WHERE kept.repository_id = :repository_id AND kept.oid = ANY(CAST(:oids AS text[]))
        ORDER BY kept.oid FOR UPDATE
    ), ended AS (
        DELETE FROM storage.reservations AS kept USING asked
        WHERE kept.repository_id = :repository_id AND kept.oid = asked.oid AND asked.others = '{}'
    )
    UPDATE storage.reservations AS kept SET uploads = asked.others FROM asked
    WHERE kept.repository_id = :repository_id AND kept.oid = asked.oid AND asked.others <> '{}'
""")
# An array, because Postgres may run a subquery after IN once for each row.
_DELETE_EXPIRED = text("""
    DELETE FROM storage.reservations WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM storage.reservations WHERE expires_at <= clock_timestamp()
        LIMIT :limit FOR UPDATE SKIP LOCKED
    ))
""")
# As `storage.admit` counts them.
_RESERVED_BYTES = text("""
    SELECT live.repository_id, sum(live.size) FROM (
        SELECT repository_id, oid, size FROM storage.reservations WHERE expires_at > clock_timestamp()
        UNION ALL
        SELECT came.repository_id, came.oid, greatest(came.received - coalesce(kept.size, 0), 0)
        FROM storage.partial_uploads AS came
        LEFT JOIN storage.reservations AS kept ON kept.repository_id = came.repository_id AND kept.oid = came.oid
            AND coalesce(kept.user_id, 0) = came.user_id AND kept.expires_at > clock_timestamp()
    ) AS live
    WHERE live.repository_id = ANY(CAST(:repository_ids AS bigint[])) AND NOT EXISTS (
        SELECT FROM storage.objects AS held
        WHERE held.repository_id = live.repository_id AND held.oid = live.oid AND held.removed_at IS NULL
    )
    GROUP BY 1
""")


def reserve_statement(
    repository_id: int,
    quota: int | None,
    sizes: dict[str, int],
    *,
    seconds: float,
    user_id: int | None,
    user_quota: int | None,
    uploads: Collection[tuple[str, int]] = (),
    most_announced: int | None = None,
) -> Statement:
    """Return the statement that reserves room for objects, in order, while they fit; see `admissions`.

    A reservation lasts for `seconds` at least. Nothing is reserved for objects that the repository holds. `uploads`
    has the oid and the id of the running uploads. Announcements name `most_announced`: where a repository has so many
    reservations already, and beyond a tenth of what its quota leaves to the user's announcements, more objects are
    admitted without one.
    """
    parties = (repository_id, quota, user_id, user_quota)
    running = ([oid for oid, _ in uploads], [id_ for _, id_ in uploads])
    return Statement(_RESERVE, (*parties, list(sizes), list(sizes.values()), float(seconds), *running, most_announced))


def admissions(sizes: Collection[str], rows: Sequence[Sequence[int]]) -> dict[str, Admission]:
    """Return the rows of `reserve_statement` by oid."""
    return {
        oid: Admission(Refusal(refused_by), used, quota, bool(is_reserved))
        for oid, (refused_by, used, quota, is_reserved) in zip(sizes, rows, strict=True)
    }


async def renew(connection: AsyncConnection, reserved: Collection[ReservedUpload], *, seconds: float) -> None:
    """Let reservations last for `seconds` at least; reserve anew what was lost meanwhile."""
    repository_ids, oids, sizes, user_ids, ids = zip(*reserved, strict=True)
    columns = {"repository_ids": repository_ids, "oids": oids, "sizes": sizes, "user_ids": user_ids, "ids": ids}
    await connection.execute(_RENEW, {**columns, "seconds": seconds})


async def end(
    connection: AsyncConnection, repository_id: int, oids: Collection[str], *, upload_id: int | None = None
) -> None:
    """Give the room for objects back, unless uploads other than the one with this id need it."""
    await connection.execute(_END, {"repository_id": repository_id, "oids": list(oids), "id": upload_id})


async def delete_expired(connection: AsyncConnection, *, limit: int) -> None:
    """Delete up to `limit` reservations that have expired, and count nothing any more."""
    await connection.execute(_DELETE_EXPIRED, {"limit": limit})


async def reserved_bytes(connection: AsyncConnection, repository_ids: Collection[int]) -> dict[int, int]:
    """Return the bytes that are reserved in each of the repositories that have reservations or partial uploads."""
    rows = await connection.execute(_RESERVED_BYTES, {"repository_ids": list(repository_ids)})
    return {row[0]: int(row[1]) for row in rows}
