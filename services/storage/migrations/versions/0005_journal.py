"""Objects whose bytes are in a journal are committed by one statement, and need not be noted before."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_ARGUMENTS = "text, text[], text[], bigint[], text[], bigint[], text[]"

# A function, as each of its statements sees what was committed before it began: what is read after the locks is what
# they keep from changing. The names of the locks are those of `services.storage.advisory`, in its order.
_COMMIT_JOURNALED = """
    CREATE FUNCTION storage.commit_journaled(
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
            ON CONFLICT (repository_id, oid) DO UPDATE SET size = excluded.size WHERE held.removed_at IS NULL
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
    """Make the table of segments, and the function."""
    op.create_table(
        "journal_segments",
        sa.Column("name", sa.String(16, collation="C"), nullable=False),
        sa.Column("store_id", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sa.ForeignKeyConstraint(["store_id"], ["storage.stores.id"], ondelete="CASCADE"),
        schema="storage",
    )
    op.execute(_COMMIT_JOURNALED)


def downgrade() -> None:
    """Drop both."""
    op.execute(f"DROP FUNCTION storage.commit_journaled({_ARGUMENTS})")
    op.drop_table("journal_segments", schema="storage")
