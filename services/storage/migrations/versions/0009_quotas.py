"""Limits of repositories, counters of what they hold, and reservations of announced uploads."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Triggers count, so that services of the version before count too. A statement adds rows and changes none, so that
# two uploads to a repository never wait for each other.
_COUNT_ADDED = """
    CREATE FUNCTION storage.count_added_objects() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        INSERT INTO storage.usage_deltas (repository_id, user_id, object_count, object_bytes)
        SELECT repository_id, added_by, count(*), sum(size) FROM added WHERE removed_at IS NULL GROUP BY 1, 2;
        -- One that another transaction renews is skipped: it counts nothing once the object is held.
        IF EXISTS (SELECT FROM storage.reservations) THEN
            DELETE FROM storage.reservations AS ended USING (
                SELECT kept.repository_id, kept.oid FROM storage.reservations AS kept
                JOIN added USING (repository_id, oid) WHERE added.removed_at IS NULL
                FOR UPDATE OF kept SKIP LOCKED
            ) AS free
            WHERE ended.repository_id = free.repository_id AND ended.oid = free.oid;
        END IF;
        RETURN NULL;
    END
    $function$
"""
_COUNT_CHANGED = """
    CREATE FUNCTION storage.count_changed_objects() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        INSERT INTO storage.usage_deltas (repository_id, user_id, object_count, object_bytes)
        SELECT repository_id, added_by, sum(number), sum(bytes) FROM (
            SELECT repository_id, added_by, -1 AS number, -size AS bytes FROM was WHERE removed_at IS NULL
            UNION ALL
            SELECT repository_id, added_by, 1, size FROM became WHERE removed_at IS NULL
        ) AS changed
        GROUP BY 1, 2 HAVING sum(number) <> 0 OR sum(bytes) <> 0;
        RETURN NULL;
    END
    $function$
"""
_COUNT_DELETED = """
    CREATE FUNCTION storage.count_deleted_objects() RETURNS trigger LANGUAGE plpgsql AS $function$
    BEGIN
        INSERT INTO storage.usage_deltas (repository_id, user_id, object_count, object_bytes)
        SELECT repository_id, added_by, -count(*), -sum(size) FROM gone WHERE removed_at IS NULL GROUP BY 1, 2;
        RETURN NULL;
    END
    $function$
"""
_TRIGGERS = (
    "CREATE TRIGGER objects_added AFTER INSERT ON storage.objects REFERENCING NEW TABLE AS added"
    " FOR EACH STATEMENT EXECUTE FUNCTION storage.count_added_objects()",
    "CREATE TRIGGER objects_changed AFTER UPDATE ON storage.objects REFERENCING OLD TABLE AS was NEW TABLE AS became"
    " FOR EACH STATEMENT EXECUTE FUNCTION storage.count_changed_objects()",
    "CREATE TRIGGER objects_deleted AFTER DELETE ON storage.objects REFERENCING OLD TABLE AS gone"
    " FOR EACH STATEMENT EXECUTE FUNCTION storage.count_deleted_objects()",
)
_FILL = """
    INSERT INTO storage.usage_totals (repository_id, object_count, object_bytes)
    SELECT repository_id, count(*), sum(size) FROM storage.objects WHERE removed_at IS NULL GROUP BY 1
"""
# What is held today counts as held a month ago: growth begins with this migration.
_FILL_DAYS = """
    INSERT INTO storage.daily_usage (repository_id, day, object_count, object_bytes)
    SELECT repository_id, CAST(now() AT TIME ZONE 'UTC' AS date) - 30, object_count, object_bytes
    FROM storage.usage_totals
"""

# A function, as its statements see what was committed before the lock was taken. What is held and what is reserved is
# read by one statement, because an upload moves from one to the other in the transaction that commits it.
_RESERVE = """
    CREATE FUNCTION storage.reserve(
        in_repository bigint, repository_quota bigint, for_user bigint, user_quota bigint,
        oids text[], sizes bigint[], seconds double precision,
        upload_oids text[], upload_ids bigint[], most_announced bigint
    )
    RETURNS TABLE (refused_by smallint, used bigint, quota bigint)
    LANGUAGE plpgsql AS $function$
    DECLARE
        ends_at timestamptz := clock_timestamp() + seconds * interval '1 second';
        asked record;
        in_repository_used bigint;
        for_user_used bigint;
        is_over_repository boolean := false;
        admitted_oids text[] := '{}';
        admitted_sizes bigint[] := '{}';
    BEGIN
        IF NOT EXISTS (
            SELECT FROM unnest(oids, sizes) AS one (oid, size)
            LEFT JOIN storage.reservations AS kept
                ON kept.repository_id = in_repository AND kept.oid = one.oid AND kept.size >= one.size
                AND kept.expires_at >= ends_at AND (user_quota IS NULL OR kept.user_id = for_user)
            WHERE kept.oid IS NULL
        ) THEN
            UPDATE storage.reservations AS kept SET uploads = kept.uploads || found.ids
            FROM (
                SELECT one.oid, (
                    SELECT array_agg(upload.id) FROM unnest(upload_oids, upload_ids) AS upload (oid, id)
                    WHERE upload.oid = one.oid
                ) AS ids
                FROM storage.reservations AS one
                WHERE one.repository_id = in_repository AND one.oid = ANY(upload_oids)
                ORDER BY one.oid FOR NO KEY UPDATE
            ) AS found
            WHERE kept.repository_id = in_repository AND kept.oid = found.oid;
            RETURN QUERY SELECT 0::smallint, 0::bigint, 0::bigint FROM unnest(oids);
            RETURN;
        END IF;
        IF repository_quota IS NOT NULL THEN
            PERFORM pg_advisory_xact_lock(hashtextextended('towpath storage quota of repository ' || in_repository, 0));
        END IF;
        IF user_quota IS NOT NULL THEN
            PERFORM pg_advisory_xact_lock(hashtextextended('towpath storage quota of user ' || for_user, 0));
        END IF;
        ends_at := clock_timestamp() + seconds * interval '1 second';
        FOR asked IN
            WITH live AS MATERIALIZED (
                SELECT kept.* FROM storage.reservations AS kept
                WHERE (kept.repository_id = in_repository OR kept.user_id = for_user)
                    AND kept.expires_at > clock_timestamp()
                    AND NOT EXISTS (
                        SELECT FROM storage.objects AS held
                        WHERE held.repository_id = kept.repository_id AND held.oid = kept.oid
                            AND held.removed_at IS NULL
                    )
            ), sums AS MATERIALIZED (
                SELECT (
                    SELECT coalesce(sum(bytes), 0) FROM (
                        SELECT object_bytes FROM storage.usage_totals WHERE repository_id = in_repository
                        UNION ALL SELECT object_bytes FROM storage.usage_deltas WHERE repository_id = in_repository
                        UNION ALL SELECT size FROM live WHERE repository_id = in_repository
                    ) AS parts (bytes)
                ) AS of_repository, (
                    SELECT coalesce(sum(bytes), 0) FROM (
                        SELECT object_bytes FROM storage.user_totals WHERE user_id = for_user
                        UNION ALL SELECT object_bytes FROM storage.usage_deltas WHERE user_id = for_user
                        UNION ALL SELECT size FROM live WHERE user_id = for_user
                    ) AS parts (bytes)
                ) AS of_user, (SELECT count(*) FROM live WHERE repository_id = in_repository) AS announced
            )
            SELECT one.oid, one.size, held.oid IS NOT NULL AS is_held, sums.of_repository, sums.of_user,
                live.oid IS NOT NULL OR coalesce(sums.announced < most_announced, true) AS is_recorded,
                greatest(one.size - coalesce(live.size, 0), 0) AS repository_needs,
                greatest(one.size - CASE WHEN live.user_id = for_user THEN live.size ELSE 0 END, 0) AS user_needs
            FROM unnest(oids, sizes) WITH ORDINALITY AS one (oid, size, number)
            CROSS JOIN sums
            LEFT JOIN live ON live.repository_id = in_repository AND live.oid = one.oid
            LEFT JOIN storage.objects AS held
                ON held.repository_id = in_repository AND held.oid = one.oid AND held.removed_at IS NULL
            ORDER BY one.number
        LOOP
            in_repository_used := coalesce(in_repository_used, asked.of_repository);
            for_user_used := coalesce(for_user_used, asked.of_user);
            refused_by := 0;
            IF asked.is_held THEN
                NULL;
            ELSIF asked.repository_needs > 0 AND asked.repository_needs > repository_quota - in_repository_used THEN
                refused_by := 1;
                is_over_repository := true;
            ELSIF asked.user_needs > 0 AND asked.user_needs > user_quota - for_user_used THEN
                refused_by := 2;
            ELSE
                in_repository_used := in_repository_used + asked.repository_needs;
                for_user_used := for_user_used + asked.user_needs;
                IF asked.is_recorded THEN
                    admitted_oids := admitted_oids || CAST(asked.oid AS text);
                    admitted_sizes := admitted_sizes || asked.size;
                END IF;
            END IF;
            used := CASE refused_by WHEN 2 THEN for_user_used ELSE in_repository_used END;
            quota := CASE refused_by WHEN 2 THEN user_quota ELSE coalesce(repository_quota, 0) END;
            RETURN NEXT;
        END LOOP;
        INSERT INTO storage.reservations AS kept (repository_id, oid, size, user_id, expires_at, uploads)
        SELECT in_repository, one.oid, one.size, for_user, ends_at, ARRAY(
            SELECT upload.id FROM unnest(upload_oids, upload_ids) AS upload (oid, id) WHERE upload.oid = one.oid
        )
        FROM unnest(admitted_oids, admitted_sizes) AS one (oid, size) ORDER BY one.oid
        ON CONFLICT (repository_id, oid) DO UPDATE SET
            size = CASE WHEN kept.expires_at > clock_timestamp() THEN greatest(kept.size, excluded.size)
                ELSE excluded.size END,
            user_id = excluded.user_id,
            expires_at = greatest(kept.expires_at, excluded.expires_at),
            uploads = kept.uploads || excluded.uploads;
        IF is_over_repository THEN
            INSERT INTO storage.quota_levels AS known
                (repository_id, level, used_bytes, quota_bytes, is_told, reached_at, refused_at)
            VALUES (in_repository, 2, in_repository_used, repository_quota, false, now(), now())
            ON CONFLICT (repository_id) DO UPDATE SET
                level = excluded.level,
                used_bytes = excluded.used_bytes,
                quota_bytes = excluded.quota_bytes,
                is_told = known.is_told AND known.level = excluded.level,
                reached_at = CASE known.level WHEN excluded.level THEN known.reached_at ELSE excluded.reached_at END,
                refused_at = excluded.refused_at
            WHERE known.level < excluded.level OR coalesce(known.refused_at < now() - interval '1 minute', true);
        END IF;
    END
    $function$
"""
_ARGUMENTS = "bigint, bigint, bigint, bigint, text[], bigint[], double precision, text[], bigint[], bigint"


def upgrade() -> None:
    """Make the tables, the column, the triggers and the function, and count what is held.

    The new column comes first: its lock keeps everybody from the objects until they are counted.
    """
    op.add_column("objects", sa.Column("added_by", sa.BigInteger()), schema="storage")
    op.create_table(
        "repository_limits",
        sa.Column("repository_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("quota_bytes", sa.BigInteger(), nullable=True),
        sa.Column("bandwidth_bytes", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("repository_id"),
        schema="storage",
    )
    op.create_table(
        "usage_deltas",
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=True),
        sa.Column("object_count", sa.BigInteger(), nullable=False),
        sa.Column("object_bytes", sa.BigInteger(), nullable=False),
        schema="storage",
    )
    for table, key in (("usage_totals", "repository_id"), ("user_totals", "user_id")):
        op.create_table(
            table,
            sa.Column(key, sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("object_count", sa.BigInteger(), nullable=False),
            sa.Column("object_bytes", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint(key),
            schema="storage",
        )
    op.create_table(
        "reservations",
        sa.Column("repository_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("oid", sa.String(64, collation="C"), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("uploads", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.PrimaryKeyConstraint("repository_id", "oid"),
        schema="storage",
        prefixes=["UNLOGGED"],
    )
    op.create_index(
        "reservations_user_id",
        "reservations",
        ["user_id"],
        schema="storage",
        postgresql_where=sa.text("user_id IS NOT NULL"),
    )
    op.create_table(
        "daily_usage",
        sa.Column("repository_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("object_count", sa.BigInteger(), nullable=False),
        sa.Column("object_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("repository_id", "day"),
        schema="storage",
    )
    op.create_table(
        "quota_levels",
        sa.Column("repository_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("level", sa.SmallInteger(), nullable=False),
        sa.Column("used_bytes", sa.BigInteger(), nullable=False),
        sa.Column("quota_bytes", sa.BigInteger(), nullable=False),
        sa.Column("is_told", sa.Boolean(), nullable=False),
        sa.Column("reached_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("refused_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("repository_id"),
        schema="storage",
    )
    for statement in (_COUNT_ADDED, _COUNT_CHANGED, _COUNT_DELETED, *_TRIGGERS, _FILL, _FILL_DAYS, _RESERVE):
        op.execute(statement)


def downgrade() -> None:
    """Drop all of it."""
    op.execute(f"DROP FUNCTION storage.reserve({_ARGUMENTS})")
    for change in ("added", "changed", "deleted"):
        op.execute(f"DROP TRIGGER objects_{change} ON storage.objects")
        op.execute(f"DROP FUNCTION storage.count_{change}_objects()")
    usage = ("daily_usage", "user_totals", "usage_totals", "usage_deltas")
    for table in ("quota_levels", "reservations", "repository_limits", *usage):
        op.drop_table(table, schema="storage")
    op.drop_column("objects", "added_by", schema="storage")
