"""Announcements that reserve a tenth of what is left, and partial uploads that count with the bytes that came."""

from collections.abc import Sequence

from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# As `storage.reserve`, which services of the version before call, but:
# - The announcements of a user reserve at most a tenth of what the quota of the repository leaves beside them, and take
#   over no reservation of another user. What they do not reserve is admitted if it fits, and its upload reserves.
#   `most_announced` is NULL for uploads, which reserve all of their size.
# - A partial upload counts with the bytes that have come. While a call goes on with it, its reservation counts instead.
_ADMIT = """
    CREATE FUNCTION storage.admit(
        in_repository bigint, repository_quota bigint, for_user bigint, user_quota bigint,
        oids text[], sizes bigint[], seconds double precision,
        upload_oids text[], upload_ids bigint[], most_announced bigint
    )
    RETURNS TABLE (refused_by smallint, used bigint, quota bigint, is_reserved boolean)
    LANGUAGE plpgsql AS $function$
    DECLARE
        ends_at timestamptz := clock_timestamp() + seconds * interval '1 second';
        asked record;
        in_repository_used bigint;
        for_user_used bigint;
        announceable bigint;
        renewed bigint;
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
            GET DIAGNOSTICS renewed = ROW_COUNT;
            -- Not if one has just been given back.
            IF renewed = (SELECT count(DISTINCT one) FROM unnest(upload_oids) AS one) THEN
                RETURN QUERY SELECT 0::smallint, 0::bigint, 0::bigint, true FROM unnest(oids);
                RETURN;
            END IF;
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
                SELECT kept.repository_id, kept.oid, kept.user_id, kept.size, kept.uploads = '{}' AS is_announced
                FROM storage.reservations AS kept
                WHERE (kept.repository_id = in_repository OR kept.user_id = for_user)
                    AND kept.expires_at > clock_timestamp()
                UNION ALL
                SELECT came.repository_id, came.oid, came.user_id,
                    greatest(came.received - coalesce(kept.size, 0), 0), false
                FROM storage.partial_uploads AS came
                LEFT JOIN storage.reservations AS kept ON kept.repository_id = came.repository_id
                    AND kept.oid = came.oid AND coalesce(kept.user_id, 0) = came.user_id
                    AND kept.expires_at > clock_timestamp()
                WHERE came.repository_id = in_repository OR came.user_id = for_user
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
                ) AS of_user, (SELECT count(*) FROM live WHERE repository_id = in_repository) AS announced, (
                    SELECT coalesce(sum(size), 0) FROM live
                    WHERE repository_id = in_repository AND is_announced AND user_id IS NOT DISTINCT FROM for_user
                ) AS own_announced
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
                bound.own_announced, most_announced IS NULL OR CASE WHEN kept.oid IS NULL
                    THEN bound.announced < most_announced ELSE kept.user_id IS NOT DISTINCT FROM for_user
                END AS is_recorded,
                greatest(one.size - greatest(kept.size, came.received, 0), 0) AS repository_needs,
                greatest(one.size - greatest(
                    CASE WHEN kept.user_id IS NOT DISTINCT FROM for_user THEN kept.size END, came.received, 0
                ), 0) AS user_needs
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
            LEFT JOIN LATERAL (
                SELECT mine.received FROM storage.partial_uploads AS mine WHERE mine.repository_id = in_repository
                    AND mine.oid = one.oid AND mine.size = one.size AND mine.user_id = coalesce(for_user, 0) LIMIT 1
            ) AS came ON true
            ORDER BY one.number
        LOOP
            in_repository_used := coalesce(in_repository_used, asked.of_repository);
            for_user_used := coalesce(for_user_used, asked.of_user);
            announceable := coalesce(announceable, greatest(
                div(repository_quota - asked.of_repository + asked.own_announced, 10) - asked.own_announced, 0
            ));
            refused_by := 0;
            is_reserved := false;
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
                is_reserved := asked.is_recorded AND (
                    most_announced IS NULL OR repository_quota IS NULL OR asked.user_needs <= announceable
                );
                IF is_reserved THEN
                    announceable := announceable - asked.user_needs;
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
    """Make the function, and the index by which it finds the partial uploads of a user."""
    op.create_index("ix_storage_partial_uploads_user_id", "partial_uploads", ["user_id"], schema="storage")
    op.execute(_ADMIT)


def downgrade() -> None:
    """Drop them."""
    op.execute(f"DROP FUNCTION storage.admit({_ARGUMENTS})")
    op.drop_index("ix_storage_partial_uploads_user_id", "partial_uploads", schema="storage")
