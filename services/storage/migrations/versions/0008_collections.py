"""Collection of garbage: what refs retain, when an object was last asked for, and removals that an upload ends."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# The function of 0005, which ends collections of what arrives first: as a statement of its own, because a trigger for
# each statement fires for every INSERT that may update the column removed_at.
_COMMIT_JOURNALED = """
    CREATE OR REPLACE FUNCTION storage.commit_journaled(
        segment text, alone text[], shared text[],
        repository_ids bigint[], oids text[], sizes bigint[], names text[]
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
                created_at = now()
            FROM unnest(repository_ids, oids) AS asked (repository_id, oid)
            WHERE objects.repository_id = asked.repository_id AND objects.oid = asked.oid AND objects.is_collected;
        END IF;
        RETURN QUERY
        WITH asked AS (
            SELECT * FROM unnest(repository_ids, oids, sizes, names)
                WITH ORDINALITY AS one (repository_id, oid, size, name, number)
        ), added AS (
            INSERT INTO storage.objects AS held (repository_id, oid, size)
            SELECT asked.repository_id, asked.oid, asked.size FROM asked
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


_REVIVAL = _COMMIT_JOURNALED[
    _COMMIT_JOURNALED.index("        IF EXISTS (") : _COMMIT_JOURNALED.index("        RETURN QUERY")
]
_WITHOUT_COLLECTIONS = _COMMIT_JOURNALED.replace(_REVIVAL, "").replace(", used_at = now()", "")


def upgrade() -> None:
    """Add the columns and tables. `used_at` is NULL for an object that nobody has asked for since it came.

    A service of the version before refuses uploads of collected objects, and records no use.
    """
    op.add_column("objects", sa.Column("used_at", sa.DateTime(timezone=True)), schema="storage")
    op.add_column(
        "objects",
        sa.Column("is_collected", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        schema="storage",
    )
    op.create_index(
        "objects_collected",
        "objects",
        ["repository_id", "oid"],
        schema="storage",
        postgresql_where=sa.text("is_collected"),
    )
    op.create_table(
        "collections",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("is_ended", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        schema="storage",
    )
    op.create_table(
        "retained_oids",
        sa.Column("collection_id", sa.BigInteger(), nullable=False),
        sa.Column("oid", sa.String(64, collation="C"), nullable=False),
        sa.PrimaryKeyConstraint("collection_id", "oid"),
        sa.ForeignKeyConstraint(["collection_id"], ["storage.collections.id"], ondelete="CASCADE"),
        schema="storage",
    )
    op.create_table(
        "collection_turns",
        sa.Column("repository_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("held_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("repository_id"),
        schema="storage",
    )
    op.execute(_COMMIT_JOURNALED)


def downgrade() -> None:
    """Drop them, and let collected objects be removed ones."""
    op.drop_table("collection_turns", schema="storage")
    op.drop_table("retained_oids", schema="storage")
    op.drop_table("collections", schema="storage")
    op.drop_index("objects_collected", "objects", schema="storage")
    # A function is replaced by one without the columns before these go.
    op.execute(_WITHOUT_COLLECTIONS)
    op.drop_column("objects", "is_collected", schema="storage")
    op.drop_column("objects", "used_at", schema="storage")
