"""Quotas of users and of groups, and commits from the journal that record who brought an object."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_ARGUMENTS = "text, text[], text[], bigint[], text[], bigint[], text[], bigint[]"

# The function of migration 0008, which services of the version before call, with the users as another argument.
_COMMIT_JOURNALED = """
    CREATE FUNCTION storage.commit_journaled(
        segment text, alone text[], shared text[],
        repository_ids bigint[], oids text[], sizes bigint[], names text[], user_ids bigint[]
    )
    RETURNS TABLE (created_at timestamptz, removal_reason text, is_replacing boolean)
    LANGUAGE plpgsql AS $function$
    DECLARE
        in_store smallint;
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtextextended('towpath storage ' || lock_name, 0))
        FROM unnest(alone) AS lock_name;
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('towpath storage ' || lock_name, 0))
        FROM unnest(shared) AS lock_name;
        SELECT store_id INTO in_store FROM storage.journal_segments WHERE name = segment FOR KEY SHARE;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        IF EXISTS (
            SELECT FROM unnest(repository_ids, oids) AS asked (repository_id, oid)
            JOIN storage.objects USING (repository_id, oid) WHERE objects.is_collected
        ) THEN
            UPDATE storage.objects
            SET removed_at = NULL, removal_reason = NULL, removed_by = NULL, bin_until = NULL, is_collected = false,
                created_at = now(), added_by = asked.user_id
            FROM unnest(repository_ids, oids, user_ids) AS asked (repository_id, oid, user_id)
            WHERE objects.repository_id = asked.repository_id AND objects.oid = asked.oid AND objects.is_collected;
        END IF;
        RETURN QUERY
        WITH asked AS (
            SELECT * FROM unnest(repository_ids, oids, sizes, names, user_ids)
                WITH ORDINALITY AS one (repository_id, oid, size, name, user_id, number)
        ), added AS (
            INSERT INTO storage.objects AS held (repository_id, oid, size, added_by)
            SELECT asked.repository_id, asked.oid, asked.size, asked.user_id FROM asked
            WHERE NOT EXISTS (
                SELECT FROM storage.deleted_repositories AS deleted WHERE deleted.repository_id = asked.repository_id
            )
            ON CONFLICT (repository_id, oid) DO UPDATE SET size = excluded.size, used_at = now()
            WHERE held.removed_at IS NULL
            RETURNING held.repository_id, held.oid, held.created_at
        ), arrived AS (
            SELECT DISTINCT ON (asked.oid) asked.oid, asked.name, present.name AS present, present.writable_until
            FROM asked
            JOIN added USING (oid)
            LEFT JOIN storage.contents AS present ON present.oid = asked.oid AND present.store_id = in_store
        ), named AS (
            INSERT INTO storage.contents (store_id, oid, name, is_doubted)
            SELECT in_store, arrived.oid, arrived.name, false FROM arrived
            ON CONFLICT (oid, store_id) DO UPDATE
            SET name = excluded.name, writable_until = NULL, is_doubted = false
        ), discarded AS (
            INSERT INTO storage.discards (store_id, name, writable_until, due_at)
            SELECT in_store, arrived.present, arrived.writable_until, now() FROM arrived
            WHERE arrived.present <> arrived.name
            ON CONFLICT DO NOTHING
        )
        SELECT added.created_at, CAST(tombstones.removal_reason AS text),
            COALESCE(arrived.present <> arrived.name, false)
        FROM asked
        LEFT JOIN added USING (repository_id, oid)
        LEFT JOIN arrived USING (oid)
        LEFT JOIN storage.objects AS tombstones
            ON tombstones.repository_id = asked.repository_id AND tombstones.oid = asked.oid
            AND tombstones.removed_at IS NOT NULL
        ORDER BY asked.number;
    END
    $function$
"""


def upgrade() -> None:
    """Make the tables, and the function."""
    for party in ("user", "group"):
        op.create_table(
            f"{party}_limits",
            sa.Column(f"{party}_id", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("quota_bytes", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint(f"{party}_id"),
            schema="storage",
        )
    op.create_table(
        "limited_group_members",
        sa.Column("group_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("user_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("group_id", "user_id"),
        sa.ForeignKeyConstraint(["group_id"], ["storage.group_limits.group_id"], ondelete="CASCADE"),
        schema="storage",
    )
    op.execute(_COMMIT_JOURNALED)


def downgrade() -> None:
    """Drop all of it."""
    op.execute(f"DROP FUNCTION storage.commit_journaled({_ARGUMENTS})")
    for table in ("limited_group_members", "group_limits", "user_limits"):
        op.drop_table(table, schema="storage")
