"""Reservations in quotas that look objects up only where what is reserved does not fit without it."""

from collections.abc import Sequence

from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# A function, as its statements see what was committed before the lock was taken. What is held and what is reserved is
# read by one statement, because an upload moves from one to the other in the transaction that commits it. A
# reservation of an object that is held counts nothing; those are looked up, which costs an index lookup for each
# reservation, only where the sum with them does not fit. LIMIT keeps the planner from reading all objects instead.
_RESERVE = """
    CREATE OR REPLACE FUNCTION storage.reserve(
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
                SELECT kept.repository_id, kept.oid, kept.user_id, kept.size FROM storage.reservations AS kept
                WHERE (kept.repository_id = in_repository OR kept.user_id = for_user)
                    AND kept.expires_at > clock_timestamp()
            ), bound AS MATERIALIZED (
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
            ), excess AS MATERIALIZED (
                SELECT coalesce(sum(live.size) FILTER (WHERE live.repository_id = in_repository), 0) AS of_repository,
                    coalesce(sum(live.size) FILTER (WHERE live.user_id = for_user), 0) AS of_user
                FROM live
                CROSS JOIN LATERAL (
                    SELECT FROM storage.objects AS held
                    WHERE held.repository_id = live.repository_id AND held.oid = live.oid AND held.removed_at IS NULL
                    LIMIT 1
                ) AS is_held
                WHERE (
                    SELECT coalesce(bound.of_repository + sum(size) > repository_quota, false)
                        OR coalesce(bound.of_user + sum(size) > user_quota, false)
                    FROM bound, unnest(sizes) AS size GROUP BY bound.of_repository, bound.of_user
                )
            )
            SELECT one.oid, one.size, held.oid IS NOT NULL AS is_held,
                bound.of_repository - excess.of_repository AS of_repository, bound.of_user - excess.of_user AS of_user,
                kept.oid IS NOT NULL OR coalesce(bound.announced < most_announced, true) AS is_recorded,
                greatest(one.size - coalesce(kept.size, 0), 0) AS repository_needs,
                greatest(one.size - CASE WHEN kept.user_id = for_user THEN kept.size ELSE 0 END, 0) AS user_needs
            FROM unnest(oids, sizes) WITH ORDINALITY AS one (oid, size, number)
            CROSS JOIN bound CROSS JOIN excess
            LEFT JOIN LATERAL (
                SELECT * FROM storage.reservations AS mine WHERE mine.repository_id = in_repository
                    AND mine.oid = one.oid AND mine.expires_at > clock_timestamp() LIMIT 1
            ) AS kept ON true
            LEFT JOIN LATERAL (
                SELECT * FROM storage.objects AS mine
                WHERE mine.repository_id = in_repository AND mine.oid = one.oid AND mine.removed_at IS NULL LIMIT 1
            ) AS held ON true
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
_RESERVE_OF_0009 = """
    CREATE OR REPLACE FUNCTION storage.reserve(
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


def upgrade() -> None:
    """Replace the function."""
    op.execute(_RESERVE)


def downgrade() -> None:
    """Bring the function of 0009 back."""
    op.execute(_RESERVE_OF_0009)
